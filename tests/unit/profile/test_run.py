"""One verb call that is given up: what its thread may still do when it comes back."""

import pytest

from kubextend.profile.breaker import Admission, Breakers
from kubextend.profile.plugin_calls import AbandonedError, Run


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def abandoned(breakers: Breakers) -> Run:
    """A run that is given up while it calls plugin P."""
    run = Run(breakers)
    run.begin_call("P", "Filter")
    run.abandon()
    return run


def test_what_a_plugin_raises_after_its_call_was_given_up_is_no_new_failure() -> None:
    breakers = Breakers(Clock())
    for number, late in enumerate([abandoned(breakers) for _ in range(5)]):
        late.failed("P", "Filter", f"namespace-{number}")
    assert breakers.admit("P") is Admission.CALL


def test_what_a_plugin_raises_after_its_call_was_given_up_does_not_end_a_probe() -> None:
    clock = Clock()
    breakers = Breakers(clock)
    late = abandoned(breakers)
    breakers.hung("P")
    clock.now_s += 31
    probe = Run(breakers)
    probe.begin_call("P", "Filter")
    late.failed("P", "Filter", "ml")
    late.met_truncated_pod("P", "Filter")
    with probe:
        probe.end_call()
    assert breakers.admit("P") is Admission.CALL


def test_a_call_that_can_be_ended_does_not_begin_once_its_run_is_given_up() -> None:
    ended: list[str] = []
    late = abandoned(Breakers(Clock()))
    with pytest.raises(AbandonedError), late.ended_by(lambda: ended.append("ended")):
        pytest.fail("it has begun")
    assert ended == []


def test_a_call_that_can_be_ended_is_when_its_run_is_given_up() -> None:
    ended: list[str] = []
    run = Run(Breakers(Clock()))
    run.begin_call("P", "Filter")
    with run.ended_by(lambda: ended.append("ended")):
        # Its thread comes back by itself soon.
        assert run.abandon() is None
    assert ended == ["ended"]
