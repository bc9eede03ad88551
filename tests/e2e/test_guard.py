"""Nodes that another scheduler fills while kubextend has pods for them."""

from tests.trials.flooded_nodes import Flood

from .controlplane import ControlPlane

NODES = 20


def test_no_node_is_overfull_where_both_schedulers_bind_through_the_guard(
    control_plane: ControlPlane,
) -> None:
    outcome = Flood(control_plane, "together", NODES).run()
    assert (outcome.bound, outcome.overfull) == (NODES, 0)
