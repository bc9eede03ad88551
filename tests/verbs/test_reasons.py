"""What a pod that fits nowhere is told, over time: kube-scheduler tries it again at each change."""

import itertools
import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.doors.wire import Plugin, Wire, node, pod

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
    ("another text waits for 30 s", [(0, "a", "a"), (29.9, "b", "a"), (30, "b", "b")]),
    ("another count waits as well", [(0, "aab", "aab"), (1, "abb", "aab"), (30, "abb", "abb")]),
    ("a change after a long rest shows at once", [(0, "a", "a"), (500, "b", "b")]),
    (
        "what keeps changing may change after 30, 60, 120, 240, 300 s",
        [
            *((0, "a", "a"), (29, "b", "a"), (30, "c", "c")),
            *((89, "d", "c"), (90, "e", "e")),
            *((209, "f", "e"), (210, "g", "g")),
            *((449, "h", "g"), (450, "i", "i")),
            *((749, "k", "i"), (750, "l", "l")),
        ],
    ),
    (
        "what stays changed for 30 s is told however long the hold is",
        [(0, "a", "a"), (30, "b", "b"), (90, "c", "c"), (95, "d", "c"), (125, "d", "d")],
    ),
    (
        "of what varies nothing has stayed, whatever varied before it",
        [(0, "a", "a"), (30, "b", "b"), (31, "c", "b"), (45, "d", "b"), (62, "e", "b")],
    ),
    ("one text follows the number of nodes", [(0, "aa", "aa"), (1, "aaa", "aaa"), (2, "a", "a")]),
    (
        "of several texts the most frequent one does",
        [(0, "aab", "aab"), (1, "bbbb", "aaab"), (2, "bb", "ab"), (3, "b", "b")],
    ),
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


def test_most_nodes_keep_their_own_reason_while_an_old_answer_is_repeated() -> None:
    wire = wire_of(plugin := Reasons())
    told(wire, P, plugin.say("aabb"))
    said = wire.filter(P, plugin.say("abbb")).rejected
    assert said == {"n0": "a", "n1": "b", "n2": "b", "n3": "a"}


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


@pytest.mark.parametrize(
    ("truth", "later", "asks"),
    [("b", "b", True), ("b", "c", False), ("b", "a", False), ("a", "b", False), ("b", "", True)],
    ids=[
        "the truth stayed changed",
        "the truth varies",
        "the truth is again what was told",
        "the truth was what was told",
        "a node passes",
    ],
)
def test_a_pod_is_woken_for_a_reason_that_stayed_changed(
    truth: str, later: str, asks: bool
) -> None:
    wire = wire_of(plugin := Reasons())
    told(wire, P, plugin.say("a"))
    wire.skip(5)
    assert told(wire, P, plugin.say(truth)) == "a"
    plugin.say(later)
    wire.skip(39)
    assert wire.activator.woken == []
    wire.skip(2)
    assert wire.activator.woken == (["p"] if asks else [])
    if asks and later:
        assert told(wire, P, plugin.say(later)) == later


@pytest.mark.parametrize("how", ["a filter fails", "it passed", "it is gone", "as it is by then"])
def test_a_pod_is_not_woken_for_its_reasons_where_nobody_needs_to_hear_them(how: str) -> None:
    wire = wire_of(plugin := Reasons(), pods=[P])
    for letter in "ab":
        told(wire, P, plugin.say(letter))
    match how:
        case "a filter fails":
            plugin.fails = True
        case "it passed":
            assert wire.filter(P, [*plugin.say("b"), "n20"]).kept == ["n20"]
        case "it is gone":
            wire.gone_pod(P)
        case _:
            plugin.say("a")
    wire.skip(60)
    assert wire.activator.woken == []


def test_what_varied_and_then_stays_is_told_after_a_later_look() -> None:
    wire = wire_of(plugin := Reasons())
    for letter in "ab":
        told(wire, P, plugin.say(letter))
    plugin.say("c")
    wire.skip(41)
    plugin.say("d")
    wire.skip(40)
    assert wire.activator.woken == []
    wire.skip(40)
    assert wire.activator.woken == ["p"]
    assert told(wire, P, plugin.say("d")) == "d"


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


def test_a_change_that_stays_is_told_within_a_minute() -> None:
    wire = Wire(Counting(), nodes=["n"])
    for _ in range(9):
        wire.filter(P)
        wire.skip(31)
    wire.show_node(node("n", labels={"broken": ""}))
    wire.activator.woken.clear()
    assert "attempt" in wire.filter(P).rejected["n"]
    wire.skip(50)
    assert wire.activator.woken == ["p"]
    assert wire.filter(P).rejected == {"n": "broken"}


def test_of_whole_nodes_nothing_is_looked_at_again() -> None:
    wire = Wire(Counting())
    said = []
    for _ in range(3):
        said.append(wire.filter(P, whole=[node("n")]).rejected["n"])
        wire.skip(29)
    assert said == ["attempt 1", "attempt 1", "attempt 3"]
    assert wire.activator.woken == []


def test_a_text_of_any_length_leaves_as_a_short_one() -> None:
    wire = wire_of(plugin := Reasons())
    plugin.of = {"n0": Status.unschedulable("x" * 300_000), "n1": Status.unschedulable("y" * 256)}
    assert wire.filter(P, ["n0", "n1"]).rejected == {"n0": "x" * 253 + "...", "n1": "y" * 256}
