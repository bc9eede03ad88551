"""Runs the score plugins of a profile; a plugin that fails is left out."""

from collections.abc import Callable

from kubextend import core
from kubextend.errors import PluginError
from kubextend.framework.cycle_state import CycleState
from kubextend.profile import PluginScores, Profile

__all__ = ["first_of_the_best", "score_nodes"]

LeftOut = Callable[[PluginError], object]


def score_nodes(
    profile: Profile, state: CycleState, pod: core.Pod, nodes: core.Nodes, left_out: LeftOut
) -> tuple[list[PluginScores], bool]:
    """Run PreScore and Score for a pod; return the scores and weight of each plugin.

    Args:
        profile: the profile of the pod.
        state: the CycleState of this attempt.
        pod: the pod.
        nodes: the nodes to score.
        left_out: called for each plugin that failed, whose scores are left out.

    Returns: the scores of each plugin, and whether any plugin failed.
    """
    state.skip_score_plugins = frozenset()
    failed: set[str] = set()
    scored = []
    for prepares in profile.pre_score:
        try:
            profile.run_pre_score_plugin(prepares, state, pod, nodes)
        except PluginError as error:
            left_out(error)
            failed.add(prepares.name)
    for plugin, weight in profile.score:
        if plugin.name in failed or plugin.name in state.skip_score_plugins:
            continue
        try:
            scores, raw = profile.run_score_plugin(plugin, state, pod, nodes)
        except PluginError as error:
            left_out(error)
            failed.add(plugin.name)
        else:
            scored.append(PluginScores(plugin.name, weight, scores, raw))
    return scored, bool(failed)


def first_of_the_best(
    profile: Profile, state: CycleState, pod: core.Pod, nodes: core.Nodes, left_out: LeftOut
) -> str:
    """Return the name of the node with the highest score; of several, the first of the request.

    Without scores all nodes are equal. The arguments are those of ``score_nodes``.
    """
    scored, _ = score_nodes(profile, state, pod, nodes, left_out)
    if not scored:
        return nodes.names[0]
    # ``weigh`` divides by ten and rounds.
    sums = list(core.weigh([(each.scores, 10 * each.weight) for each in scored]))
    return nodes.names[sums.index(max(sums))]
