"""What a pod that fits nowhere is told, over time: kube-scheduler tries it again at each change."""

import itertools
import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.doors.wire import Plugin, Wire, node, nominated, pod

from kubextend.framework import Rejection, Status

P = pod("p")


class Reasons(Plugin):
    """Rejects each node for the reason that the test gives, and keeps nodes without one."""

    def __init__(self) -> None:
        self.of: dict[str, Status] = {}
        self.fails = False
        super().__init__("Reasons", filter=self._filter)

    def _filter(self, _state: object, _pod: object, at: Any) -> Status | None:
        if self.fails:
            raise RuntimeError
        return self.of.get(at.name)

    def say(self, letters: str) -> list[str]:
        """Set a letter as the reason of each node, and return the names of the nodes."""
        self.of = {f"n{row}": Status.unresolvable(each) for row, each in enumerate(letters)}
        return list(self.of)


def wire_of(plugin: Plugin, **parts: Any) -> Wire:
    return Wire(plugin, **{"nodes": [f"n{row}" for row in range(30)]} | parts)


def told(wire: Wire, of: Any, names: list[str]) -> str:
    return "".join(sorted(wire.filter(of, names).rejected.values()))


# (what the case shows, [(second, a letter for each node's true reason, what is told)])
OVER_TIME = [
    ("the first truth is told at once", [(0, "aab", "aab")]),
    ("the same truth is told for ever", [(0, "ab", "ab"), (1, "ab", "ab"), (999, "ba", "ab")]),
    ("another text waits for a minute", [(0, "a", "a"), (59.9, "b", "a"), (60, "b", "b")]),
    ("another count waits as well", [(0, "aab", "aab"), (1, "abb", "aab"), (60, "abb", "abb")]),
    ("a change after a long rest shows at once", [(0, "a", "a"), (500, "b", "b")]),
    (
        "what keeps changing changes once a minute",
        [(0, "a", "a"), (30, "b", "a"), (60, "c", "c"), (119, "d", "c"), (120, "e", "e")],
    ),
    ("of other nodes the truth is told", [(0, "aa", "aa"), (1, "aab", "aab"), (2, "abb", "aab")]),
]


@pytest.mark.parametrize(("shows", "steps"), OVER_TIME, ids=[shows for shows, _ in OVER_TIME])
def test_reasons_change_as_seldom_as_kube_scheduler_should_try_again(
    shows: str, steps: list[tuple[float, str, str]]
) -> None:
    wire = wire_of(plugin := Reasons())
    began_s = wire.clock.now_s
    for at_s, truth, expected in steps:
        wire.clock.now_s = began_s + at_s
        assert (shows, at_s, told(wire, P, plugin.say(truth))) == (shows, at_s, expected)


def test_each_pod_is_told_its_own_reasons_and_one_without_a_uid_the_truth() -> None:
    wire = wire_of(plugin := Reasons())
    nameless = {"metadata": {}, "spec": P["spec"]}
    for of, second in ((P, "a"), (pod("q"), "a"), (nameless, "b")):
        assert told(wire, of, plugin.say("a")) == "a"
        assert told(wire, of, plugin.say("b")) == second


def test_each_node_keeps_the_reason_that_was_sent_for_it_in_whatever_order_it_comes() -> None:
    wire = wire_of(plugin := Reasons())
    told(wire, P, names := plugin.say("aabb"))
    plugin.say("cbaa")
    for whole in (None, [node(name) for name in reversed(names)]):
        said = wire.filter(P, None if whole else names[::-1], whole=whole).rejected
        assert said == {"n0": "a", "n1": "a", "n2": "b", "n3": "b"}


def test_reasons_of_more_pods_than_are_remembered_are_told_as_they_are() -> None:
    wire = wire_of(plugin := Reasons())
    pods = [pod(f"p{number}") for number in range(300)]
    for of in pods:
        assert told(wire, of, plugin.say("a")) == "a"
    assert (told(wire, pods[0], plugin.say("b")), told(wire, pods[-1], plugin.say("b"))) == (
        "b",
        "a",
    )


SHARED = Reasons()
WIRES: list[Wire] = []
NUMBERS = itertools.count()
REASON = st.tuples(st.sampled_from([f"r{number}" for number in range(12)]), st.booleans())


@pytest.mark.slow
@given(st.lists(st.lists(REASON, min_size=1, max_size=30), min_size=1, max_size=6))
def test_every_node_is_rejected_once_and_as_resolvable_as_it_is_whatever_is_told(
    asked: list[list[tuple[str, bool]]],
) -> None:
    WIRES[:] = WIRES or [wire_of(SHARED)]
    (wire,), of = WIRES, pod(f"p{next(NUMBERS)}")
    for nodes in asked:
        wire.clock.now_s += 7
        said_of = {True: Status.unresolvable, False: Status.unschedulable}
        SHARED.of = {
            f"n{row}": said_of[hopeless](text) for row, (text, hopeless) in enumerate(nodes)
        }
        said = wire.filter(of, list(SHARED.of))
        assert len(said.json["FailedNodes"] or {}) + len(said.unresolvable) == len(nodes)
        assert set(said.unresolvable) == {
            name for name, (_, hopeless) in zip(SHARED.of, nodes, strict=True) if hopeless
        }
        assert len({*said.rejected.values()}) <= 8


def test_a_pod_is_not_woken_because_its_reasons_changed() -> None:
    wire = wire_of(plugin := Reasons())
    for letter in "ab":
        told(wire, P, plugin.say(letter))
    wire.skip(120)
    assert wire.activator.woken == []
    assert told(wire, P, plugin.say("b")) == "b"


# Plugins whose reasons never stay, and a kube-scheduler that asks again after each change.


class Counting(Plugin):
    """Rejects for a reason that carries a counter, until the nodes say something else."""

    def __init__(self) -> None:
        self.calls = 0
        super().__init__("Counting", filter_nodes=self._judge)

    def _judge(self, _state: Any, _pod: Any, nodes: Any) -> list[Rejection]:
        self.calls += 1
        broken = nodes.matches("broken")
        counted = Status.unresolvable(f"attempt {self.calls}")
        return [Rejection(broken, Status.unresolvable("broken")), Rejection(~broken, counted)]


def test_a_pod_whose_reasons_vary_is_asked_about_twice_and_not_for_ever() -> None:
    wire = Wire(Counting(), nodes=[node(f"n{row}", labels={"row": str(row)}) for row in range(5)])
    asked: list[int] = []
    last, next_s = "", 0
    for second in range(600):
        if wire.activator.woken:
            wire.activator.woken.clear()
            next_s = second
        if second == next_s:
            said = wire.filter(P).rejected
            assert len(said) == 5
            asked.append(second)
            condition = json.dumps(sorted(Counter(said.values()).items()))
            if condition != last:
                last, next_s = condition, second + 1
        wire.skip(1)
    assert asked == [0, 1]


def test_reasons_about_whole_nodes_are_repeated_for_a_minute_too() -> None:
    wire = Wire(Counting())
    said = []
    for _ in range(4):
        said.append(wire.filter(P, whole=[node("n")]).rejected["n"])
        wire.skip(29)
    assert said == ["attempt 1", "attempt 1", "attempt 1", "attempt 4"]
    assert wire.activator.woken == []


def test_the_nominated_node_alone_leaves_the_reasons_of_all_nodes_as_they_are() -> None:
    wire = Wire(Counting(), nodes=["n0", "n1"])
    of = nominated(P, "n0")
    assert {*wire.filter(of).rejected.values()} == {"attempt 1"}
    assert wire.filter(of, ["n0"]).rejected == {"n0": "attempt 2"}
    assert {*wire.filter(of).rejected.values()} == {"attempt 1"}


def test_a_nominated_node_that_is_the_only_candidate_repeats_its_reason_for_a_minute() -> None:
    wire = Wire(Counting(), nodes=["n0", "n1"])
    of = nominated(P, "n0")
    said = []
    for _ in range(4):
        # kube-scheduler asks about the nominated node, and then about all that its filters left.
        said.append([wire.filter(of, ["n0"]).rejected["n0"] for _ in range(2)])
        wire.skip(29)
    assert said == [["attempt 1"] * 2] * 3 + [["attempt 7"] * 2]


def test_a_text_of_any_length_leaves_as_a_short_one() -> None:
    wire = wire_of(plugin := Reasons())
    plugin.of = {"n0": Status.unschedulable("x" * 300_000), "n1": Status.unschedulable("y" * 256)}
    assert wire.filter(P, ["n0", "n1"]).rejected == {"n0": "x" * 253 + "...", "n1": "y" * 256}


@pytest.mark.parametrize(("length", "second"), [(253, "attempt 1"), (2000, "attempt 2")])
def test_of_names_of_nodes_that_take_over_a_mebibyte_no_reasons_are_remembered(
    length: int, second: str
) -> None:
    wire = Wire(Counting())
    whole = [node(f"{row:0{length}}") for row in range(600)]
    told = [{*wire.filter(P, whole=whole).rejected.values()} for _ in range(2)]
    assert told == [{"attempt 1"}, {second}]
