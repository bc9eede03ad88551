"""preempt: kube-scheduler's candidates without those that our own filters would reject.

kube-scheduler tries its victims against its in-tree filters only. A candidate that we reject would
have its pods evicted for nothing, over and over.
"""

from kubextend.errors import PluginError
from kubextend.framework.cycle_state import CycleState
from kubextend.metrics import Metrics
from kubextend.profile import Profiles
from kubextend.verbs.answer import NO_VICTIMS, Answer, Body
from kubextend.verbs.failures import Failures
from kubextend.verbs.stores import Stores
from kubextend.verbs.verdict import filter_known

__all__ = ["PreemptVerb"]


class PreemptVerb:
    """Runs the filters of the pod's profile over every candidate, in an attempt of its own.

    They see the nodes as they would be: without the victims.

    Args:
        profiles: by scheduler name.
        stores: where the candidates are looked up.
        failures: told of every plugin that failed.
        metrics: what is counted.
    """

    def __init__(
        self, profiles: Profiles, stores: Stores, *, failures: Failures, metrics: Metrics
    ) -> None:
        self._profiles = profiles
        self._stores = stores
        self._failures = failures
        self._metrics = metrics

    def __call__(self, body: Body) -> Answer:
        """ExtenderPreemptionResult; empty on any failure, which ends the preemption.

        Raises: WireError: the body cannot be read.
        """
        args = self._stores.read_preemption_args(body)
        if args.pod is None:
            return NO_VICTIMS
        self._metrics.nodes("preempt").observe(len(args.nodes))
        profile = self._profiles.for_pod(args.pod)
        if profile is None or not profile.rejects:
            return Answer(args.result(args.nodes.everything()))
        if not self._stores.candidates_can_be_looked_up:
            return NO_VICTIMS
        state = CycleState()
        if (pods := profile.pods()) is not None:
            state.pods_left = args.pods_left(pods)
        try:
            passing, _ = filter_known(profile, state, args.pod, args.nodes)
        except PluginError as error:
            self._failures.note(error, "no preemption")
            return NO_VICTIMS
        return Answer(args.result(passing))
