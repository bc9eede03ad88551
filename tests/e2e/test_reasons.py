"""What a plugin says of a pod may vary; how often kube-scheduler asks must not.

The pods wait side by side: nothing else may happen in the cluster meanwhile, because every change
of a node or of a bound pod makes kube-scheduler ask again.
"""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from .controlplane import ControlPlane
from .kubeapi import NodePool
from .slow_door import SlowDoor
from .stack import PLUGIN_FOLDER, Mode, Stack, profile
from .workbench import until
from .workload import Workload

OPEN_LABEL = "e2e.kubextend.dev/open"
WEATHER_LABEL = "e2e.kubextend.dev/weather"
QUIET_S = 40.0
# So long before the end of the quiet time does the pod come whose reason then changes.
SHORTLY_S = 5.0
SHOWS_WITHIN_S = 60.0
BOUND_WITHIN_S = 1.0
GIVEN_UP_AFTER_S = 5.0
LAG_S = 0.5
PLUGINS = ("Counting", "Proportions", "Weather")


@dataclass
class Pending:
    """A pod that a plugin keeps pending, and what became of it."""

    stack: Stack
    workload: Workload
    pool: NodePool
    name: str
    calls: int = 0
    bound_after_s: float = 0.0

    @classmethod
    def behind(cls, plane: ControlPlane, stack: Stack, pool: NodePool) -> "Pending":
        workload = Workload(plane.api, stack.name, stack.scheduler_name, pool)
        (name,) = workload.create("patient", 1)
        return cls(stack, workload, pool, name)

    def open_a_node(self) -> None:
        """Let the plugin pass one node, and take the time until the pod is there."""
        start = time.monotonic()
        self.pool.label_only(OPEN_LABEL, "yes", self.pool.names[1])
        with contextlib.suppress(TimeoutError):
            self.workload.until_placed([self.name], GIVEN_UP_AFTER_S)
        self.bound_after_s = time.monotonic() - start


@dataclass
class Outcome:
    asked_about: dict[str, Pending]
    changed: Pending
    before: str
    after: str
    shown_after_s: float


def stack_of(plane: ControlPlane, plugin: str, api_url: str | None = None) -> Stack:
    name = f"reasons-{plugin.lower()}"
    return Stack(
        plane,
        name,
        Mode(names=True),
        profile=profile(name, plugin),
        out_of_tree=[f"reasons:{plugin}"],
        python_path=[PLUGIN_FOLDER],
        api_url=api_url,
    )


@pytest.fixture(scope="module")
def stacks(control_plane: ControlPlane) -> Iterator[dict[str, Stack]]:
    port = control_plane.bench.free_port()
    with SlowDoor(port, control_plane.port, lag_s=LAG_S, unasked_only=True) as door:
        running = {
            "Counting": stack_of(control_plane, "Counting"),
            "Proportions": stack_of(control_plane, "Proportions", door.url),
            "Weather": stack_of(control_plane, "Weather"),
        }
        yield running
        for stack in running.values():
            stack.close()


@pytest.fixture(scope="module")
def outcome(control_plane: ControlPlane, stacks: dict[str, Stack]) -> Iterator[Outcome]:
    pools = {
        plugin: NodePool(control_plane.api, f"reasons-{plugin.lower()}", 5) for plugin in PLUGINS
    }
    sunny = pools["Weather"]
    control_plane.api.label_nodes(sunny.names, {WEATHER_LABEL: "sunshine"})
    # The labels are older than what the quiet time begins with, behind the slow door, too.
    time.sleep(2 * LAG_S)
    asked_about = {
        plugin: Pending.behind(control_plane, stacks[plugin], pools[plugin])
        for plugin in ("Counting", "Proportions")
    }
    time.sleep(QUIET_S - SHORTLY_S)
    changed = Pending.behind(control_plane, stacks["Weather"], sunny)
    time.sleep(SHORTLY_S)
    for pending in asked_about.values():
        pending.calls = pending.stack.calls("filter")
    before = changed.workload.until_pending(changed.name)
    for pending in asked_about.values():
        pending.open_a_node()
    rain = time.monotonic()
    control_plane.api.label_nodes(sunny.names, {WEATHER_LABEL: "rain"})
    with contextlib.suppress(TimeoutError):
        until(
            lambda: "5 node has rain" in changed.workload.why_pending(changed.name),
            "the rain shows",
            SHOWS_WITHIN_S,
            every_s=0.2,
        )
    after = changed.workload.why_pending(changed.name)
    shown_after_s = time.monotonic() - rain
    changed.open_a_node()
    yield Outcome(asked_about, changed, before, after, shown_after_s)
    for pending in (*asked_about.values(), changed):
        pending.workload.close()
        pending.pool.delete()


@pytest.mark.parametrize("plugin", ["Counting", "Proportions"])
def test_a_pod_is_asked_about_3_times_in_40_s_at_most_though_its_reasons_vary(
    outcome: Outcome, plugin: str
) -> None:
    assert 1 <= outcome.asked_about[plugin].calls <= 3


def test_a_pod_whose_reasons_vary_is_bound_within_a_second_once_a_node_is_labelled(
    outcome: Outcome,
) -> None:
    assert outcome.asked_about["Counting"].bound_after_s <= BOUND_WITHIN_S


def test_it_is_bound_within_a_second_also_while_the_watch_is_half_a_second_late(
    outcome: Outcome,
) -> None:
    late = outcome.asked_about["Proportions"]
    assert LAG_S <= late.bound_after_s <= BOUND_WITHIN_S


def test_a_real_change_of_the_reason_shows_within_a_minute(outcome: Outcome) -> None:
    assert "5 node has sunshine" in outcome.before
    assert "5 node has rain" in outcome.after
    assert outcome.shown_after_s <= SHOWS_WITHIN_S
    assert outcome.changed.bound_after_s <= BOUND_WITHIN_S
