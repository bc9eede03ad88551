"""What a profile's filters say of a request's nodes; for filter, preempt and wake-ups alike."""

from kubextend import core
from kubextend.framework.cycle_state import CycleState
from kubextend.profile import FilterOutcome, Profile

__all__ = ["filter_known"]


def filter_known(
    profile: Profile, state: CycleState, pod: core.Pod, nodes: core.Nodes
) -> tuple[core.Mask, FilterOutcome]:
    """Known nodes that pass, and the whole outcome.

    A name that the store does not know has no labels: what a filter says of it means nothing.

    Raises: PluginError: a filter raised, or answered what it may not.
    """
    outcome = profile.find_nodes_that_fit(state, pod, nodes)
    return outcome.kept & nodes.known, outcome
