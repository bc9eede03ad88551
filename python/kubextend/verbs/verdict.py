"""What a profile's filters say of a request's nodes; for filter, preempt and wake-ups alike."""

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from kubextend import core
from kubextend.errors import PluginError
from kubextend.framework.cycle_state import CycleState
from kubextend.profile import FilterOutcome, PluginLimits, Profile
from kubextend.profile.run import current_run

__all__ = [
    "GoesOn",
    "LookAgain",
    "Verdict",
    "filter_anew",
    "filter_known",
    "half_of",
    "looking_again",
]

GoesOn: TypeAlias = Callable[[], bool]
"""Whether there is time for one more attempt."""

Verdict: TypeAlias = tuple[core.Mask, FilterOutcome]
"""Known nodes that pass, and the whole outcome."""

LookAgain: TypeAlias = Callable[[Profile, core.Pod, core.Nodes], Verdict]
"""The verdict in an attempt of its own.

Raises PluginError: a filter failed; TimeoutError: it all took too long.
"""


def half_of(timeout_s: float, clock: Callable[[], float]) -> GoesOn:
    """Says yes until half of a timeout is over, from now on: one more attempt then ends in time."""
    until_s = clock() + timeout_s / 2
    return lambda: clock() < until_s


def filter_known(  # noqa: PLR0913, PLR0917  an attempt, who is left out, and how long
    profile: Profile,
    state: CycleState,
    pod: core.Pod,
    nodes: core.Nodes,
    goes_on: GoesOn,
    left_out: Callable[[PluginError], object] | None = None,
) -> Verdict:
    """Known nodes that pass, and the whole outcome.

    A name that the store does not know has no labels: what a filter says of it means nothing.

    Args:
        profile: whose filters.
        state: of the attempt.
        pod: the pod.
        nodes: as the request has them.
        goes_on: whether there is time to judge one more node alone.
        left_out: told of a plugin that failed and is left out; None: none may be.

    Raises: PluginError: a filter raised, or answered what it may not.
    """
    outcome = profile.find_nodes_that_fit(state, pod, nodes, left_out, goes_on)
    return outcome.kept & nodes.known, outcome


def filter_anew(
    profile: Profile, pod: core.Pod, nodes: core.Nodes, goes_on: GoesOn = lambda: True
) -> Verdict:
    """Judge known nodes in an attempt of its own, on this thread and for as long as it takes.

    A plugin that may be left out is, as in the call of filter that would come.
    """
    return filter_known(profile, CycleState(), pod, nodes, goes_on, _untold)


def looking_again(limits: PluginLimits, seconds: float) -> LookAgain:
    """The way to ask filters outside of any request, where no deadline ends a call that hangs.

    Args:
        limits: the threads for it.
        seconds: how long one pod may take.
    """

    def look_again(profile: Profile, pod: core.Pod, nodes: core.Nodes) -> Verdict:
        judge = partial(filter_anew, profile, pod, nodes, half_of(seconds, limits.clock))
        if current_run() is not None or not profile.filters_in_python:
            return judge()
        return limits.within(seconds, judge)

    return look_again


def _untold(_error: PluginError) -> None:
    """Where nobody asked, nobody is told."""
