"""What a pod that fits nowhere is told, over time."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from verb_world import (
    RDMA,
    Activator,
    Clock,
    Needs,
    Watched,
    names_request,
    node,
    pod,
    unplaced_pods,
    verbs_of,
)

from kubextend import core
from kubextend.errors import PluginError
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.plugin import Rejection
from kubextend.framework.status import Status
from kubextend.profile import FilterOutcome, Profile
from kubextend.verbs.filter_outside_request import Verdict
from kubextend.verbs.stable_reasons import Entry, entries_of
from kubextend.verbs.unplaced_pods import Attempt

HALVES = (True, False)


def pod_named(name: str) -> core.Pod:
    found = core.read_args(names_request([], pod(name))).pod
    assert found is not None
    return found


def entries(texts: Sequence[str], unresolvable: bool = True) -> list[Entry]:
    """One node for each text, in this order."""
    return [
        (core.Mask([each == text for each in texts]), text, unresolvable)
        for text in dict.fromkeys(texts)
    ]


Look = Callable[[], Sequence[Entry] | None]
NODES = [f"n{number}" for number in range(30)]
STORE = Watched().listing(*map(node, NODES)).store


class Reasons:
    """What kube-scheduler is told of the reasons of pods that fit nowhere.

    Args:
        clock: moved by the test.
        room_for: how many pods there is room for.
    """

    def __init__(self, clock: Clock, room_for: int = 100) -> None:
        self.activator = Activator()
        self.unplaced = unplaced_pods(
            self.activator, look_again=self._look_again, clock=clock, room_for=room_for
        )
        self._looks: dict[str, Look] = {}

    def steady(self, of: core.Pod, entries: list[Entry], look: Look | None = None) -> list[Entry]:
        """Return what is told where filters rejected all nodes; a look finds the truth later."""
        self._looks[of.uid] = look or (lambda: entries)
        rows = sum(mask.count() for mask, _, _ in entries)
        nodes = core.read_args(names_request(NODES[:rows]), watched=STORE).nodes
        assert nodes is not None
        attempt = Attempt(of, CycleState())
        changes = None if look is None else self.unplaced.changes
        return self.unplaced.reject(attempt, Profile("s"), nodes, entries, changes)

    def due(self) -> list[str]:
        """Return the pods that kube-scheduler is made to ask about."""
        self.activator.woken.clear()
        self.unplaced.wake_due()
        return self.activator.woken

    def _look_again(self, _profile: Profile, of: core.Pod, nodes: core.Nodes) -> Verdict:
        found = self._looks[of.uid]()
        rejections = [Rejection(rows, Status.unresolvable(text)) for rows, text, _ in found or ()]
        kept = nodes.everything() if found is None else nodes.nothing()
        return kept, FilterOutcome(kept, rejections)


def told(answer: Sequence[Entry]) -> str:
    counts: Counter[str] = Counter()
    for nodes, text, _ in answer:
        counts[text] += nodes.count()
    return "".join(text * count for text, count in sorted(counts.items()))


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
            *((1049, "m", "l"), (1050, "n", "n")),
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
    (
        "a rest of twice the hold ends the doubling",
        [(0, "a", "a"), (30, "b", "b"), (150, "c", "c"), (179, "d", "c"), (180, "e", "e")],
    ),
    ("one text follows the number of nodes", [(0, "aa", "aa"), (1, "aaa", "aaa"), (2, "a", "a")]),
    (
        "of several texts the most frequent one does",
        [(0, "aab", "aab"), (1, "bbbb", "aaab"), (2, "bb", "ab"), (3, "b", "b")],
    ),
    ("a request without nodes says nothing", [(0, "", ""), (1, "a", "a"), (2, "b", "a")]),
]


@pytest.mark.parametrize(("shows", "steps"), OVER_TIME, ids=[shows for shows, _ in OVER_TIME])
def test_what_is_told_over_time(shows: str, steps: list[tuple[float, str, str]]) -> None:
    del shows
    clock = Clock()
    began_s = clock.now_s
    reasons, asked = Reasons(clock), pod_named("p")
    for at_s, truth, expected in steps:
        clock.now_s = began_s + at_s
        answer = reasons.steady(asked, entries(truth))
        assert (at_s, told(answer)) == (at_s, expected)


def test_each_pod_is_told_its_own_reasons_and_one_without_a_uid_the_truth() -> None:
    reasons = Reasons(Clock())
    nameless = core.read_args(b'{"Pod":{},"NodeNames":[]}').pod
    assert nameless is not None
    for asked, second in ((pod_named("p"), "a"), (pod_named("q"), "a"), (nameless, "b")):
        assert told(reasons.steady(asked, entries("a"))) == "a"
        assert told(reasons.steady(asked, entries("b"))) == second


def test_the_pods_remembered_are_bounded_and_the_one_asked_about_least_recently_goes() -> None:
    reasons = Reasons(Clock(), room_for=2)
    for name in ("first", "second", "first", "third"):
        reasons.steady(pod_named(name), entries("a"))
    assert len(reasons.unplaced) == 2
    assert told(reasons.steady(pod_named("first"), entries("b"))) == "a"
    assert told(reasons.steady(pod_named("second"), entries("b"))) == "b"


@given(
    st.lists(
        st.lists(
            st.tuples(st.sampled_from([f"r{number}" for number in range(12)]), st.booleans()),
            min_size=1,
            max_size=30,
        ),
        min_size=1,
        max_size=6,
    )
)
def test_every_node_is_rejected_once_and_as_resolvable_as_it_is_whatever_is_told(
    asked: list[list[tuple[str, bool]]],
) -> None:
    clock = Clock()
    reasons, of = Reasons(clock), pod_named("p")
    for nodes in asked:
        clock.now_s += 7
        rejections = [
            Rejection(
                core.Mask([each == (text, hopeless) for each in nodes]),
                Status.unresolvable(text) if hopeless else Status.unschedulable(text),
            )
            for text, hopeless in dict.fromkeys(nodes)
        ]
        nothing = core.Mask([False] * len(nodes))
        truth = entries_of(nothing, rejections)
        answer = reasons.steady(of, truth)
        assert sum(mask.count() for mask, _, _ in answer) == len(nodes)
        for hopeless in HALVES:
            said = nothing
            for mask, _, unresolvable in answer:
                said = said | mask if unresolvable is hopeless else said
            assert list(said) == [each[1] is hopeless for each in nodes]
        assert len({text for _, text, _ in answer}) <= 8


def test_most_nodes_keep_their_own_reason_while_an_old_answer_is_repeated() -> None:
    reasons, asked = Reasons(Clock()), pod_named("p")
    reasons.steady(asked, entries("aabb"))
    answer = reasons.steady(asked, entries("abbb"))
    assert {text: nodes.indices() for nodes, text, _ in answer} == {"a": [0, 3], "b": [1, 2]}


def raising() -> None:
    name = "X"
    raise PluginError(name, "Filter", "why")


def late() -> None:
    raise TimeoutError


# (what the case shows, truth when asked, what a second look finds, whether the pod has to ask)
SECOND_LOOKS: list[tuple[str, str, Look, bool]] = [
    ("the truth stayed changed", "b", lambda: entries("b"), True),
    ("the truth varies", "b", lambda: entries("c"), False),
    ("the truth is again what was told", "b", lambda: entries("a"), False),
    ("the truth was what was told", "a", lambda: entries("b"), False),
    ("some node passes", "b", lambda: None, True),
    ("a filter fails", "b", raising, False),
    ("a filter hangs", "b", late, False),
]


@pytest.mark.parametrize(("shows", "truth", "look", "asks"), SECOND_LOOKS)
def test_who_has_to_be_asked_about_again(shows: str, truth: str, look: Look, asks: bool) -> None:
    del shows
    clock = Clock()
    reasons, asked = Reasons(clock), pod_named("p")
    reasons.steady(asked, entries("a"), look)
    clock.now_s += 5
    assert told(reasons.steady(asked, entries(truth), look)) == "a"
    clock.now_s += 39
    assert reasons.due() == []
    clock.now_s += 1
    assert reasons.due() == (["p"] if asks else [])
    assert reasons.due() == []


def test_a_pod_that_was_asked_about_during_the_second_look_need_not_be_asked_about() -> None:
    clock = Clock()
    reasons, asked = Reasons(clock), pod_named("p")

    def look() -> list[Entry]:
        reasons.steady(asked, entries("b"), look)
        return entries("b")

    reasons.steady(asked, entries("a"), look)
    reasons.steady(asked, entries("b"), look)
    clock.now_s += 40
    assert reasons.due() == []


def test_a_pod_that_passed_or_went_during_the_second_look_need_not_be_asked_about() -> None:
    for passed in (True, False):
        clock = Clock()
        reasons, asked = Reasons(clock), pod_named("p")

        def look(
            passed: bool = passed, reasons: Reasons = reasons, asked: core.Pod = asked
        ) -> None:
            if passed:
                reasons.unplaced.passed(reasons.unplaced.begin(asked))
            else:
                reasons.unplaced.forget(asked.uid)

        reasons.steady(asked, entries("a"), look)
        reasons.steady(asked, entries("b"), look)
        clock.now_s += 40
        assert reasons.due() == []


def test_what_varied_and_then_stays_is_seen_by_a_later_look() -> None:
    clock = Clock()
    reasons, asked = Reasons(clock), pod_named("p")
    looks = iter("cdd")

    def look() -> list[Entry]:
        return entries(next(looks))

    reasons.steady(asked, entries("a"), look)
    reasons.steady(asked, entries("b"), look)
    woken = []
    for _ in range(3):
        clock.now_s += 40
        woken.append(len(reasons.due()))
    assert woken == [0, 0, 1]
    assert told(reasons.steady(asked, entries("d"), look)) == "d"


def test_a_pod_that_fits_by_now_is_not_looked_at_again() -> None:
    clock = Clock()
    reasons, asked = Reasons(clock), pod_named("p")
    for truth in "ab":
        reasons.steady(asked, entries(truth), raising)
    reasons.unplaced.passed(reasons.unplaced.begin(asked))
    clock.now_s += 60
    assert reasons.due() == []


def test_the_pods_looked_at_again_are_bounded() -> None:
    clock = Clock()
    reasons = Reasons(clock, room_for=2)
    for name in ("first", "second", "third"):
        for truth in "ab":
            reasons.steady(pod_named(name), entries(truth), lambda: entries("b"))
    clock.now_s += 40
    assert reasons.due() == ["second", "third"]


@dataclass
class Counting:
    """A plugin whose reason carries a counter, until the nodes say something else."""

    name: str = "Counting"
    calls: int = field(default=0)

    def filter_nodes(
        self, _state: CycleState, _pod: core.Pod, nodes: core.Nodes
    ) -> Sequence[Rejection]:
        self.calls += 1
        broken = nodes.matches("broken=true")
        return [
            Rejection(broken, Status.unresolvable("broken")),
            Rejection(~broken, Status.unresolvable(f"attempt {self.calls}")),
        ]


@dataclass
class Proportions:
    """Two reasons in changing proportions."""

    name: str = "Proportions"
    calls: int = field(default=0)

    def filter_nodes(
        self, _state: CycleState, _pod: core.Pod, nodes: core.Nodes
    ) -> Sequence[Rejection]:
        self.calls += 1
        few = core.Mask([row < self.calls % 5 for row in range(len(nodes))])
        return [
            Rejection(few, Status.unschedulable("full")),
            Rejection(nodes.everything(), Status.unresolvable("small")),
        ]


def asked_like_a_scheduler(plugin: Any, seconds: int) -> list[tuple[int, str]]:
    """When kube-scheduler asks and what it is told: again a second after any change it saw."""
    clock, activator = Clock(), Activator()
    watched = Watched().listing(*(node(f"n{number}") for number in range(5)))
    verbs = verbs_of([plugin], watched=watched, activator=activator, clock=clock)
    request = names_request([f"n{number}" for number in range(5)])
    asked, last, next_s = [], "", 0
    for second in range(seconds):
        verbs.wake_due()
        if activator.woken:
            activator.woken.clear()
            next_s = second
        if second == next_s:
            result = json.loads(verbs.filter(request))
            failed = (result["FailedNodes"] or {}) | (result["FailedAndUnresolvableNodes"] or {})
            assert len(failed) == 5
            condition = json.dumps(sorted(Counter(failed.values()).items()))
            asked.append((second, condition))
            if condition != last:
                last, next_s = condition, second + 1
        clock.now_s += 1
    return asked


@pytest.mark.parametrize("plugin", [Counting(), Proportions()])
def test_a_pod_whose_reasons_vary_is_asked_about_twice_and_not_for_ever(plugin: Any) -> None:
    asked = asked_like_a_scheduler(plugin, 600)
    assert [second for second, _ in asked] == [0, 1]


def test_a_change_that_stays_is_told_within_a_minute() -> None:
    clock, activator = Clock(), Activator()
    watched = Watched().listing(node("n"))
    verbs = verbs_of([Counting()], watched=watched, activator=activator, clock=clock)
    request = names_request(["n"])
    for _ in range(9):
        verbs.filter(request)
        clock.now_s += 31
    clock.now_s -= 30
    watched.listing(node("n", {"broken": "true"}))
    changed_s = clock.now_s
    assert "attempt" in json.loads(verbs.filter(request))["FailedAndUnresolvableNodes"]["n"]
    while not activator.woken:
        clock.now_s += 1
        verbs.wake_due()
    assert json.loads(verbs.filter(request))["FailedAndUnresolvableNodes"] == {"n": "broken"}
    assert clock.now_s - changed_s < 50


def test_in_full_mode_nothing_is_looked_at_again() -> None:
    clock, activator = Clock(), Activator()
    verbs = verbs_of([Counting()], activator=activator, clock=clock)
    body = json.dumps({"Pod": pod(), "Nodes": {"items": [node("n")]}, "NodeNames": None}).encode()
    told_each = []
    for _ in range(3):
        told_each.append(json.loads(verbs.filter(body))["FailedAndUnresolvableNodes"]["n"])
        clock.now_s += 29
        verbs.wake_due()
    assert told_each == ["attempt 1", "attempt 1", "attempt 3"]
    assert activator.woken == []


def test_a_text_of_any_length_leaves_as_a_short_one() -> None:
    two = core.Mask([True, False]), core.Mask([False, True])
    told = [
        Rejection(two[0], Status.unschedulable("x" * 300_000)),
        Rejection(two[1], Status.unschedulable("y" * 256)),
    ]
    entries = entries_of(core.Mask([False, False]), told)
    assert [text for _, text, _ in entries] == ["x" * 253 + "...", "y" * 256]


def test_a_node_that_several_rejections_name_is_in_the_first_of_them_alone() -> None:
    both, second = core.Mask([True, True]), core.Mask([False, True])
    told = [Rejection(second, Status.unschedulable("a")), Rejection(both, Status.unresolvable("b"))]
    entries = entries_of(core.Mask([False, False]), told)
    assert [(nodes.indices(), text) for nodes, text, _ in entries] == [([1], "a"), ([0], "b")]


def test_a_pod_that_filter_let_through_meanwhile_is_not_woken_for_its_reasons() -> None:
    clock, activator, needs = Clock(), Activator(), Needs()
    watched = Watched().listing(node("n"), node("good", RDMA))
    verbs = verbs_of([needs], watched=watched, activator=activator, clock=clock)
    verbs.filter(names_request(["n"]))
    needs.status = Status.unresolvable("another reason")
    verbs.filter(names_request(["n"]))
    assert json.loads(verbs.filter(names_request(["n", "good"])))["NodeNames"] == ["good"]
    clock.now_s += 60
    verbs.wake_due()
    assert activator.woken == []


def test_reasons_are_looked_at_again_on_the_nodes_as_they_are_by_then() -> None:
    clock, activator = Clock(), Activator()
    filters = [
        Needs("!broken", Status.unresolvable("broken")),
        Needs("never", Status.unresolvable("plain")),
    ]
    watched = Watched().listing(node("n"))
    verbs = verbs_of(filters, watched=watched, activator=activator, clock=clock)
    verbs.filter(names_request(["n"]))
    watched.listing(node("n", {"broken": "true"}))
    verbs.filter(names_request(["n"]))
    # By the second look it is again what kube-scheduler was told.
    watched.listing(node("n"))
    clock.now_s += 60
    verbs.wake_due()
    assert activator.woken == []
