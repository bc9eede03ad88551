"""The preempt verb: keeps those of kube-scheduler's candidates that kubextend's filters accept.

kube-scheduler runs only its in-tree filters to choose candidate nodes, and victims to evict there.
On a candidate that kubextend's filters reject, kube-scheduler would evict pods for nothing, again
and again.
"""

from collections.abc import Iterator
from typing import ClassVar

import orjson

from kubextend import core
from kubextend.config import VerbName
from kubextend.errors import PluginError
from kubextend.framework.cycle_state import CycleState
from kubextend.profile import Profile
from kubextend.verbs.answer import NO_VICTIMS, Answer, Body
from kubextend.verbs.context import Context

__all__ = ["PreemptVerb"]


class PreemptVerb:
    """The preempt verb: runs the filters of the pod's profile over every candidate.

    The filters check each candidate on a cluster without the victims of that candidate, because
    kube-scheduler evicts the pods of one node only. While filters read no node but the one that
    they check, the victims of other candidates change nothing, and one attempt checks all
    candidates. Otherwise each candidate has an attempt of its own. kubextend leaves out candidates
    whose attempt does not begin within half of the timeout: kube-scheduler needs only one
    candidate.

    Args:
        context: what all verbs share.
    """

    name: ClassVar[VerbName] = "preempt"

    def __init__(self, context: Context) -> None:
        self._context = context

    @property
    def in_python(self) -> bool:
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
        """Return an answer without candidates, so that no pod is evicted; ``why`` is not told."""
        del why, args
        return NO_VICTIMS

    def answer(self, args: core.PreemptionArgs) -> Answer:
        """Return an ExtenderPreemptionResult; an empty one, on failure, ends the preemption."""
        if args.pod is None:
            return NO_VICTIMS
        self._context.metrics.nodes(self.name).observe(len(args.nodes))
        profile = self._context.profiles.for_pod(args.pod)
        if profile is None or not profile.rejects:
            return self._context.unknown_schedulers.passes(
                args.pod, Answer(args.result(args.nodes.everything()))
            )
        if self._context.readiness.why_not(self.name, profile):
            return NO_VICTIMS
        try:
            passing = self._passing(profile, args, args.pod)
        except PluginError as error:
            self._context.failures.note(error, "no preemption")
            return NO_VICTIMS
        return Answer(args.result(passing))

    def _passing(self, profile: Profile, args: core.PreemptionArgs, pod: core.Pod) -> core.Mask:
        """Return the candidates that the filters accept once the victims are gone.

        Raises: PluginError: a filter failed.
        """
        goes_on = self._context.half_time()
        pods = profile.pods()
        passing, across_nodes = _judged(profile, args, pod, pods)
        if not across_nodes or len(args.nodes) < 2:  # noqa: PLR2004  a single candidate was judged alone
            return passing
        read = self._context.stores.read_preemption_args
        return core.Mask(
            goes_on() and _judged(profile, read(body), pod, pods)[0].any()
            for body in _one_by_one(args)
        )


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


def _one_by_one(args: core.PreemptionArgs) -> Iterator[bytes]:
    """Yield, for each candidate, the body of a preempt request with that candidate alone."""
    for name, (uids, _) in zip(args.nodes.names, args.victims, strict=True):
        victims = {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": 0}
        yield orjson.dumps({"NodeNameToMetaVictims": {name: victims}})
