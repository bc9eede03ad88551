"""Gangs of Coscheduling: who is rejected, held, let in and sent back."""

from collections.abc import Sequence
from typing import Any

import pytest
from tests.doors import command_line
from tests.doors.stories import (
    ABC,
    DENIED,
    GIVEN_UP,
    GONE,
    HELD,
    MINIMUM,
    NO_NUMBER,
    TOO_FEW,
    Gang,
    Manifest,
    configuration,
    member,
    parked,
    pod_of,
    unlabelled,
)

from kubextend import Status, testing
from kubextend.errors import ConfigError
from kubextend.plugins import Coscheduling, PrioritySort

QUEUE = "kubextend.dev/queue"
A, B, C = ABC
THEIRS = {"schedulerName": "default-scheduler-2"}
UNLISTED = (
    "pods of the pod group cannot be listed: pod ml/large is kept without its labels, "
    "which are too large; make them smaller"
)


def gated(*gates: str, **spec: str) -> Manifest:
    """The third pod of the gang with these scheduling gates."""
    return C | {"spec": {"schedulingGates": [{"name": gate} for gate in gates], **spec}}


def ended(phase: str) -> Manifest:
    return member("c", node="n") | {"status": {"phase": phase}}


# (what the case shows, the watched pods, the pod, what PreFilter says)
PRE_FILTER: list[tuple[str, Sequence[Manifest], Manifest, str]] = [
    ("no group", (), member("a", group=None), ""),
    ("an empty group", (), member("a", group=""), ""),
    ("enough pods", ABC, A, ""),
    ("the pod itself counts, seen or not", ABC[:2], C, ""),
    ("too few", ABC[:2], B, TOO_FEW),
    ("bound ones count", (member("a", node="n"), member("b", node="n")), C, ""),
    ("another group", (A, B, member("c", group="h")), A, TOO_FEW),
    ("another namespace", (A, B, member("c", namespace="web")), A, TOO_FEW),
    ("a gated one does not count", (A, B, gated("example.com/gate")), A, TOO_FEW),
    ("nor with the gate of a queue that is off", (A, B, gated(QUEUE)), A, TOO_FEW),
    ("another scheduler's does not", (A, B, C | {"spec": THEIRS}), A, TOO_FEW),
    ("unless it runs", (A, B, C | {"spec": THEIRS | {"nodeName": "n"}}), A, ""),
    ("one that has ended does not count", (A, B, ended("Succeeded")), A, TOO_FEW),
    ("nor one that failed", (A, B, ended("Failed")), A, TOO_FEW),
    ("nor one that is deleted", (A, B, member("c", deletionTimestamp=GONE)), A, TOO_FEW),
    ("one is enough for one", (), member("a", minimum="1"), ""),
    ("an annotation says it too", (), member("a", minimum=None, annotations={MINIMUM: "1"}), ""),
    ("nothing says it", ABC, member("a", minimum=None), NO_NUMBER),
    *(
        (f"{text} is no number", ABC, member("a", minimum=text), NO_NUMBER)
        for text in ("0", "-1", "1.5", "٣", "9" * 60)
    ),
]


@pytest.mark.parametrize(
    ("watched", "asked", "reason"), [pytest.param(*case, id=name) for name, *case in PRE_FILTER]
)
def test_pre_filter_and_the_queue_reject_a_pod_of_a_group_that_is_too_small(
    watched: Sequence[Manifest], asked: Manifest, reason: str
) -> None:
    gang = Gang(*watched)
    assert gang.pre_filter(asked) == reason
    # What can never pass PreFilter is not let out of the queue.
    assert gang.pre_enqueue(asked) == reason
    result = gang.cluster.filter(asked)
    assert result.rejected == ({"n": reason} if reason else {})
    assert result.unresolvable == result.rejected.keys(), "no eviction would help"


def with_queue(gate: str, *, sorts: bool = True) -> Any:
    """A configuration whose queue has this gate; without a plugin that sorts there is no queue."""
    sorted_by = ["PrioritySort"] if sorts else []
    profile = command_line.profile("default-scheduler", queueSort=sorted_by)
    return configuration({"queue": {"gate": gate}, "profiles": [profile]}, PrioritySort)


@pytest.mark.parametrize(
    ("third", "sorts", "reason"),
    [
        pytest.param(gated("example.com/turn"), True, "", id="the queue will release it"),
        pytest.param(gated("example.com/turn", "x/y"), True, TOO_FEW, id="it waits for others"),
        pytest.param(gated(QUEUE), True, TOO_FEW, id="it is of another queue"),
        pytest.param(gated("example.com/turn", **THEIRS), True, TOO_FEW, id="of another scheduler"),
        pytest.param(gated("example.com/turn"), False, TOO_FEW, id="there is no queue"),
    ],
)
def test_a_pod_in_the_queue_counts_as_there(third: Manifest, sorts: bool, reason: str) -> None:
    gang = Gang(A, B, third, queue=with_queue("example.com/turn", sorts=sorts))
    assert gang.pre_filter(A) == reason


def test_a_gang_leaves_the_queue_as_soon_as_it_may_be_whole() -> None:
    gates = {"spec": {"schedulingGates": [{"name": QUEUE}]}}
    first, second, third = (each | gates for each in ABC)
    gang = Gang(first, queue=with_queue(QUEUE))
    assert [gang.pre_enqueue(each) for each in (first, second)] == [TOO_FEW] * 2
    gang.watch(first, second)
    gang.advance(1)
    # The watch of all pods may be later than the queue's own.
    assert gang.pre_enqueue(third) == gang.pre_enqueue(first) == ""
    gang.watch(first, third)
    gang.advance(1)
    assert gang.pre_enqueue(first) == TOO_FEW, "one of them is gone"


@pytest.mark.parametrize("beside", [(), (ended("Succeeded"),), (ended("Failed"),)])
def test_a_large_gang_is_listed_once_in_a_while_and_not_for_each_of_its_pods(beside: Any) -> None:
    pods = [member(f"p{number}", minimum="2000") for number in range(1000)]
    gang = Gang(*beside, *pods)
    assert {gang.pre_enqueue(each) for each in pods} == {TOO_FEW}
    assert {gang.pre_filter(each) for each in pods} == {TOO_FEW}
    assert gang.lists <= 2
    pods = [member(f"p{number}", minimum="100") for number in range(100)]
    gang = Gang(*pods)
    gang.bind(*pods)
    assert len(gang.bound) == 100
    assert gang.lists <= 4


def grouped(name: str, **spec: str) -> Manifest:
    """A member that is in a PodGroup of kube-scheduler as well."""
    return member(name) | {"spec": {"schedulingGroup": {"podGroupName": "theirs"}, **spec}}


def test_a_pod_with_a_pod_group_is_left_to_kube_scheduler_which_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    gang, theirs = Gang(), grouped("a")
    assert gang.pre_enqueue(theirs) == gang.pre_filter(theirs) == ""
    assert gang.fits_nowhere(theirs) == "the pod belongs to no pod group"
    assert gang.bind(theirs) == ["bound"]
    (record,) = (each for each in caplog.records if "spec.schedulingGroup" in each.message)
    facts = {name: getattr(record, name) for name in ("plugin", "pod", "profile")}
    assert facts == {"plugin": "Coscheduling", "pod": "ml/a", "profile": "default-scheduler"}


def test_pods_with_a_pod_group_count_for_a_gang_of_labels_once_they_run() -> None:
    assert Gang(grouped("a"), grouped("b")).pre_filter(C) == TOO_FEW
    run = [grouped(name, nodeName="n") for name in "ab"]
    assert Gang(*run).pre_filter(C) == ""


def test_label_and_minimum_may_have_other_names() -> None:
    gang = Gang(podGroupLabel="example.com/gang", minAvailableKey="example.com/min")
    labels = {"example.com/gang": "g", "example.com/min": "2"}
    assert gang.pre_filter(member("a", labels=labels)) == TOO_FEW
    assert gang.pre_filter(A) == ""


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("permitWaitingTimeSeconds", seconds) for seconds in (0, 901)),
        *(("podGroupBackoffSeconds", seconds) for seconds in (-1, 10)),
        *(("podGroupLabel", ""), ("minMember", 3)),
    ],
)
def test_args_that_cannot_be_meant_are_refused(name: str, value: Any) -> None:
    with pytest.raises(ConfigError):
        testing.Cluster(Coscheduling, args={"Coscheduling": {name: value}})


def test_a_pod_that_needs_no_others_does_not_wait() -> None:
    gang = Gang(member("x", node="n"), member("y", node="n"))
    pods = member("a", group=None), member("b", minimum="1"), member("c")
    assert gang.bind(*pods) == ["bound"] * 3


def test_two_groups_wait_each_for_its_own() -> None:
    pods = [member(f"{g}{number}", group=g, minimum="2") for number in (1, 2) for g in "gh"]
    gang, (g1, h1, g2, h2) = Gang(*pods), pods
    assert gang.bind(g1, h1) == [HELD] * 2
    assert gang.bind(g2) == ["bound"]
    assert gang.states(g1, h1) == ["bound", HELD]
    assert gang.bind(h2) == ["bound"]
    assert gang.states(h1) == ["bound"]
    assert not [call for call in gang.other.calls if call.startswith("unreserve")]


def test_with_room_for_two_all_time_out_and_give_up_what_they_reserved() -> None:
    gang = Gang(*ABC, permitWaitingTimeSeconds=30)
    assert gang.bind(A, B) == [HELD] * 2
    gang.advance(30)
    timed_out = "rejected due to timeout after waiting 30s at plugin Coscheduling"
    assert gang.states(A, B)[0] == timed_out
    assert set(gang.states(A, B)) <= {timed_out, GIVEN_UP}
    given_up = [call for call in gang.other.calls if call.startswith("unreserve")]
    assert sorted(given_up) == ["unreserve a", "unreserve b"]
    assert gang.bound == []


def test_when_one_is_rejected_all_are_and_the_group_is_denied_for_a_moment() -> None:
    gang = Gang(*ABC)
    for (fails, stays), seconds in zip(((A, B), (B, A), (A, B)), (3, 6, 12), strict=True):
        assert gang.bind(A, B) == [HELD] * 2
        gang.reject(fails)
        assert gang.states(fails, stays) == ["no", GIVEN_UP]
        gang.advance(seconds - 1)
        assert gang.pre_filter(C) == DENIED
        gang.advance(1)
        assert gang.pre_filter(C) == ""


@pytest.mark.parametrize(
    ("placed", "minimum", "rejected"),
    [(2, 3, True), (8, 10, True), (9, 10, False), (10, 10, False)],
)
def test_a_pod_that_fits_nowhere_takes_its_group_with_it_unless_the_gap_is_small(
    placed: int, minimum: int, rejected: bool
) -> None:
    size = str(minimum)
    running = [member(f"r{number}", minimum=size, node="n") for number in range(placed - 1)]
    gang = Gang(*running, *(member(f"p{number}") for number in range(99)))
    held = member("held", minimum=size if placed < minimum else "99")
    assert gang.bind(held) == [HELD]
    gang.fits_nowhere(member("asked", minimum=size))
    # kube-scheduler may evict pods for the pod first.
    gang.advance(0.9)
    assert gang.states(held) == [HELD]
    gang.advance(0.1)
    assert gang.states(held) == [GIVEN_UP if rejected else HELD]


def nominated(of: Manifest) -> Manifest:
    return {**of, "status": {"phase": "Pending", "nominatedNodeName": "n"}}


@pytest.mark.parametrize(
    ("other", "stays"),
    [
        (nominated(C), True),
        (C, False),
        (nominated(C | {"spec": THEIRS}), False),
        *(
            (nominated(member("c", **odd)), False)
            for odd in ({"group": "h"}, {"namespace": "web"}, {"deletionTimestamp": GONE})
        ),
    ],
)
def test_a_group_for_which_kube_scheduler_evicts_pods_stays(other: Manifest, stays: bool) -> None:
    gang = Gang(*ABC)
    gang.bind(A)
    gang.fits_nowhere(C)
    gang.advance(0.5)
    # The preempt request comes before the group is given up.
    assert gang.pre_filter(C) == ""
    gang.watch(A, B, other)
    gang.advance(0.5)
    assert gang.states(A) == [HELD if stays else GIVEN_UP]
    if stays:
        # A later failure of the same group counts again.
        gang.watch(*ABC)
        gang.fits_nowhere(C)
        gang.advance(1)
        assert gang.states(A) == [GIVEN_UP]


def test_a_group_that_becomes_complete_after_post_filter_is_not_rejected() -> None:
    """Also if another Permit plugin still has to answer for one of its pods."""
    gang = Gang(*ABC)
    gang.other.close("permit b")
    gang.bind(A)
    assert gang.fits_nowhere(C) == GIVEN_UP
    gang.advance(0.9)
    assert gang.bind(B, C) == ["busy", "bound"]
    gang.advance(0.1)
    gang.open("permit b")
    gang.advance(0.2)
    assert gang.states(*ABC) == ["bound"] * 3
    assert gang.pre_filter(A) == ""


def test_a_group_of_which_few_pods_are_missing_a_second_after_post_filter_stays() -> None:
    pods = [member(f"p{number}", minimum="20") for number in range(20)]
    gang = Gang(*pods)
    gang.bind(pods[0])
    assert gang.fits_nowhere(pods[1]) == GIVEN_UP
    gang.advance(0.5)
    gang.bind(*pods[2:])
    gang.advance(0.5)
    assert gang.states(pods[0], *pods[2:]) == [HELD] * 19


def test_a_group_of_which_no_pod_is_held_has_no_backoff_for_post_filter() -> None:
    gang = Gang(*ABC)
    gang.bind(A)
    gang.fits_nowhere(C)
    # A person lets the pod in before the second is over.
    gang.allow(A, "Coscheduling")
    gang.advance(1)
    assert gang.states(A) == ["bound"]
    assert gang.pre_filter(B) == ""
    gang.bind(B, C)
    assert gang.states(*ABC) == ["bound"] * 3


def test_a_large_pod_stops_the_gangs_of_its_namespace_alone_until_it_is_gone() -> None:
    others = [member(name, namespace="web", minimum="2") for name in "xy"]
    gang = Gang(*ABC, unlabelled(), *others)
    assert gang.pre_filter(A) == gang.pre_enqueue(A) == UNLISTED
    assert gang.pre_enqueue(others[0]) == ""
    assert gang.bind(*others)[1:] == ["bound"]
    gang.watch(*ABC, *others)
    assert gang.pre_filter(B) == gang.pre_enqueue(A) == ""
    gang.bind(B)
    assert gang.woken == ["a"]


def test_a_group_waits_on_while_its_pods_cannot_be_listed() -> None:
    gang = Gang(*ABC)
    assert gang.bind(A, B) == [HELD] * 2
    assert gang.fits_nowhere(C) == GIVEN_UP
    gang.watch(unlabelled(), *ABC)
    gang.advance(1)
    assert gang.states(A, B) == [HELD] * 2
    assert gang.fits_nowhere(C) == UNLISTED
    assert gang.bind(C) == [UNLISTED]
    assert gang.states(A, B) == [HELD] * 2
    gang.watch(*ABC)
    gang.advance(1)
    assert gang.bind(C) == ["bound"]
    assert gang.bound == ["a", "b", "c"]


def test_a_pod_that_another_plugin_may_still_refuse_does_not_complete_its_group() -> None:
    gang = Gang(*ABC, says={"reserve b": Status.unschedulable("over quota")})
    gang.other.close("reserve b")
    assert gang.bind(A, B) == [HELD, "busy"]
    # The pods are listed again, with the node that was chosen for the second one.
    gang.advance(1)
    assert gang.bind(C) == [HELD]
    gang.open("reserve b")
    assert gang.states(*ABC) == [GIVEN_UP, "over quota", GIVEN_UP]


def test_a_pod_whose_unreserve_runs_does_not_complete_its_group() -> None:
    gang = Gang(*ABC, says={"permit a": Status.unschedulable("no licence")})
    gang.other.close("unreserve a")
    assert gang.bind(B, A, C) == [HELD, "busy", HELD]
    gang.open("unreserve a")
    assert gang.states(*ABC) == ["no licence", GIVEN_UP, GIVEN_UP]


def test_a_pod_that_is_bound_although_its_bind_failed_completes_its_group() -> None:
    """The watch shows the pod on its node, and its Unreserve still runs."""
    first, second = (member(name, minimum="2") for name in "ab")
    gang = Gang(first, second, says={"permit a": Status.unschedulable("no")})
    gang.other.close("unreserve a")
    assert gang.bind(first) == ["busy"]
    gang.watch(member("a", minimum="2", node="n"), second)
    gang.advance(1)
    assert gang.bind(second) == ["bound"]


def test_a_pod_that_is_being_deleted_does_not_complete_its_group() -> None:
    running = [member(name, minimum="4", node="n") for name in "xy"]
    gang = Gang(*running)
    pods = [member(name, minimum="4") for name in "ab"]
    gang.bind(pods[0])
    gang.watch(running[0], member("y", minimum="4", node="n", deletionTimestamp=GONE), *pods)
    assert gang.bind(pods[1]) == [HELD]


def test_a_group_that_runs_is_not_denied_because_a_pod_beyond_its_minimum_failed() -> None:
    running = [member(name, minimum="2", node="n") for name in "ab"]
    beyond = [member(name, minimum="2") for name in "cd"]
    gang = Gang(*running, *beyond, says={"reserve c": Status.unschedulable("over quota")})
    assert gang.bind(beyond[0]) == ["over quota"]
    assert gang.pre_filter(beyond[1]) == ""
    assert gang.bind(beyond[1]) == ["bound"]


def test_a_pod_that_is_kept_without_its_labels_is_left_to_pre_filter() -> None:
    gang = Gang(unlabelled())
    (kept,) = testing.make_node("n", pods=[unlabelled(node="n")]).pods
    assert kept.truncated
    assert gang.plugin.pre_enqueue(kept) is None


def test_why_says_how_many_pods_or_nodes_a_gang_lacks() -> None:
    gang = Gang(A)

    def lacks() -> str:
        return str(gang.plugin.unblock(pod_of(A), None))

    assert lacks() == "2 more pods of the pod group g: 1 of 3 exist"
    gang.watch(*ABC)
    gang.advance(1)
    gang.bind(B)
    assert lacks() == "a node for 2 more pods of the pod group g: 1 of 3 have one"
    gang.reject(B)
    assert lacks() == "the end of the rejection of the pod group g, in 3 s"


def test_parked_pods_are_those_that_kube_scheduler_called_unschedulable() -> None:
    gang = Gang(parked("a"), member("b"), C, member("d"))
    gang.bind(C)
    assert gang.woken == ["a"], "b has not been tried yet"
