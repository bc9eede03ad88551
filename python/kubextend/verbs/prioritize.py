"""The prioritize verb: gives each node points, which kube-scheduler adds to its own scores."""

from typing import ClassVar

from kubextend import core
from kubextend.config import VerbName
from kubextend.errors import PluginError
from kubextend.framework.cycle_state import CycleState
from kubextend.profile import Profile
from kubextend.profile.run_in_progress import PluginCall
from kubextend.verbs.answer import NO_SCORES, Answer, Body
from kubextend.verbs.decision_records import VerbCall, Verdicts
from kubextend.verbs.request_metrics import NODES
from kubextend.verbs.scoring import score_nodes
from kubextend.verbs.verb_interface import QuickVerb

__all__ = ["PrioritizeVerb"]

_NOTHING_TO_ADD = Answer(NO_SCORES.body)
_UNKNOWN = Answer(NO_SCORES.body, "unknown_scheduler")


class PrioritizeVerb(QuickVerb[core.ExtenderArgs]):
    """The prioritize verb: runs the score plugins of the pod's profile and sums their scores."""

    name: ClassVar[VerbName] = "prioritize"

    @property
    def on_thread(self) -> bool:
        """Whether scoring runs Python code in any profile."""
        return self._context.profiles.score_in_python

    def read(self, body: Body) -> core.ExtenderArgs:
        """Read the ExtenderArgs of a request.

        Raises: WireError: the body cannot be read.
        """
        return self._context.stores.read_args(body)

    def dispensable(self, args: core.ExtenderArgs) -> frozenset[str]:
        """Return the names of all plugins: without one plugin, the scores of the others count."""
        profile = self._context.profiles.for_pod(args.pod)
        return frozenset() if profile is None else profile.plugin_names

    def instead(self, why: str, args: core.ExtenderArgs | None = None) -> Answer:
        """Return an empty HostPriorityList, which gives no scores; ``why`` is not told."""
        if args is not None and args.pod is not None:
            self._decisions.add(args.pod, VerbCall(self.name, error=why))
        return NO_SCORES

    def answer(self, args: core.ExtenderArgs) -> Answer:
        """Return a HostPriorityList with a score for each node; the list is empty on an error."""
        if args.nodes is None or args.pod is None:
            return NO_SCORES
        self._context.metrics.histogram(NODES, self.name).observe(len(args.nodes))
        if self._context.unknown_schedulers.why_rejected(args.pod):
            return _UNKNOWN
        profile = self._context.profiles.for_pod(args.pod)
        if profile is None or not profile.score:
            return _NOTHING_TO_ADD
        why_not = self._context.readiness.why_not(self.name, profile, names_mode=args.names_mode)
        if why_not:
            self._decisions.add(args.pod, VerbCall(self.name, error=why_not))
            return NO_SCORES
        state = self._state_for(profile, args.pod, args.nodes)
        left_out: list[PluginCall] = []

        def leave_out(error: PluginError) -> None:
            # The error itself would keep the frames of the plugin's call in memory.
            left_out.append(PluginCall(error.plugin, error.extension_point))
            self._context.failures.left_out(error)

        scored, failed = score_nodes(profile, state, args.pod, args.nodes, leave_out)
        verdicts = Verdicts(args.nodes, args.names_mode, scores=scored)
        self._decisions.add(args.pod, VerbCall(self.name, left_out=left_out), verdicts)
        if not scored:
            return NO_SCORES if failed else _NOTHING_TO_ADD
        parts = [(each.scores, each.weight) for each in scored]
        scores = core.weigh(parts, self._context.settings.score_scale)
        return Answer(args.prioritize_result(scores))

    def _state_for(self, profile: Profile, pod: core.Pod, nodes: core.Nodes) -> CycleState:
        """Return the CycleState that the pod's filter request left for this request.

        If the profile has no filter, each prioritize request begins an attempt. If the attempt is
        lost, as after a restart, PreFilter fills a new CycleState.
        """
        attempt = self._unplaced.find(pod.uid)
        if attempt is not None and profile.rejects:
            return attempt.state
        state = self._unplaced.begin(pod).state
        try:
            profile.run_pre_filter_plugins(state, pod, nodes, self._context.failures.left_out)
        except PluginError as error:
            self._context.failures.left_out(error)
        return state
