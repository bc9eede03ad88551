"""A gang's rounds: whom Coscheduling wakes, backoffs, and gangs that another plugin holds too."""

import itertools
from typing import Any

import pytest
from tests.doors.stories import ABC, DENIED, GIVEN_UP, HELD, TOO_FEW, Gang, member, parked

from kubextend import Status

A, B, C = ABC
WAIT = (Status.wait(), 500.0)
BOTH = "held by Coscheduling, Other"
APPROVAL = "held by Other"
APPROVE_ALL = {f"permit {name}": WAIT for name in "abc"}
REFUSED = Status.unschedulable("no")


# Whom a gang wakes, and when.


def test_pods_that_were_turned_away_are_woken_when_one_comes_as_far_as_permit() -> None:
    gang = Gang(A, podGroupBackoffSeconds=0)
    assert [gang.pre_filter(each) for each in (A, B)] == [TOO_FEW] * 2
    gang.watch(*ABC)
    assert gang.pre_filter(C) == ""
    assert gang.woken == []
    gang.bind(C)
    assert gang.woken == ["a", "b"]
    gang.bind(A, B)
    assert gang.bound == ["a", "b", "c"]
    assert gang.woken == ["a", "b"]


def test_after_a_restart_pods_that_kube_scheduler_parked_are_woken_once() -> None:
    theirs = parked("theirs") | {"spec": {"schedulerName": "another"}}
    gang = Gang(parked("a"), parked("b"), theirs, C, member("d"))
    gang.bind(C, member("d"))
    assert gang.woken == ["a", "b"]
    gang.bind(A)
    assert gang.bound == ["a", "c", "d"]
    assert gang.woken == ["a", "b"]


def test_when_the_backoff_ends_one_pod_tries_for_those_that_were_denied() -> None:
    gang = Gang(*ABC, says={"reserve a": REFUSED})
    gang.bind(A)
    assert [gang.pre_filter(each) for each in ABC] == [DENIED] * 3
    gang.advance(3)
    assert gang.woken == ["a"]
    gang.advance(60)
    assert gang.woken == ["a"]


@pytest.mark.parametrize("late_s", [0, 5])
def test_a_pod_that_the_watch_shows_late_is_woken(late_s: int) -> None:
    """A second later, or once another pod of the group reaches Permit."""
    gang = Gang(A, podGroupBackoffSeconds=0)
    assert gang.pre_filter(B) == TOO_FEW
    gang.watch(A, C)
    gang.bind(C)
    assert gang.woken == []
    gang.advance(late_s)
    gang.watch(A, parked("b"), C)
    if not late_s:
        gang.advance(1)
        assert gang.woken == ["b"]
    gang.bind(A)
    gang.advance(1)
    assert gang.woken == ["b"]


def test_a_large_group_is_woken_over_ten_seconds() -> None:
    names = [f"p{number:04}" for number in range(5000)]
    last = member("last", minimum="5001")
    gang = Gang(*(member(name, minimum="5001") for name in names), last)
    assert gang.bind(last) == [HELD]
    gang.reject(last)
    pods = [parked(name, minimum="5001") for name in names]
    assert {gang.pre_filter(each) for each in pods} == {DENIED}
    gang.watch(*pods, last)
    gang.advance(5)
    assert gang.woken == ["p0000"]
    gang.bind(last)
    woken = [len(gang.woken)]
    for _ in range(25):
        gang.advance(1)
        woken.append(len(gang.woken))
    assert max(after - before for before, after in itertools.pairwise(woken)) <= 500
    assert len(gang.woken[1:]) == len(set(gang.woken[1:])) == 5000


def name_groups(gang: Gang, number: int) -> None:
    """Ask about pods of so many groups of another namespace."""
    for each in range(number):
        gang.pre_filter(member("t", namespace="tenant", group=f"g{each}"))


def test_a_tenant_with_thousands_of_groups_makes_no_neighbour_wait() -> None:
    gang = Gang(A, podGroupBackoffSeconds=0)
    assert [gang.pre_filter(each) for each in (A, B)] == [TOO_FEW] * 2
    name_groups(gang, 4096)
    gang.watch(parked("a"), parked("b"), C)
    gang.bind(C)
    assert gang.woken == ["a", "b"]


def test_a_tenant_with_thousands_of_groups_neither_splits_a_gang_nor_ends_its_backoff() -> None:
    """Another Permit plugin holds the gang, which this plugin has allowed."""
    gang = Gang(*ABC, says=APPROVE_ALL)
    gang.bind(*ABC)
    name_groups(gang, 4200)
    gang.reject(A, "Other")
    assert gang.states(*ABC) == ["no", GIVEN_UP, GIVEN_UP]
    gang.other.says.clear()
    gang.bind(A)
    gang.reject(A)
    name_groups(gang, 4200)
    assert gang.pre_filter(B) == DENIED


# Backoffs.


def test_each_rejection_in_a_row_doubles_the_backoff_up_to_a_minute() -> None:
    gang = Gang(*ABC, says={"reserve a": REFUSED})

    def denied_s() -> int:
        gang.bind(A)
        seconds = 0
        while gang.pre_filter(B) == DENIED:
            gang.advance(1)
            seconds += 1
        return seconds

    assert [denied_s() for _ in range(7)] == [3, 6, 12, 24, 48, 60, 60]


def test_a_pod_that_fails_after_its_group_was_complete_waits_for_no_other_pod() -> None:
    gang = Gang(*ABC, says={"permit c": REFUSED})
    gang.bind(A, B)
    assert gang.bind(C) == ["no"]
    assert gang.states(A, B) == ["bound"] * 2
    gang.other.says.clear()
    assert gang.pre_filter(C) == ""
    assert gang.bind(C) == ["bound"]


def test_a_group_that_became_complete_without_a_failed_pod_begins_its_backoff_again() -> None:
    gang = Gang(*ABC, says={f"reserve {name}": REFUSED for name in "ad"})
    for _ in range(3):
        gang.bind(A)
        gang.advance(100)
    gang.watch(*(member(name, node="n") for name in "xyz"))
    gang.advance(100)
    gang.bind(member("d"))
    gang.watch(*ABC)
    gang.advance(100)
    gang.bind(A)
    assert gang.pre_filter(A) == DENIED
    gang.advance(3)
    assert gang.pre_filter(A) == ""


def test_a_group_that_was_rejected_meanwhile_is_not_rejected_again_for_post_filter() -> None:
    gang = Gang(*ABC, podGroupBackoffSeconds=0, says={"reserve d": REFUSED})
    gang.bind(A)
    gang.fits_nowhere(C)
    gang.advance(0.2)
    # The first of the two decides how long the group has.
    gang.fits_nowhere(B)
    gang.advance(0.3)
    gang.bind(member("d"))
    assert gang.states(A) == [GIVEN_UP]
    gang.bind(A)
    gang.advance(0.7)
    assert gang.states(A) == [HELD]


# Another Permit plugin beside Coscheduling.


@pytest.mark.parametrize("how", ["another is rejected", "another fits nowhere"])
def test_a_pod_that_another_permit_plugin_keeps_busy_is_sent_back_as_well(how: str) -> None:
    gang = Gang(*ABC)
    gang.other.close("permit a")
    gang.bind(A)
    if how == "another is rejected":
        gang.bind(B)
        gang.reject(B)
    else:
        assert gang.fits_nowhere(B) == GIVEN_UP
    gang.advance(1)
    gang.open("permit a")
    gang.advance(1)
    assert gang.states(A) == [GIVEN_UP]


def test_the_last_decision_counts_for_a_pod_that_another_permit_plugin_keeps_busy() -> None:
    """The group is rejected, and complete a moment later."""
    gang = Gang(*ABC)
    gang.other.close("permit a")
    gang.bind(A, B)
    gang.reject(B)
    gang.advance(3)
    assert gang.bind(B, C) == ["bound"] * 2
    gang.open("permit a")
    gang.advance(1)
    assert gang.states(A) == ["bound"]


def test_a_surplus_pod_that_fails_takes_no_allowed_pod_of_a_complete_group_with_it() -> None:
    pods = [member(name, minimum="2") for name in ("first", "second", "surplus")]
    gang = Gang(*pods, says={"permit surplus": Status.unschedulable("no licence is left")})
    gang.other.close("permit first", "permit second")
    assert gang.bind(*pods) == ["busy", "busy", "no licence is left"]
    gang.open("permit first", "permit second")
    gang.advance(5)
    assert gang.states(*pods[:2]) == ["bound"] * 2


@pytest.mark.parametrize("busy", [False, True])
def test_a_failed_pod_of_a_group_that_is_complete_without_it_frees_held_pods(busy: bool) -> None:
    """Another scheduler placed the pods that were missing."""
    gang = Gang(*ABC, says={"reserve d": REFUSED})
    if busy:
        gang.other.close("permit a")
    gang.bind(A)
    gang.watch(A, *(member(name, node="elsewhere") for name in "bc"))
    gang.advance(1)
    gang.bind(member("d"))
    if busy:
        gang.open("permit a")
        gang.advance(1)
    assert gang.states(A) == ["bound"]
    assert gang.pre_filter(member("e")) == ""
    assert gang.woken == []


@pytest.mark.parametrize(("fails", "stays"), [(A, B), (B, A)])
def test_a_failed_pod_takes_those_that_another_permit_plugin_holds(fails: Any, stays: Any) -> None:
    """Coscheduling has allowed all pods, and the other plugin holds them."""
    gang = Gang(*ABC, says=APPROVE_ALL)
    assert gang.bind(A, B) == [BOTH] * 2
    assert gang.bind(C) == [APPROVAL]
    gang.advance(1)
    gang.reject(fails, "Other")
    gang.advance(1)
    assert gang.states(stays, C) == [GIVEN_UP] * 2
    assert gang.bound == []


@pytest.mark.parametrize("answer", [Status.success(), WAIT])
def test_a_failed_pod_takes_one_with_it_that_another_permit_plugin_judges(answer: object) -> None:
    gang = Gang(*ABC, says=APPROVE_ALL | {"permit c": answer})
    gang.other.close("permit c")
    gang.bind(*ABC)
    gang.advance(1)
    gang.reject(B, "Other")
    gang.open("permit c")
    gang.advance(1)
    assert gang.states(C) == [GIVEN_UP]
    assert gang.bound == []
    # The next attempt of the whole group succeeds.
    gang.other.says.clear()
    gang.advance(10)
    assert gang.bind(*ABC)[2] == "bound"
    assert gang.bound == ["a", "b", "c"]


def test_a_pod_that_counts_again_after_it_was_rejected_is_bound_with_its_group() -> None:
    gang = Gang(*ABC, says=APPROVE_ALL | {"permit c": None})
    gang.other.close("permit c")
    gang.bind(*ABC)
    gang.advance(1)
    gang.reject(B, "Other")
    gang.other.says.clear()
    assert gang.bind(A, B) == ["bound"] * 2
    gang.open("permit c")
    assert gang.states(C) == ["bound"]


def test_a_pod_that_counts_again_after_it_was_rejected_takes_its_group_with_it() -> None:
    """The group is complete again before the rejected pod has failed."""
    gang = Gang(*ABC, says=APPROVE_ALL)
    gang.other.close("permit c")
    gang.bind(*ABC)
    gang.advance(1)
    gang.reject(B, "Other")
    assert gang.bind(A, B) == [APPROVAL] * 2
    gang.open("permit c")
    gang.advance(1)
    gang.reject(C, "Other")
    assert gang.states(A, B) == [GIVEN_UP] * 2
    assert gang.bound == []


def test_a_pod_of_the_last_round_whose_unreserve_ends_late_rejects_nobody() -> None:
    pods = {name: member(name, minimum="2") for name in ("first", "late", "second", "third")}
    gang = Gang(*pods.values(), says={f"permit {name}": WAIT for name in pods})
    gang.other.close("unreserve late")
    gang.bind(pods["first"], pods["late"])
    gang.reject(pods["first"], "Other")
    gang.advance(1)
    # The group is complete without the pod that was rejected with the first one.
    gang.bind(pods["second"], pods["third"])
    gang.allow(pods["second"])
    gang.advance(1)
    gang.cluster.delete(pods["second"])
    gang.open("unreserve late")
    assert gang.states(pods["late"], pods["third"]) == [GIVEN_UP, APPROVAL]


def test_a_pod_refused_by_a_slow_permit_plugin_after_its_group_was_complete_is_tried() -> None:
    """Coscheduling has allowed the pod, and nobody holds it yet."""
    gang = Gang(*ABC, says=APPROVE_ALL | {"permit a": REFUSED})
    gang.other.close("permit a")
    assert gang.bind(*ABC) == ["busy", APPROVAL, APPROVAL]
    gang.open("permit a")
    assert gang.states(*ABC) == ["no", GIVEN_UP, GIVEN_UP]
    assert gang.pre_filter(A) == ""
