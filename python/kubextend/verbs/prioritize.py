"""prioritize: how good each node is, in points that kube-scheduler adds to its own."""

import logging
from collections.abc import Iterator
from typing import Literal

from kubextend import core
from kubextend.errors import PluginError
from kubextend.framework.cycle_state import CycleState
from kubextend.metrics import Metrics
from kubextend.profile import Profile, Profiles, Scores
from kubextend.verbs.answer import NO_SCORES, Answer
from kubextend.verbs.stores import Stores

__all__ = ["PrioritizeVerb"]

_LOGGER = logging.getLogger(__name__)
_NOTHING_TO_ADD = Answer(NO_SCORES.body)


class PrioritizeVerb:
    """Runs the score plugins of the pod's profile and sums what they say.

    Args:
        profiles: by scheduler name.
        stores: where the nodes come from.
        metrics: what is counted.
        scale: how the sum is brought to the wire, as ``core.weigh`` has it.
    """

    def __init__(
        self,
        profiles: Profiles,
        stores: Stores,
        *,
        metrics: Metrics,
        scale: Literal["additive", "strict10"],
    ) -> None:
        self._profiles = profiles
        self._stores = stores
        self._metrics = metrics
        self._scale = scale

    def __call__(self, body: bytes) -> Answer:
        """HostPriorityList; empty where there is nothing to say, as the list holds no error.

        Raises: WireError: the body cannot be read.
        """
        args = self._stores.read_args(body)
        if args.nodes is None or args.pod is None:
            return NO_SCORES
        self._metrics.nodes("prioritize").observe(len(args.nodes))
        profile = self._profiles.for_pod(args.pod)
        if profile is None or not profile.score:
            return _NOTHING_TO_ADD
        if args.names_mode and self._stores.why_names_fail():
            return NO_SCORES
        parts = list(self._parts(profile, args.pod, args.nodes))
        if not parts:
            return NO_SCORES
        return Answer(args.prioritize_result(core.weigh(parts, self._scale)))

    def _parts(
        self, profile: Profile, pod: core.Pod, nodes: core.Nodes
    ) -> Iterator[tuple[Scores, int]]:
        """Scores and weight of every plugin that did not fail."""
        state = CycleState()
        for plugin, weight in profile.score:
            try:
                yield profile.run_score_plugin(plugin, state, pod, nodes), weight
            except PluginError as error:
                self._metrics.plugin_failures(error.plugin, error.extension_point).inc()
                _LOGGER.error("left out: %s", error, exc_info=error)  # noqa: TRY400
