"""The preempt verb: keeps those of kube-scheduler's candidates that kubextend's filters accept.

kube-scheduler runs only its in-tree filters to choose candidate nodes, and victims to evict there.
On a candidate that kubextend's filters reject, kube-scheduler would evict pods for nothing, again
and again.

Two kinds of candidates are never offered. From 1.38 on, a candidate may have no victims: its pod
passes kube-scheduler's own filters there, and kubextend's plugins choose no victims. And from 1.37
on, some of the victims may be on other nodes: a pod group with the disruptionMode ``all`` is one
victim on every node that it is on, and an answer can name only the victims on the candidate node.
"""

from typing import ClassVar, Final

import orjson

from kubextend import core
from kubextend.config import VerbName
from kubextend.errors import PluginError
from kubextend.framework.cycle_state import CycleState
from kubextend.profile import Profile
from kubextend.verbs.answer import NO_VICTIMS, Answer, Body
from kubextend.verbs.answer_in_time import TimedVerb
from kubextend.verbs.decision_records import VerbCall
from kubextend.verbs.request_metrics import NODES
from kubextend.verbs.unplaced_pods import NOT_PERMITTED

__all__ = ["PreemptVerb"]

# How many candidates are judged one by one: each costs a run of the filters, and kube-scheduler
# needs only one.
_MOST_ALONE: Final = 16


class PreemptVerb(TimedVerb[core.PreemptionArgs]):
    """The preempt verb: runs the filters of the pod's profile over every candidate.

    The filters check each candidate on a cluster without the victims of that candidate, because
    kube-scheduler evicts the pods of one node only. While filters read no node but the one that
    they check, the victims of other candidates change nothing, and one attempt checks all
    candidates. Otherwise each of 16 candidates has an attempt of its own, and others are not
    offered.
    """

    name: ClassVar[VerbName] = "preempt"
    # kube-scheduler ignores a status of an ignorable entry, and evicts pods that nobody has judged.
    answers_refusals: ClassVar[bool] = True

    def read(self, body: Body) -> core.PreemptionArgs:
        """Read the ExtenderPreemptionArgs of a request.

        Raises: WireError: the body cannot be read.
        """
        return self._context.read_preemption_args(body)

    def decide(self, body: Body, read: list[core.PreemptionArgs]) -> Answer:
        """Return an ExtenderPreemptionResult; an empty one, on failure, ends the preemption."""
        read.append(args := self.read(body))
        pod, nodes = args.pod, args.nodes
        if pod is None:
            return NO_VICTIMS
        self._context.metrics.histogram(NODES, self.name).observe(len(nodes))
        unknown = self._context.unknown_schedulers.why_rejected(pod)
        said = self._context.unplaced.why_not_tried(pod)
        if unknown or said is not None:
            # filter rejects every node, so pods would be evicted for nothing, again and again.
            note = unknown if said is None else f"{NOT_PERMITTED}: {said.reason}"
            self._decisions.add(pod, VerbCall(self.name, note=note))
            return NO_VICTIMS._replace(result="unknown_scheduler" if unknown else "ok")
        profile = self._context.profiles.for_pod(pod)
        nameable = ~core.Mask(map(bool, args.elsewhere))
        if profile is None or not profile.rejects:
            return Answer(args.result(nameable))
        if why_not := self._context.readiness.why_not(self.name, profile):
            self._decisions.add(pod, VerbCall(self.name, error=why_not))
            return NO_VICTIMS
        empty = core.Mask(not uids for uids, _ in args.victims) & nameable
        possible = nameable & ~empty
        try:
            judging = self._context.judging(profile, pod)
            passing = self._passing(judging, args, pod, possible) & possible
        except PluginError as error:
            self._blamed(pod, error, "no preemption")
            return NO_VICTIMS
        note = (
            f"kube-scheduler would evict pods on {len(nodes)} nodes; kubextend allows "
            f"{passing.count()} of them{_left_out(nameable, empty)}"
        )
        self._decisions.add(pod, VerbCall(self.name, note=note))
        return Answer(args.result(passing))

    def _passing(
        self, profile: Profile, args: core.PreemptionArgs, pod: core.Pod, possible: core.Mask
    ) -> core.Mask:
        """Return the candidates that the filters accept once the victims are gone.

        Args:
            profile: the profile whose filters judge.
            args: the request.
            pod: the pod that preempts.
            possible: the candidates that an answer can offer.

        Raises: PluginError: a filter failed.
        """
        passing, across_nodes = _judged(profile, args, pod)
        if not across_nodes or len(args.nodes) == 1:
            return passing
        names, victims, alone = args.nodes.names, args.victims, set[int]()
        # Those first that pass while the victims of all candidates are gone.
        for row in sorted(possible.indices(), key=lambda row: not passing[row])[:_MOST_ALONE]:
            of_one = {"Pods": [{"UID": uid} for uid in victims[row][0]]}
            body = orjson.dumps({"NodeNameToMetaVictims": {names[row]: of_one}})
            fits, _ = _judged(profile, self._context.read_preemption_args(body), pod)
            if fits.all():
                alone.add(row)
        return core.Mask(row in alone for row in range(len(names)))

    def instead(self, why: str, args: core.PreemptionArgs | None = None) -> Answer:
        """Return an answer without candidates and without ``why``: kube-scheduler evicts no pod."""
        del why, args
        return NO_VICTIMS


def _judged(profile: Profile, args: core.PreemptionArgs, pod: core.Pod) -> tuple[core.Mask, bool]:
    """Run the filters over all candidates, as if all victims of all candidates were evicted.

    Returns: the candidates that pass, and whether a filter asked for the pods of all nodes.
    """
    state, pods = CycleState(), profile.pods()
    if pods is not None:
        state.pods_seen = args.pods_left(pods)
    outcome = profile.find_nodes_that_fit(state, pod, args.nodes)
    return outcome.passing(args.nodes), pods is not None and state.asked_for_pods


def _left_out(nameable: core.Mask, empty: core.Mask) -> str:
    """Return in words which candidates are left out whatever filters say; "" if none are."""
    elsewhere, no_victims = (~nameable).count(), empty.count()
    said = f"; {no_victims} have no victims, and kubextend chooses none" if no_victims else ""
    return said + (f"; of {elsewhere} some victims are on other nodes" if elsewhere else "")
