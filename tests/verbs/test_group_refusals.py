"""Refused binds of members of a pod group: how late kube-scheduler is told.

kube-scheduler 1.37 tries such a pod again without any backoff.
"""

import logging
from collections.abc import Sequence
from typing import Any

import pytest
from tests.doors.wire import Binder, Steps, Wire, grouped, node, pod, rejects

from kubextend.errors import ClusterError
from kubextend.framework import Status

NO = Status.unschedulable("nobody may")
P, LONE = grouped(pod("p"), "gang"), pod("lone")
CYCLE = ("reserve", "permit", "pre_bind", "bind")
REFUSES = ClusterError("no")


def wire_of(plugin: Any, **parts: Any) -> Wire:
    return Wire(plugin, **{"nodes": ["n", "m"], "pods": [P, LONE]} | parts)


def unwatched(*known: Any, **parts: Any) -> Wire:
    """A server that binds without a plugin, reads pods from the API, and is refused by it."""
    binds = {"extender.bind": True}
    wire = Wire(rejects(), nodes=["n"], settings=binds, binder=Binder(REFUSES), **parts)
    wire.pods.unwatched += known
    return wire


def refused_after_s(wire: Wire, of: Any = P) -> float:
    """Bind the pod, which is refused; return the seconds until kube-scheduler is told."""
    began_s, call = wire.clock.now_s, wire.begin_bind(of, "n")
    while not call.done:
        wire.skip(0.25)
    assert call.answer().error
    return wire.clock.now_s - began_s


def test_each_refusal_of_a_member_takes_twice_as_long_and_ten_seconds_at_most(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    wire = wire_of(Steps(reserve=NO))
    assert [refused_after_s(wire) for _ in range(7)] == [1, 2, 4, 8, 10, 10, 10]
    assert any(line.endswith("pod ml/p in pod group gang") for line in caplog.messages)
    # A lone pod has its answer at once, and each pod has a count of its own.
    other = grouped(pod("other"), "gang")
    wire.show_pod(other)
    assert [refused_after_s(wire, of) for of in (LONE, other, LONE, other, P)] == [0, 1, 0, 2, 10]


def test_it_does_not_matter_who_refuses() -> None:
    full = node("n", allocatable={"cpu": "0"})
    wanting = grouped(pod("p", requests={"cpu": "1"}))
    guarded = {"guard.resources": True}
    wires = [
        wire_of(Steps("reserve", needs_pods=True, filter=NO)),
        wire_of(Steps("reserve"), binder=Binder(REFUSES)),
        wire_of(Steps("reserve"), binder=Binder(TimeoutError())),
        wire_of(Steps("reserve"), nodes=[full], pods=[wanting], settings=guarded),
    ]
    unlisted = wire_of(Steps("reserve"))
    unlisted.nodes.synced = False
    wires += [unlisted, *(wire_of(Steps("reserve", **{point: NO})) for point in CYCLE)]
    for wire in wires:
        assert [refused_after_s(wire) for _ in range(2)] == [1, 2]


def test_the_answer_waits_after_unreserve_and_with_nothing_assumed() -> None:
    wire = wire_of(plugin := Steps("reserve", pre_bind=NO))
    call = wire.begin_bind(P, "n")
    assert (call.done, plugin.calls[-1], wire.assumed()) == (False, "unreserve", {})
    wire.skip(1)
    assert call.answer().error == "nobody may"


def test_no_answer_waits_until_kube_scheduler_gives_up() -> None:
    # The time of bind is a minute longer than that of Permit, and the last 5 s are not used.
    plugin = Steps("reserve", pre_bind=NO)
    wire = wire_of(plugin, settings={"extender.permitMaxWait": "1s"})
    plugin.on["pre_bind"] = lambda: setattr(wire.clock, "now_s", began_s + 40)
    waits_s = []
    for _ in range(5):
        began_s = wire.clock.now_s
        waits_s.append(refused_after_s(wire) - 40)
    assert waits_s == [1, 2, 4, 8, 10]
    plugin.on["pre_bind"] = lambda: setattr(wire.clock, "now_s", began_s + 41)
    began_s = wire.clock.now_s
    assert refused_after_s(wire) <= 56


@pytest.mark.parametrize("how", ["the client leaves", "kubextend ends"])
def test_the_wait_ends_early(how: str) -> None:
    wire = wire_of(Steps(reserve=NO))
    call = wire.begin_bind(P, "n")
    assert not call.done
    if how == "the client leaves":
        call.leave()
        assert call.done
    else:
        wire.shut_down()
        assert call.answer().error == "nobody may"


@pytest.mark.parametrize("how", ["seen bound", "deleted", "bound", "filter"])
def test_a_count_of_refusals_ends_with_the_pod_alone(how: str) -> None:
    wire = wire_of(plugin := Steps("filter", reserve=NO))
    assert [refused_after_s(wire) for _ in range(2)] == [1, 2]
    match how:
        case "seen bound":
            wire.show_bound(P, "m")
            wire.gone_pod(P)
            wire.show_pod(P)
        case "deleted":
            wire.gone_pod(P)
            wire.show_pod(P)
        case "bound":
            plugin.says["reserve"] = None
            assert wire.bind(P, "n").error == ""
            plugin.says["reserve"] = NO
            wire.gone_pod(P)
            wire.show_pod(P)
        case "filter":
            wire.filter(P)
    assert refused_after_s(wire) == (4 if how == "filter" else 1)


@pytest.mark.parametrize(
    ("known", "delays_s"),
    [([P], [1, 2]), ([pod("p")], [0, 0]), ([grouped(pod("p", uid="x"))], [0, 0]), ([], [0, 0])],
    ids=["a member", "a lone pod", "another pod of the name", "no pod"],
)
def test_a_pod_that_is_not_watched_is_looked_up_when_refused(
    known: Sequence[Any], delays_s: list[float]
) -> None:
    wire = unwatched(*known)
    assert [refused_after_s(wire) for _ in range(2)] == delays_s
    # A pod of which the API says nothing counts as a member.
    wire = unwatched(*known)
    wire.pods.down = ClusterError("503")
    assert refused_after_s(wire) == 1


@pytest.mark.parametrize(("of", "delays_s"), [(P, [1, 2]), (LONE, [0, 0])])
def test_a_pod_that_filter_was_asked_about_needs_no_look(of: Any, delays_s: list[float]) -> None:
    wire = unwatched()
    wire.pods.down = ClusterError("never asked")
    delays = []
    for _ in range(2):
        wire.filter(of)
        delays.append(refused_after_s(wire, of))
    assert delays == delays_s


def test_what_permit_said_holds_from_when_kube_scheduler_is_told() -> None:
    wire = wire_of(Steps("filter", "reserve", permit=NO))
    call = wire.begin_bind(P, "n")
    # The answer leaves after a second, and the rejection holds for 30 s more.
    wire.skip(30.5)
    assert call.answer().error == "nobody may"
    assert wire.filter(P).kept == []
    wire.skip(1)
    assert wire.filter(P).kept == ["n", "m"]
