"""The prioritize verb: gives each node points, which kube-scheduler adds to its own scores."""

from typing import ClassVar

from kubextend import core
from kubextend.config import VerbName
from kubextend.errors import PluginError
from kubextend.framework.cycle_state import CycleState
from kubextend.profile import Profile
from kubextend.profile.run_in_progress import PluginCall
from kubextend.verbs.answer import NO_SCORES, Answer, Body
from kubextend.verbs.answer_in_time import TimedVerb
from kubextend.verbs.decision_records import VerbCall, Verdicts
from kubextend.verbs.request_metrics import NODES
from kubextend.verbs.scoring import score_nodes

__all__ = ["PrioritizeVerb"]

_NOTHING_TO_ADD = Answer(NO_SCORES.body)


class PrioritizeVerb(TimedVerb[core.ExtenderArgs]):
    """The prioritize verb: runs the score plugins of the pod's profile and sums their scores."""

    name: ClassVar[VerbName] = "prioritize"

    def read(self, body: Body) -> core.ExtenderArgs:
        """Read the ExtenderArgs of a request.

        Raises: WireError: the body cannot be read.
        """
        return self._context.read_args(body)

    def decide(self, body: Body, read: list[core.ExtenderArgs]) -> Answer:
        """Return a HostPriorityList with a score for each node; the list is empty on an error."""
        read.append(args := self.read(body))
        pod, nodes = args.pod, args.nodes
        if nodes is None or pod is None:
            return NO_SCORES
        self._context.metrics.histogram(NODES, self.name).observe(len(nodes))
        if self._context.unknown_schedulers.why_rejected(pod):
            return NO_SCORES._replace(result="unknown_scheduler")
        profile = self._context.profiles.for_pod(pod)
        if profile is None or not profile.score:
            return _NOTHING_TO_ADD
        ready = self._context.readiness
        if why_not := ready.why_not(self.name, profile, names_mode=args.names_mode):
            return self.instead(why_not, args)
        state = self._state_of(profile, pod, nodes)
        left_out: list[PluginCall] = []

        def leave_out(error: PluginError) -> None:
            # The error itself would keep the frames of the plugin's call in memory.
            left_out.append(PluginCall(error.plugin, error.extension_point))
            self._context.failures.left_out(error)

        scored, failed = score_nodes(profile, state, pod, nodes, leave_out)
        verdicts = Verdicts(nodes, args.names_mode, scores=scored)
        self._decisions.add(pod, VerbCall(self.name, left_out=left_out), verdicts)
        if not scored:
            return NO_SCORES if failed else _NOTHING_TO_ADD
        parts = [(each.scores, each.weight) for each in scored]
        scores = core.weigh(parts, self._context.config.score_scale)
        return Answer(args.prioritize_result(scores))

    def _state_of(self, profile: Profile, pod: core.Pod, nodes: core.Nodes) -> CycleState:
        """Return the CycleState that the pod's filter request left for this request.

        If the profile has no filter, each prioritize request begins an attempt. If the attempt is
        lost, as after a restart, PreFilter fills a new CycleState.
        """
        unplaced, left_out = self._context.unplaced, self._context.failures.left_out
        attempt = unplaced.find(pod.uid)
        if attempt is not None and profile.rejects:
            return attempt.state
        state = unplaced.begin(pod).state
        try:
            profile.run_pre_filter_plugins(state, pod, nodes, left_out)
        except PluginError as error:
            left_out(error)
        return state

    def instead(self, why: str, args: core.ExtenderArgs | None = None) -> Answer:
        """Return an empty HostPriorityList, which gives no scores; ``why`` is only recorded."""
        if args is not None and args.pod is not None:
            self._decisions.add(args.pod, VerbCall(self.name, error=why))
        return NO_SCORES
