"""The preempt verb: keeps those of kube-scheduler's candidates that kubextend's filters accept.

kube-scheduler runs only its in-tree filters to choose candidate nodes, and victims to evict there.
On a candidate that kubextend's filters reject, kube-scheduler would evict pods for nothing, again
and again.

A pod group with the disruptionMode ``all`` is one victim on every node that it is on. An answer can
name only the victims on the candidate node. By default, preempt offers no candidate that has other
victims. With ``preemptGroups``, preempt abstains if each candidate passes, and kube-scheduler goes
on with its own candidates and their whole groups.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import orjson

from kubextend import core
from kubextend.config import VerbName
from kubextend.errors import PluginError
from kubextend.framework.cycle_state import CycleState
from kubextend.profile import Profile
from kubextend.profile.plugin_failures import sentence
from kubextend.verbs.answer import ABSTAINS, NO_VICTIMS, Answer, Body
from kubextend.verbs.decision_records import VerbCall
from kubextend.verbs.filter_outside_request import GoesOn
from kubextend.verbs.request_metrics import NODES
from kubextend.verbs.unplaced_pods import NOT_PERMITTED
from kubextend.verbs.verb_interface import QuickVerb

__all__ = ["PreemptVerb"]


class PreemptVerb(QuickVerb[core.PreemptionArgs]):
    """The preempt verb: runs the filters of the pod's profile over every candidate.

    The filters check each candidate on a cluster without the victims of that candidate, because
    kube-scheduler evicts the pods of one node only. While filters read no node but the one that
    they check, the victims of other candidates change nothing, and one attempt checks all
    candidates. Otherwise each candidate has an attempt of its own. kubextend leaves out candidates
    whose attempt does not begin within half of the timeout: kube-scheduler needs only one
    candidate.

    The answer offers candidates whose victims are all on the candidate node. If there are none,
    then with ``preemptGroups`` it offers the others, and names the victims on the candidate node.
    """

    name: ClassVar[VerbName] = "preempt"
    # With preemptGroups, kube-scheduler ignores a status, and evicts pods that nobody has judged.
    answers_refusals: ClassVar[bool] = True

    @property
    def on_thread(self) -> bool:
        """Whether filtering runs Python code in any profile."""
        return self._context.profiles.filter_in_python

    def read(self, body: Body) -> core.PreemptionArgs:
        """Read the ExtenderPreemptionArgs of a request.

        Raises: WireError: the body cannot be read.
        """
        return self._context.stores.read_preemption_args(body)

    def dispensable(self, args: core.PreemptionArgs) -> frozenset[str]:
        """Return no plugin name: without the answer of every filter no pod is evicted."""
        del args
        return frozenset()

    def instead(self, why: str, args: core.PreemptionArgs | None = None) -> Answer:
        """Return an answer without candidates and without ``why``: kube-scheduler evicts no pod."""
        del why, args
        return NO_VICTIMS

    def answer(self, args: core.PreemptionArgs) -> Answer:
        """Return an ExtenderPreemptionResult; an empty one, on failure, ends the preemption."""
        if args.pod is None:
            return NO_VICTIMS
        self._context.metrics.histogram(NODES, self.name).observe(len(args.nodes))
        profile = self._context.profiles.for_pod(args.pod)
        unknown = self._context.unknown_schedulers.why_rejected(args.pod)
        said = self._context.memory.unplaced.why_not_tried(args.pod)
        if unknown or said is not None:
            # filter rejects every node, so pods would be evicted for nothing, again and again.
            note = unknown if said is None else f"{NOT_PERMITTED}: {said.reason}"
            self._decisions.add(args.pod, VerbCall(self.name, note=note))
            return NO_VICTIMS._replace(result="unknown_scheduler" if unknown else "ok")
        if profile is None or not profile.rejects:
            every = self._nameable(args, args.nodes.everything())
            return ABSTAINS if self._may_abstain(args) else Answer(args.result(every))
        if why_not := self._context.readiness.why_not(self.name, profile):
            self._decisions.add(args.pod, VerbCall(self.name, error=why_not))
            return NO_VICTIMS
        try:
            answer = self._offer(self._context.judging(profile, args.pod), args, args.pod)
        except PluginError as error:
            call = VerbCall(self.name, error=sentence(error))
            call.blame(error)
            self._decisions.add(args.pod, call)
            self._context.failures.note(error, "no preemption")
            return NO_VICTIMS
        self._decisions.add(args.pod, VerbCall(self.name, note=_in_words(args, answer)))
        return answer

    def _offer(self, profile: Profile, args: core.PreemptionArgs, pod: core.Pod) -> Answer:
        """Return the answer with the candidates that the filters accept once the victims are gone.

        Raises: PluginError: a filter failed.
        """
        found = self._passing(profile, args, pod, self._context.half_time())
        return ABSTAINS if found is None else Answer(args.result(found))

    def _passing(
        self, profile: Profile, args: core.PreemptionArgs, pod: core.Pod, goes_on: GoesOn
    ) -> core.Mask | None:
        """Return the candidates to offer; None: preempt abstains.

        Args:
            profile: the profile whose filters judge.
            args: the request.
            pod: the pod that preempts.
            goes_on: returns whether there is time to judge one more candidate.

        Raises: PluginError: a filter failed.
        """
        pods = profile.pods()
        passing, across_nodes = _judged(profile, args, pod, pods)
        alone = _Alone(profile, pod, pods, self._context.stores.read_preemption_args, goes_on)
        if across_nodes and len(args.nodes) > 1:
            passing = core.Mask(map(alone.passes, _candidates(args)))
        if self._may_abstain(args):
            every = map(alone.passes, _candidates(args, whole=True)) if across_nodes else passing
            if all(every):
                return None
        return self._nameable(args, passing)

    def _may_abstain(self, args: core.PreemptionArgs) -> bool:
        """Return whether preempt abstains from a request if every candidate passes."""
        return self._context.settings.preempt_groups and any(args.elsewhere)

    def _nameable(self, args: core.PreemptionArgs, passing: core.Mask) -> core.Mask:
        """Return the passing candidates whose victims an answer can name."""
        whole = passing & ~core.Mask(map(bool, args.elsewhere))
        in_part = self._context.settings.preempt_groups and not whole.any()
        return passing if in_part else whole


def _in_words(args: core.PreemptionArgs, answer: Answer) -> str:
    """Return what preempt was asked and what it answered, for the record."""
    asked = f"kube-scheduler would evict pods on {len(args.nodes)} nodes"
    if answer.abstains:
        return f"{asked}; kubextend abstains"
    offered = "no node" if bytes(answer.body) == NO_VICTIMS.body else "one or more of the nodes"
    return f"{asked}; kubextend allows {offered}"


def _judged(
    profile: Profile, args: core.PreemptionArgs, pod: core.Pod, pods: core.PodSnapshot | None
) -> tuple[core.Mask, bool]:
    """Run the filters over all candidates, as if all victims of all candidates were evicted.

    Returns the candidates that pass, and whether a filter asked for the pods of all nodes.
    """
    state = CycleState()
    if pods is not None:
        state.pods_seen = args.pods_left(pods)
    # Where the verdict on several candidates would need an attempt for each, it does not count.
    outcome = profile.find_nodes_that_fit(state, pod, args.nodes, None, lambda: False)
    return outcome.passing(args.nodes), pods is not None and state.asked_for_pods


@dataclass(frozen=True, slots=True)
class _Alone:
    """Judges candidates one by one, each on a cluster without its own victims.

    Attributes:
        profile: the profile whose filters judge.
        pod: the pod that preempts.
        pods: the pods of the cluster; None if no filter reads pods.
        read: reads the body of a preempt request.
        goes_on: returns whether there is time to judge one more candidate.
    """

    profile: Profile
    pod: core.Pod
    pods: core.PodSnapshot | None
    read: Callable[[Body], core.PreemptionArgs]
    goes_on: GoesOn

    def passes(self, candidate: tuple[str, Mapping[str, Sequence[str]]]) -> bool:
        """Return whether a node passes without some pods; False if the time is over.

        Args:
            candidate: the node's name, and the UIDs of the pods that are gone, by node.

        Raises: PluginError: a filter failed.
        """
        if not self.goes_on():
            return False
        name, gone = candidate
        victims = {node: {"Pods": [{"UID": uid} for uid in uids]} for node, uids in gone.items()}
        args = self.read(orjson.dumps({"NodeNameToMetaVictims": victims}))
        passing, _ = _judged(self.profile, args, self.pod, self.pods)
        return passing[args.nodes.names.index(name)]


def _candidates(
    args: core.PreemptionArgs, *, whole: bool = False
) -> Iterator[tuple[str, Mapping[str, Sequence[str]]]]:
    """Yield the name of each candidate node, and the UIDs of its victims by node.

    Args:
        args: the request.
        whole: whether the victims on other nodes are among them.
    """
    for name, (uids, _), others in zip(args.nodes.names, args.victims, args.elsewhere, strict=True):
        gone = {name: [*uids]}
        for node, uid in others if whole else ():
            gone.setdefault(node, []).append(uid)
        yield name, gone
