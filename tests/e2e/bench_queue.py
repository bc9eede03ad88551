"""How fast gated pods are bound, beside the same pods without gates: ``make bench-queue``.

Every run has all its pods created before the first can be bound, and is timed from the first
binding to the last by kube-scheduler's own counter. kube-scheduler's limit of calls a second is
lifted for all runs alike.
"""

import argparse
import itertools
import re
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .controlplane import ControlPlane, build_binaries
from .kubeapi import NodePool, Object
from .manifests import grant_kubextend
from .queue_policies import install_queue
from .queue_stack import QueueStack, queue_scheduler, sorted_by
from .queued_pods import QueuedPods, by_qos, in_order
from .stack import Scheduler
from .workbench import Workbench, until
from .workload import create_priority_classes

NODES = 10
UNLIMITED = {"qps": 5000, "burst": 10000}
# Of the rate without gates, by window.
AIMS = {20: 0.8, 1: 0.4}
BOUND = re.compile(
    r'^scheduler_schedule_attempts_total\{.*result="scheduled".*\} (\S+)$', re.MULTILINE
)
_numbers = itertools.count()


@dataclass(frozen=True)
class Run:
    """One run's result.

    Attributes:
        rate: pods bound a second.
        exact: whether they came in the order of the plugin.
    """

    rate: float
    exact: bool


class Bench:
    """Runs on one control plane.

    Args:
        plane: has the policies.
        count: pods of each run.
    """

    def __init__(self, plane: ControlPlane, count: int) -> None:
        self._plane = plane
        self._count = count
        self._pool = NodePool(plane.api, "bench", NODES, cpu="64")

    def without_gates(self) -> Run:
        """kube-scheduler is started when all pods are there."""
        pods = self._pods(queued=False)
        started: list[Scheduler] = []
        return self._timed(pods, lambda: started.append(self._scheduler()), started)

    def with_window(self, window: int) -> Run:
        """kubextend is started when all pods are there and gated."""
        scheduler = self._scheduler()
        pods = self._pods(queued=True)
        profile = sorted_by("QOSSort")
        stacks: list[QueueStack] = []

        def start() -> None:
            name = f"bench-{next(_numbers)}"
            stacks.append(QueueStack(self._plane, name, profile, window=window))

        run = self._timed(pods, start, [scheduler])
        for stack in stacks:
            stack.__exit__(None, None, None)
        return run

    def _pods(self, *, queued: bool) -> tuple[QueuedPods, dict[str, Object]]:
        pods = QueuedPods(self._plane.api, f"bench-{next(_numbers)}", self._pool, queued=queued)
        return pods, pods.create_mixed(self._count, seed=20)

    def _scheduler(self) -> Scheduler:
        name = f"bench-{next(_numbers)}"
        return queue_scheduler(self._plane, name, clientConnection=UNLIMITED)

    def _timed(
        self,
        pods: tuple[QueuedPods, dict[str, Object]],
        start: Callable[[], None],
        schedulers: list[Scheduler],
    ) -> Run:
        queued, made = pods
        start()
        (scheduler,) = schedulers
        first = until(lambda: _bound(scheduler), "the first is bound", every_s=0.02)
        began = time.monotonic()
        until(lambda: _bound(scheduler) >= len(made), "all are bound", 300.0, every_s=0.1)
        rate = (len(made) - first) / (time.monotonic() - began)
        exact = in_order(queued.bound_order(), made, by_qos)
        scheduler.close()
        queued.close()
        return Run(rate, exact)


def _bound(scheduler: Scheduler) -> int:
    found = BOUND.search(scheduler.get("/metrics").text)
    return int(float(found[1])) if found else 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=2000)
    parser.add_argument("--windows", type=int, nargs="*", default=list(AIMS))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Workbench(Path(folder)) as programs:
        plane = ControlPlane(programs, build_binaries())
        create_priority_classes(plane.api)
        grant_kubextend(plane.api, "kubextend")
        install_queue(plane)
        bench = Bench(plane, options.pods)
        before = bench.without_gates()
        runs = {window: bench.with_window(window) for window in options.windows}
        after = bench.without_gates()
        plane.close()
    floor = (before.rate + after.rate) / 2
    _say(f"{options.pods} pods without gates: {before.rate:.1f}/s, at the end {after.rate:.1f}/s")
    for window, run in runs.items():
        order = "exact order" if run.exact else "order not exact"
        aim = f" (aim {AIMS[window]})" if window in AIMS else ""
        _say(f"window {window}: {run.rate:.1f}/s = {run.rate / floor:.2f}{aim}, {order}")


if __name__ == "__main__":
    main()
