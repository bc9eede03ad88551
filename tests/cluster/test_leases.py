"""One replica leads at a time, whatever becomes of the API and of its Lease."""

import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.doors.kube_api import Candidate, Held, ScriptedApi, SkippingTime
from tests.doors.scripted_requests import Request, lost_answer_of_lease, refusing

Join = Callable[[str], Candidate]

STEP_S = 0.25


@pytest.fixture
def joins(api: ScriptedApi, tmp_path: Path) -> Iterator[Join]:
    """Make a replica take part in the election."""
    made: list[Candidate] = []

    def join(name: str) -> Candidate:
        made.append(Candidate(api, tmp_path, name))
        made[-1].start()
        return made[-1]

    yield join
    for each in made:
        each.stop()


@pytest.fixture
def first(joins: Join, clock: SkippingTime) -> Candidate:
    """A replica that leads."""
    made = joins("a")
    clock.until(lambda: made.leads)
    return made


@pytest.fixture
def two(first: Candidate, joins: Join, clock: SkippingTime) -> tuple[Candidate, Candidate]:
    """Two replicas, of which the first leads."""
    second = joins("b")
    clock.settle()
    assert not second.leads
    return first, second


def spec_of(api: ScriptedApi) -> dict[str, Any]:
    assert api.lease is not None
    spec: dict[str, Any] = api.lease["spec"]
    return spec


def watched(clock: SkippingTime, seconds: float, *replicas: Candidate) -> str:
    """Let seconds pass; return the name of who led at the end of each step, "-" for nobody."""
    led = ""
    for _ in range(int(seconds / STEP_S)):
        clock.pass_s(STEP_S)
        leaders = [each.name for each in replicas if each.leads]
        assert len(leaders) <= 1
        led += "".join(leaders) or "-"
    return led


ONE_AFTER_THE_OTHER = re.compile("a*-*b+")


def test_the_first_replica_makes_the_lease_and_leads_for_a_request_in_two_seconds(
    api: ScriptedApi, two: tuple[Candidate, Candidate], clock: SkippingTime
) -> None:
    assert api.requests[0][1].startswith("/apis/coordination.k8s.io/v1/namespaces/kubextend-system")
    spec = spec_of(api)
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("a", 15)
    assert spec["acquireTime"] == spec["renewTime"]
    assert {*watched(clock, 120, *two)} == {"a"}
    assert spec_of(api)["leaseTransitions"] == 0
    assert spec_of(api)["acquireTime"] != spec_of(api)["renewTime"]
    assert api.counts["lease"] <= 2 * (120 / 2 + 2)
    assert two[0].told == [True]


def test_a_leader_that_is_cut_off_ceases_before_another_begins(
    api: ScriptedApi, two: tuple[Candidate, Candidate], clock: SkippingTime
) -> None:
    clock.pass_s(60)
    api.cut_off.add("a")
    led = watched(clock, 30, *two)
    assert ONE_AFTER_THE_OTHER.fullmatch(led)
    assert 8 <= led.count("a") * STEP_S <= 10
    # What the first began at its last moment has five seconds to end.
    assert 5 - STEP_S <= led.count("-") * STEP_S <= 9
    assert spec_of(api)["leaseTransitions"] == 1
    assert (two[0].told, two[1].told) == ([True, False], [True])
    api.cut_off.clear()
    assert {*watched(clock, 60, *two)} == {"b"}


def test_a_leader_that_cannot_renew_tries_again_until_its_last_moment(
    api: ScriptedApi, first: Candidate, clock: SkippingTime, caplog: pytest.LogCaptureFixture
) -> None:
    api.cut_off.add("a")
    clock.pass_s(9.9)
    assert first.leads
    assert first.left_s == pytest.approx(0.1)
    clock.pass_s(0.1)
    assert not first.leads
    assert max(api.pauses("lease")) <= 2
    api.cut_off.clear()
    clock.pass_s(2)
    assert first.leads
    assert spec_of(api)["leaseTransitions"] == 0
    assert caplog.text.count("cannot get the lease kubextend-system/kubextend") == 1


def test_who_changes_the_labels_of_a_lease_does_not_renew_it(
    api: ScriptedApi, two: tuple[Candidate, Candidate], clock: SkippingTime
) -> None:
    api.cut_off.add("a")
    for number in range(17):
        assert api.lease is not None
        api.lease["metadata"]["labels"] = {"changed": str(number)}
        api.change_lease()
        clock.pass_s(1)
    assert two[1].leads


@pytest.mark.parametrize("latency_s", [0.5, 4.5])
def test_a_leader_leads_for_ten_seconds_from_when_it_asked(
    api: ScriptedApi, first: Candidate, clock: SkippingTime, latency_s: float
) -> None:
    api.latency_s = latency_s
    asks: list[float] = []

    def asked(_: Request) -> bool:
        asks.append(clock.now_s - latency_s)
        return False

    api.fail("lease", asked)
    clock.until(lambda: first.left_s > 10 - latency_s - 1e-6 and asks)
    api.cut_off.add("a")
    clock.pass_s(asks[0] + 9.9 - clock.now_s)
    assert first.leads
    clock.pass_s(0.2)
    assert not first.leads


def test_a_lapse_while_a_renewal_is_slow_is_told(
    api: ScriptedApi, first: Candidate, clock: SkippingTime
) -> None:
    # Three renewals are lost after five seconds each: the Lease lapses while one is under way.
    api.fail("lease", *[Held()] * 3)
    clock.pass_s(30)
    assert first.leads
    assert first.told == [True, False, True]


def test_a_lease_that_is_given_back_is_taken_soon(
    api: ScriptedApi, two: tuple[Candidate, Candidate], joins: Join, clock: SkippingTime
) -> None:
    first, second = two
    first.stop()
    assert not first.leads
    assert (spec_of(api)["holderIdentity"], spec_of(api)["leaseDurationSeconds"]) == ("", 1)
    clock.pass_s(2)
    assert second.leads
    assert (spec_of(api)["holderIdentity"], spec_of(api)["leaseTransitions"]) == ("b", 1)
    second.stop()
    # Nor does a replica wait that never saw the Lease held.
    third = joins("c")
    clock.settle()
    assert third.leads


def test_who_does_not_lead_gives_nothing_back_and_a_failure_to_give_back_is_logged(
    api: ScriptedApi, two: tuple[Candidate, Candidate], caplog: pytest.LogCaptureFixture
) -> None:
    first, second = two
    second.stop()
    assert spec_of(api)["holderIdentity"] == "a"
    api.cut_off.add("a")
    first.stop()
    assert not first.leads
    assert "the lease kubextend-system/kubextend could not be given back" in caplog.text


def test_a_renewal_whose_answer_is_lost_counts_once_the_lease_is_read(
    api: ScriptedApi, two: tuple[Candidate, Candidate], clock: SkippingTime
) -> None:
    def lost(request: Request) -> bool:
        return request.client == "a" and lost_answer_of_lease(request)

    api.fail("lease", *[lost] * 2)
    assert {*watched(clock, 20, *two)} == {"a"}
    assert spec_of(api)["leaseTransitions"] == 0
    assert two[0].told == [True]


def end_by_hand(api: ScriptedApi, how: str) -> None:
    """Delete or empty the Lease, as a person may do with kubectl."""
    if how == "deleted":
        api.lease = None
    elif how == "emptied":
        api.change_lease(holderIdentity="")
    elif how == "with its times alone":
        api.change_lease(holderIdentity=None, leaseDurationSeconds=None)
    else:
        api.change_lease(**dict.fromkeys(spec_of(api)))


WAYS = ("deleted", "emptied", "with its times alone", "without a spec")


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("after_s", [0, 3])
def test_a_lease_that_is_ended_by_hand_makes_no_second_leader(
    api: ScriptedApi, two: tuple[Candidate, Candidate], clock: SkippingTime, how: str, after_s: int
) -> None:
    """The leader goes on until it looks at the Lease, or can no longer renew it."""
    clock.pass_s(61)
    api.cut_off.add("a")
    clock.pass_s(after_s)
    end_by_hand(api, how)
    assert ONE_AFTER_THE_OTHER.fullmatch(watched(clock, 20, *two))


@pytest.mark.parametrize("how", WAYS[1:])
def test_a_lease_that_is_empty_at_the_first_look_makes_no_second_leader(
    api: ScriptedApi, first: Candidate, joins: Join, clock: SkippingTime, how: str
) -> None:
    api.cut_off.add("a")
    end_by_hand(api, how)
    assert ONE_AFTER_THE_OTHER.fullmatch(watched(clock, 20, first, joins("b")))


@pytest.mark.parametrize("how", ["deleted", "with its times alone", "without a spec"])
def test_the_leader_keeps_a_lease_that_is_ended_by_hand(
    api: ScriptedApi, two: tuple[Candidate, Candidate], clock: SkippingTime, how: str
) -> None:
    clock.pass_s(61)
    end_by_hand(api, how)
    assert {*watched(clock, 30, *two)} == {"a"}
    assert spec_of(api)["holderIdentity"] == "a"


def test_a_lease_that_another_has_taken_ends_the_lead_at_the_next_renewal(
    api: ScriptedApi, first: Candidate, clock: SkippingTime
) -> None:
    api.change_lease(holderIdentity="b")
    clock.pass_s(2)
    assert not first.leads
    assert first.told == [True, False]
    # The other never renews it.
    clock.pass_s(20)
    assert first.leads


def test_of_two_replicas_that_reach_for_the_lease_at_once_one_gets_it(
    api: ScriptedApi, joins: Join, clock: SkippingTime
) -> None:
    """Both have read the same Lease before either writes it."""
    held = Held()
    api.fail("lease", lambda _: False, held, lambda _: False, held)
    replicas = [joins("a"), joins("b")]
    clock.settle()
    held.go_on.set()
    assert len({*watched(clock, 30, *replicas)} - {"-"}) == 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_never_two_replicas_lead_whatever_becomes_of_the_api_and_the_lease(
    api: ScriptedApi, joins: Join, clock: SkippingTime, seed: int
) -> None:
    dice = random.Random(seed)
    replicas = [joins(name) for name in "abc"]

    def end_a_lease(way: str) -> None:
        if api.lease:
            end_by_hand(api, way)

    happenings: list[Callable[[], object]] = [
        lambda: api.cut_off.add(dice.choice("abc")),
        api.cut_off.clear,
        api.cut_off.clear,
        lambda: setattr(api, "latency_s", dice.choice([0.0, 0.0, 0.3, 2.0])),
        lambda: end_a_lease(dice.choice([*WAYS[:2], WAYS[3]])),
        lambda: api.fail("lease", lost_answer_of_lease),
        lambda: api.fail("lease", refusing(500, "InternalError")),
    ]
    for _ in range(40):
        dice.choice(happenings)()
        watched(clock, dice.choice([1, 3, 9, 20]), *replicas)
    api.cut_off.clear()
    api.latency_s = 0
    leader = watched(clock, 40, *replicas)[-1]
    assert leader in "abc"
    # Whoever led until now, another one does once this one cannot.
    api.cut_off.add(leader)
    assert watched(clock, 40, *replicas)[-1] in {*"abc"} - {leader}
