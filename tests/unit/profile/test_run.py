"""One verb call that is given up: what its thread may still do when it comes back."""

from kubextend.profile.breaker import Admission, Breakers
from kubextend.profile.run_in_progress import Run


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
