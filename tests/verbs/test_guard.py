"""The guard in bind: when it looks, what it prevents, and what a refusal leaves behind.

tests/property/test_property_guard.py has what the guard says of nodes and pods of all kinds.
"""

from typing import Any

import pytest
from tests.doors.wire import Binder, Leader, Steps, Wire, node, pod

from kubextend import Status

NO_ROOM = "the node has no room left for the pod: Insufficient cpu"
UNLISTED = "kubextend is not ready: nodes and pods are not listed yet"
CORE = {"requests": {"cpu": "1"}}
ONE, TWO = pod("one", **CORE), pod("two", **CORE)
FOREIGN = pod("foreign", scheduler_name="other", node_name="n", **CORE)


def wire_of(*plugins: Any, **parts: Any) -> Wire:
    """A node of one core, and two pods that want a core each."""
    settings = {"guard.resources": True} | parts.pop("settings", {})
    given = {"nodes": [node("n", allocatable={"cpu": "1"})], "pods": [ONE, TWO]}
    return Wire(*plugins, **given | {"settings": settings} | parts)


def refusals(wire: Wire) -> float:
    return wire.metric("kubextend_guard_refusals_total")


PLUGINS = pytest.mark.parametrize(
    "plugins", [[], ["reserve", "pre_bind"]], ids=["plain", "plugins"]
)


def steps(plugins: list[str]) -> list[Steps]:
    return [Steps(*plugins)] if plugins else []


@PLUGINS
def test_of_two_pods_that_come_together_one_gets_room_for_one(plugins: list[str]) -> None:
    binder = Binder()
    binder.gate.clear()
    wire = wire_of(*steps(plugins), binder=binder)
    first, second = wire.begin_bind(ONE, "n"), wire.begin_bind(TWO, "n")
    binder.gate.set()
    said = {"one": first.answer().error, "two": second.answer().error}
    assert sorted(said.values()) == ["", NO_ROOM]
    (bound,) = [name for name, error in said.items() if not error]
    assert (wire.binder.bound, wire.assumed()) == ({f"uid-of-{bound}": "n"}, {bound: "n"})
    assert refusals(wire) == 1


@PLUGINS
def test_a_node_that_another_scheduler_has_filled_takes_no_pod_until_there_is_room_again(
    plugins: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    made = steps(plugins)
    wire = wire_of(*made)
    wire.show_pod(FOREIGN)
    assert wire.bind(ONE, "n").error == NO_ROOM
    assert (wire.binder.bound, wire.assumed()) == ({}, {})
    assert [each.calls for each in made] == [[]] * len(made)
    line = (
        "the guard binds no pod ml/one of scheduler default-scheduler to node n: "
        "cpu: 1000 wanted, 0 of 1000 free"
    )
    assert line in caplog.messages
    wire.gone_pod(FOREIGN)
    assert wire.bind(ONE, "n").error == ""


@pytest.mark.parametrize("step", ["reserve", "pre_bind"])
def test_a_node_that_is_filled_during_the_binding_cycle_takes_no_pod(step: str) -> None:
    plugin = Steps("reserve", "pre_bind", bind=Status.success())
    wire = wire_of(plugin)
    plugin.on[step] = lambda: wire.pods.show(FOREIGN)
    assert wire.bind(ONE, "n").error == NO_ROOM
    until = ["reserve"] if step == "reserve" else ["reserve", "pre_bind"]
    assert plugin.calls == [*until, "unreserve"]
    assert (wire.binder.bound, wire.assumed(), refusals(wire)) == ({}, {}, 1)


def test_the_guard_looks_again_before_each_attempt_to_post_a_binding() -> None:
    binder = Binder()
    wire = wire_of(binder=binder)
    binder.between = lambda: wire.pods.show(FOREIGN)
    assert wire.bind(ONE, "n").error == NO_ROOM
    assert (binder.bound, wire.assumed()) == ({}, {})


def test_without_the_guard_the_pod_is_bound_to_the_full_node() -> None:
    wire = wire_of(settings={"guard.resources": False, "extender.bind": True})
    wire.show_pod(FOREIGN)
    assert wire.bind(ONE, "n").error == ""


MANY = {f"example.com/resource-{number:04}": "1" for number in range(3000)}
LARGE = pod("large", requests={"cpu": "1", **MANY})


@pytest.mark.parametrize(
    ("unsynced", "of", "to", "why"),
    [
        ("nodes", ONE, "n", UNLISTED),
        ("pods", ONE, "n", UNLISTED),
        ("", ONE, "m", "the node is not among those that kubextend watches"),
        ("", pod("three"), "n", "there is no pod ml/three of this UID"),
        ("", LARGE, "n", "the pod is too large to see whether it fits"),
    ],
    ids=["nodes", "pods", "the node", "the pod", "its requests"],
)
def test_what_is_not_known_binds_no_pod(unsynced: str, of: Any, to: str, why: str) -> None:
    wire = wire_of(pods=[ONE, TWO, LARGE])
    if unsynced:
        getattr(wire, unsynced).synced = False
    assert wire.bind(of, to).error == why
    assert wire.binder.bound == {}


@PLUGINS
def test_only_the_leader_counts_pods_for_the_guard(plugins: list[str]) -> None:
    wire = wire_of(*steps(plugins), leader=Leader(leads=False))
    assert "does not lead" in wire.bind(ONE, "n").error
    assert (wire.binder.bound, wire.assumed()) == ({}, {})
    wire.win()
    wire.leader.fresh = False  # type: ignore[union-attr]
    assert "does not lead" in wire.bind(ONE, "n").error
    wire.leader.fresh = True  # type: ignore[union-attr]
    assert wire.bind(ONE, "n").error == ""
