"""What people met in plugins that fail: at the doors that a plugin author and an operator use."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kubextend import Status, testing

LOG = "; kubextend's log says how"


def plugin(name: str = "P", **members: Any) -> type:
    """Return a plugin class with these methods."""
    return type(name, (), {"name": name, **members})


def raises(*_: Any) -> Any:
    message = "bad"
    raise ValueError(message)


def exits(*_: Any) -> Any:
    raise SystemExit(1)


def says_error(*_: Any) -> Status:
    return Status.error("cannot say")


def says_what_it_may_not(*_: Any) -> object:
    return object()


FAILS = [raises, exits, says_error, says_what_it_may_not]


def for_bad_pods(fails: Callable[..., Any], well: Any = None) -> Callable[..., Any]:
    """Return a method that fails for pods with the label ``bad``, and for others says ``well``."""

    def method(_self: Any, _state: Any, pod: Any, *_: Any) -> Any:
        return fails() if pod.labels.get("bad") else well

    return method


def nothing(*_: Any) -> None: ...


# The methods of a plugin with one that fails, and what the answer to a bad pod says.
POINTS: dict[str, tuple[Callable[[Any], type], str]] = {
    "PreFilter": (lambda fails: plugin(pre_filter=fails), 'PreFilter plugin "P" failed'),
    "Filter": (lambda fails: plugin(filter=fails), 'Filter plugin "P" failed'),
    "Reserve": (
        lambda fails: plugin(reserve=fails, unreserve=nothing),
        'Reserve plugin "P" failed',
    ),
    "Permit": (lambda fails: plugin(permit=fails), 'Permit plugin "P" failed'),
    "PreBind": (lambda fails: plugin(pre_bind=fails), 'PreBind plugin "P" failed'),
    "Bind": (lambda fails: plugin(bind=fails), 'Bind plugin "P" failed'),
}


@pytest.mark.parametrize("fails", FAILS)
@pytest.mark.parametrize("point", POINTS)
def test_pods_for_which_a_plugin_raises_take_it_from_no_other_pod(
    point: str, fails: Callable[..., Any]
) -> None:
    made, why = POINTS[point]
    cluster = testing.Cluster(made(for_bad_pods(fails)))
    for number in range(6):
        bad = testing.make_pod("bad", namespace=f"tenant-{number}", labels={"bad": "yes"})
        assert why in cluster.schedule(bad).error
    assert cluster.schedule(testing.make_pod("good", namespace="another")).node == "node-0"
    assert {failure.extension_point for failure in cluster.failures} == {point}
    assert len(cluster.failures) == 6


def test_scores_that_fail_for_one_tenants_pods_count_for_all_others() -> None:
    scores = plugin(score=for_bad_pods(raises, 70))
    cluster = testing.Cluster(scores, nodes=["a", "b"], weights={"P": 10})
    for number in range(6):
        bad = testing.make_pod("bad", namespace=f"tenant-{number}", labels={"bad": "yes"})
        assert cluster.prioritize(bad) == {}
    assert cluster.prioritize(testing.make_pod("good")) == {"a": 70, "b": 70}


def test_a_plugin_that_hangs_is_not_called_for_thirty_seconds_and_then_is_again() -> None:
    calls: list[str] = []

    async def hangs(_self: Any, _state: Any, pod: Any, _node: str) -> None:
        calls.append(pod.name)
        if pod.name == "hangs":
            await asyncio.sleep(1e6)

    cluster = testing.Cluster(plugin(pre_bind=hangs))
    hanging = testing.make_pod("hangs")
    outcome = cluster.schedule(hanging)
    while not outcome.answered:
        cluster.advance(1)
        outcome = cluster.outcome(hanging)
    assert 'PreBind plugin "P" failed' in outcome.error
    assert 'PreBind plugin "P" failed' in cluster.schedule(testing.make_pod("soon")).error
    cluster.advance(30)
    assert cluster.schedule(testing.make_pod("later")).node == "node-0"
    assert calls == ["hangs", "later"]
