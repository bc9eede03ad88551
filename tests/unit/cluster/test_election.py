"""Who leads, on leases and clocks that do what a test says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from election_world import LEASE, Leases, World, unreachable

from kubextend.cluster import Election, lease_holder
from kubextend.cluster.api_call import UnreachableError

if TYPE_CHECKING:
    from kubextend.cluster.api_call import Call
    from kubextend.cluster.client import Cluster


@pytest.fixture
def world() -> World:
    return World()


def test_who_comes_first_makes_the_lease_and_leads(world: World) -> None:
    first, second = world.candidate("a"), world.candidate("b")
    assert not first.leads
    first.attempt()
    second.attempt()
    assert first.leads
    assert not second.leads
    assert world.leases.spec["holderIdentity"] == "a"
    assert world.leases.spec["leaseDurationSeconds"] == 15
    assert world.leases.spec["leaseTransitions"] == 0
    assert world.leases.spec["acquireTime"] == world.leases.spec["renewTime"]


def test_a_leader_that_renews_leads_for_ever(world: World) -> None:
    first, second = world.candidate("a"), world.candidate("b")
    for _ in range(50):
        first.attempt()
        second.attempt()
        assert first.leads
        assert not second.leads
        world.clock.pass_s(2)
    assert world.leases.spec["leaseTransitions"] == 0


def test_a_leader_that_cannot_renew_ceases_before_another_may_begin(world: World) -> None:
    first, second = world.candidate("a"), world.candidate("b")
    first.attempt()
    second.attempt()
    led_at: list[str] = []
    for _ in range(200):
        world.clock.pass_s(0.1)
        second.attempt()
        assert not (first.leads and second.leads)
        led_at.append("a" if first.leads else "b" if second.leads else "-")
    text = "".join(led_at)
    assert text == "a" * text.count("a") + "-" * text.count("-") + "b" * text.count("b")
    assert 9 <= text.count("a") / 10 <= 10
    # What the first began at its last moment has five seconds to end.
    assert text.count("-") / 10 >= 5 - 0.2
    assert world.leases.spec["leaseTransitions"] == 1


def test_a_lease_is_not_renewed_by_who_changes_its_labels(world: World) -> None:
    first, second = world.candidate("a"), world.candidate("b")
    first.attempt()
    assert world.leases.lease is not None
    for number in range(16):
        world.leases.lease["metadata"]["labels"] = {"changed": str(number)}
        world.leases.lease["metadata"]["resourceVersion"] = f"other-{number}"
        second.attempt()
        assert second.leads is (number == 15)
        world.clock.pass_s(1)


def test_a_leader_leads_for_ten_seconds_from_when_it_asked(world: World) -> None:
    first = world.candidate("a")
    # The lease is read, which shows that there is none, and made.
    world.answer_after(2)
    first.attempt()
    assert world.clock.now_s == 4
    world.clock.pass_s(5.9)
    assert first.leads
    world.clock.pass_s(0.1)
    assert not first.leads


def test_a_renewal_too_counts_from_when_it_was_asked_for(world: World) -> None:
    first = world.candidate("a")
    first.attempt()
    world.clock.pass_s(2)
    world.answer_after(4)
    first.attempt()
    world.clock.pass_s(5.9)
    assert first.leads
    world.clock.pass_s(0.1)
    assert not first.leads


def test_a_leader_that_cannot_renew_tries_again_at_its_last_moment(world: World) -> None:
    first = world.candidate("a")
    world.clock.pass_s(first.turn())
    world.answer_after(0.7)
    began: list[float] = []
    while first.leads:
        world.leases.errors.append(unreachable())
        began.append(world.clock.now_s)
        world.clock.pass_s(first.turn())
    assert began == pytest.approx([2, 4.7, 7.4])
    assert world.clock.now_s == pytest.approx(10)


def test_each_begin_and_each_end_of_leading_is_told_once(world: World) -> None:
    told: list[bool] = []
    first = world.candidate("a", lambda: told.append(first.leads))
    first.turn()
    first.turn()
    assert told == [True]
    assert world.leases.lease is not None
    world.leases.lease["spec"]["holderIdentity"] = "b"
    world.leases.lease["metadata"]["resourceVersion"] = "99"
    first.turn()
    first.turn()
    assert told == [True, False]
    world.leases.lease["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
    first.turn()
    assert told == [True, False, True]


def test_a_lapse_while_a_renewal_is_slow_is_told(world: World) -> None:
    told: list[float] = []
    first = world.candidate("a", lambda: told.append(world.clock.now_s))
    first.turn()
    world.clock.pass_s(9)
    world.answer_after(4)
    first.turn()
    assert first.leads
    assert len(told) > 1


def test_a_lease_that_is_given_back_is_taken_at_once(world: World) -> None:
    first, second = world.candidate("a"), world.candidate("b")
    first.attempt()
    second.attempt()
    first.stop()
    assert not first.leads
    assert world.leases.spec["holderIdentity"] == ""
    assert world.leases.spec["leaseDurationSeconds"] == 1
    second.attempt()
    assert second.leads
    assert world.leases.spec["holderIdentity"] == "b"
    assert world.leases.spec["leaseTransitions"] == 1


def test_a_lease_that_is_given_back_is_taken_at_once_by_who_never_saw_it_held(
    world: World,
) -> None:
    first, second = world.candidate("a"), world.candidate("b")
    first.attempt()
    first.stop()
    second.attempt()
    assert second.leads


def test_who_does_not_lead_gives_nothing_back(world: World) -> None:
    first, second = world.candidate("a"), world.candidate("b")
    first.attempt()
    second.attempt()
    second.stop()
    assert world.leases.spec["holderIdentity"] == "a"
    world.leases.errors.append(unreachable())
    first.stop()
    assert not first.leads


def test_a_renewal_whose_answer_is_lost_counts_once_the_lease_is_read(world: World) -> None:
    first = world.candidate("a")
    first.attempt()
    world.clock.pass_s(2)
    world.leases.lost = True
    with pytest.raises(UnreachableError):
        first.attempt()
    world.clock.pass_s(2)
    first.attempt()
    world.clock.pass_s(9)
    assert first.leads
    assert world.leases.spec["leaseTransitions"] == 0


def test_failures_while_the_lease_lasts_end_nothing(world: World) -> None:
    first = world.candidate("a")
    first.attempt()
    for _ in range(3):
        world.clock.pass_s(2)
        world.leases.errors.append(unreachable())
        with pytest.raises(UnreachableError):
            first.attempt()
        assert first.leads
    world.clock.pass_s(2)
    first.attempt()
    world.clock.pass_s(9)
    assert first.leads


def test_a_lease_that_was_deleted_is_made_anew(world: World) -> None:
    first = world.candidate("a")
    first.attempt()
    world.leases.lease = None
    first.attempt()
    assert first.leads
    assert world.leases.spec["holderIdentity"] == "a"


def end_by_hand(world: World, how: str) -> None:
    """Delete or empty the Lease, as a person may do with kubectl."""
    assert world.leases.lease is not None
    if how == "deleted":
        world.leases.lease = None
        return
    world.leases.lease["metadata"]["resourceVersion"] = "by-hand"
    if how == "emptied":
        world.leases.lease["spec"]["holderIdentity"] = ""
    elif how == "with its times alone":
        del world.leases.lease["spec"]["holderIdentity"]
        del world.leases.lease["spec"]["leaseDurationSeconds"]
    else:
        world.leases.lease["spec"] = {}


def take_over(world: World, first: Election, second: Election) -> None:
    """Let the second look at the Lease each half second until it leads; the first looks no more."""
    while not second.leads:
        world.clock.pass_s(0.5)
        second.attempt()
        assert not (first.leads and second.leads)


BY_HAND = ["deleted", "emptied", "with its times alone", "without a spec"]


@pytest.mark.parametrize("how", BY_HAND)
def test_a_lease_that_is_ended_by_hand_makes_no_second_leader(world: World, how: str) -> None:
    first, second = world.candidate("a"), world.candidate("b")
    first.attempt()
    second.attempt()
    # Renewed unseen by the second right before: the first leads for the whole ten seconds more.
    world.clock.pass_s(9)
    first.attempt()
    end_by_hand(world, how)
    second.attempt()
    ended_s = world.clock.now_s
    take_over(world, first, second)
    assert world.clock.now_s == ended_s + 15


@pytest.mark.parametrize("how", ["emptied", "with its times alone", "without a spec"])
def test_a_lease_that_is_empty_at_the_first_look_makes_no_second_leader(
    world: World, how: str
) -> None:
    first, second = world.candidate("a"), world.candidate("b")
    first.attempt()
    end_by_hand(world, how)
    second.attempt()
    take_over(world, first, second)
    assert world.clock.now_s == 15
    assert world.leases.spec["holderIdentity"] == "b"


def test_a_lease_that_is_emptied_by_hand_and_then_deleted_makes_no_second_leader(
    world: World,
) -> None:
    first, second = world.candidate("a"), world.candidate("b")
    first.attempt()
    second.attempt()
    end_by_hand(world, "with its times alone")
    second.attempt()
    end_by_hand(world, "deleted")
    second.attempt()
    assert (first.leads, second.leads) == (True, False)


@pytest.mark.parametrize("how", BY_HAND)
def test_who_led_before_the_leader_of_a_lease_that_is_ended_by_hand_waits_too(
    world: World, how: str
) -> None:
    first, second = world.candidate("a"), world.candidate("b")
    first.attempt()
    second.attempt()
    world.clock.pass_s(15)
    second.attempt()
    end_by_hand(world, how)
    first.attempt()
    assert (first.leads, second.leads) == (False, True)


@pytest.mark.parametrize("how", BY_HAND)
def test_the_leader_keeps_a_lease_that_is_ended_by_hand(world: World, how: str) -> None:
    first, second = world.candidate("a"), world.candidate("b")
    first.attempt()
    second.attempt()
    end_by_hand(world, how)
    second.attempt()
    world.clock.pass_s(2)
    if how == "deleted":
        first.attempt()
        assert (first.leads, first.term) == (True, 1)
    for _ in range(15):
        first.turn()
        second.turn()
        assert not (first.leads and second.leads)
        world.clock.pass_s(1)


def test_a_lease_that_another_has_taken_ends_the_leadership_at_once(world: World) -> None:
    first = world.candidate("a")
    first.attempt()
    assert world.leases.lease is not None
    world.leases.lease["spec"]["holderIdentity"] = "b"
    world.leases.lease["metadata"]["resourceVersion"] = "99"
    world.clock.pass_s(2)
    first.attempt()
    assert not first.leads


def test_after_losing_it_the_lease_can_be_won_back(world: World) -> None:
    first = world.candidate("a")
    first.attempt()
    world.clock.pass_s(11)
    assert not first.leads
    first.attempt()
    assert first.leads
    assert world.leases.spec["leaseTransitions"] == 0


def test_of_two_that_reach_for_it_one_gets_it(world: World) -> None:
    first, second = world.candidate("a"), world.candidate("b")
    first.attempt()
    second.attempt()
    first.stop()
    taken = world.leases.request

    def after_the_other(call: Call) -> bytes:
        if call.method == "PUT":
            world.leases.request = taken  # type: ignore[method-assign]
            world.candidate("c").attempt()
        return taken(call)

    world.leases.request = after_the_other  # type: ignore[method-assign]
    second.attempt()
    assert not second.leads
    assert world.leases.spec["holderIdentity"] == "c"


def test_two_replicas_never_have_the_same_identity() -> None:
    leases: Cluster = Leases()  # type: ignore[assignment]
    assert Election(leases, LEASE).identity != Election(leases, LEASE).identity


def test_the_holder_of_a_lease_can_be_asked_for(world: World) -> None:
    api: Cluster = world.leases  # type: ignore[assignment]
    assert lease_holder(api, LEASE) == ""
    first = world.candidate("a")
    first.attempt()
    assert lease_holder(api, LEASE) == "a"
    first.stop()
    assert lease_holder(api, LEASE) == ""
    world.leases.spec.update(holderIdentity="a", renewTime="2020-01-01T00:00:00.000000Z")
    assert lease_holder(api, LEASE) == ""


def test_each_time_without_a_break_in_which_a_replica_leads_is_a_term(world: World) -> None:
    first = world.candidate("a")
    assert (first.term, first.left_s()) == (0, 0)
    first.attempt()
    world.clock.pass_s(4)
    assert (first.term, first.left_s()) == (1, 6)
    first.attempt()
    assert (first.term, first.left_s()) == (1, 10)
    world.clock.pass_s(10)
    assert first.left_s() == 0
    first.attempt()
    assert (first.term, first.left_s()) == (2, 10)


def test_a_lapse_while_a_renewal_is_on_its_way_ends_the_term(world: World) -> None:
    first = world.candidate("a")
    first.attempt()
    world.clock.pass_s(9)
    world.answer_after(4)
    first.attempt()
    assert first.leads
    assert first.term == 2


@pytest.mark.parametrize(("retry_s", "longest_s"), [(2.0, 2.0), (0.5, 0.5)])
def test_a_lease_of_another_is_looked_at_as_often_as_is_asked_for(
    world: World, retry_s: float, longest_s: float
) -> None:
    world.candidate("a").attempt()
    api: Cluster = world.leases  # type: ignore[assignment]
    second = Election(api, LEASE, identity="b", retry_s=retry_s, clock=world.clock)
    assert {longest_s / 2 <= second.turn() <= longest_s for _ in range(20)} == {True}
