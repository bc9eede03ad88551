"""Runs a profile's filters for a pod outside of a request, to see whether the pod passes now."""

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from kubextend import core
from kubextend.errors import PluginError
from kubextend.framework.cycle_state import CycleState
from kubextend.profile import FilterOutcome, PluginLimits, Profile
from kubextend.profile.run_in_progress import current_run

__all__ = ["LookAgain", "Verdict", "filter_anew", "looking_again"]

Verdict: TypeAlias = tuple[core.Mask, FilterOutcome]
"""The known nodes that pass the filters of a profile, and the whole outcome of the filters."""

LookAgain: TypeAlias = Callable[[Profile, core.Pod, core.Nodes], Verdict]
"""Runs a profile's filters for a pod outside of a request, and returns their verdict.

Raises PluginError: a filter failed; TimeoutError: the filters took too long.
"""


def filter_anew(profile: Profile, pod: core.Pod, nodes: core.Nodes) -> Verdict:
    """Run a profile's filters for a pod in a new attempt, on this thread, without a time limit.

    If a plugin with ``failurePolicy: Ignore`` fails, the filters go on without it.
    """
    outcome = profile.find_nodes_that_fit(CycleState(), pod, nodes, _untold)
    return outcome.passing(nodes), outcome


def looking_again(limits: PluginLimits, seconds: float) -> LookAgain:
    """Return a function that runs a profile's filters for a pod again, without a request.

    Args:
        limits: gives the filters a thread, and abandons it if a filter hangs.
        seconds: how long the filters may run for one pod.
    """

    def look_again(profile: Profile, pod: core.Pod, nodes: core.Nodes) -> Verdict:
        if current_run() is not None or not profile.filters_in_python:
            return filter_anew(profile, pod, nodes)
        return limits.within(seconds, partial(filter_anew, profile, pod, nodes))

    return look_again


def _untold(_error: PluginError) -> None:
    """Ignore a failure of a plugin: no request waits for its consequence."""
