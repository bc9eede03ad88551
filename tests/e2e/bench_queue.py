"""Measures how fast gated pods are bound, compared with pods without gates: ``make bench-queue``.

Each run is timed from the first binding to the last, by kube-scheduler's own counter. In all runs
kube-scheduler's limit of API calls a second is lifted. Runs by name:

- ``created``: without gates, bound while they are created.
- ``backlog``: without gates, all created before kube-scheduler is started.
- a number: all gated before kubextend is started with this window.
- ``bare``: all gated; a loop without any queue removes the gate of one pod, waits until a watch
  shows the pod bound, and goes on with the next pod. The reference for a window of 1.
- ``hasty``: as ``bare``, but the loop does not wait. The reference for larger windows.
"""

import argparse
import itertools
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import httpx

from .controlplane import USERS, ControlPlane
from .kubeapi import Api, NodePool, Object, trusting
from .program_plane import program_plane
from .queue_policies import GATE, install_queue
from .queue_stack import QueueStack, queue_scheduler, sorted_by
from .queued_pods import QueuedPods, by_qos, in_order, remove_gate
from .stack import Scheduler
from .workbench import say, until

RUNS = ("backlog", "20", "hasty", "backlog", "1", "bare", "backlog", "created")
UNLIMITED = {"qps": 5000, "burst": 10000}
BOUND = re.compile(
    r'^scheduler_schedule_attempts_total\{.*result="scheduled".*\} (\S+)$', re.MULTILINE
)
_numbers = itertools.count()


class Bench:
    """Makes the runs of the benchmark on one control plane.

    Args:
        plane: the control plane, with the policies of deploy/queue.
        count: how many pods each run binds.
        nodes: how many nodes there are, each of which fits each pod.
    """

    def __init__(self, plane: ControlPlane, count: int, nodes: int) -> None:
        self._plane = plane
        self._count = count
        self._pool = NodePool(plane.api, "bench", nodes, cpu="64")

    def run(self, name: str) -> str:
        """Make the run of this name, and return its result as text."""
        runs: dict[str, Callable[[], str]] = {
            "created": self._created,
            "backlog": self._backlog,
            "bare": self._bare,
            "hasty": self._hasty,
        }
        return runs[name]() if name in runs else self._window(int(name))

    def _created(self) -> str:
        with self._scheduler() as scheduler, self._pods(queued=False) as pods:
            creating = threading.Thread(target=self._create, args=(pods,))
            creating.start()
            rate = self._rate(scheduler)
            creating.join()
        return f"{rate:.1f}/s"

    def _backlog(self) -> str:
        with self._pods(queued=False) as pods:
            self._create(pods)
            with self._scheduler() as scheduler:
                return f"{self._rate(scheduler):.1f}/s"

    def _window(self, window: int) -> str:
        name = f"bench-{next(_numbers)}"
        with self._scheduler() as scheduler, self._pods(queued=True) as pods:
            made = self._create(pods)
            with QueueStack(self._plane, name, sorted_by("QOSSort"), window=window):
                rate = self._rate(scheduler)
            return f"{rate:.1f}/s, {_exactness(pods, made)}"

    def _bare(self) -> str:
        with self._scheduler() as scheduler, self._pods(queued=True) as pods:
            made = self._create(pods)
            with self._bindings(pods.namespace) as bound:
                return self._looped(scheduler, pods, made, partial(_seen, bound))

    def _hasty(self) -> str:
        with self._scheduler() as scheduler, self._pods(queued=True) as pods:
            made = self._create(pods)
            return self._looped(scheduler, pods, made, lambda _name: None)

    def _looped(
        self,
        scheduler: Scheduler,
        pods: QueuedPods,
        made: dict[str, Object],
        wait_for: Callable[[str], object],
    ) -> str:
        order = sorted(made, key=lambda name: by_qos(made[name]))
        with self._kubextend() as api:
            arguments = (api, pods.namespace, order, wait_for)
            loop = threading.Thread(target=_release, args=arguments)
            loop.start()
            rate = self._rate(scheduler)
            loop.join()
        return f"{rate:.1f}/s, {_exactness(pods, made)}"

    def _create(self, pods: QueuedPods) -> dict[str, Object]:
        return pods.create_mixed(self._count, seed=20)

    @contextmanager
    def _pods(self, *, queued: bool) -> Iterator[QueuedPods]:
        pods = QueuedPods(self._plane.api, f"bench-{next(_numbers)}", self._pool, queued=queued)
        yield pods
        pods.close()
        until(lambda: not pods.all(), "the pods are gone", every_s=0.5)

    @contextmanager
    def _scheduler(self) -> Iterator[Scheduler]:
        name = f"bench-{next(_numbers)}"
        scheduler = queue_scheduler(self._plane, name, clientConnection=UNLIMITED)
        yield scheduler
        scheduler.close()

    @contextmanager
    def _bindings(self, namespace: str) -> Iterator[Iterator[str]]:
        """Watch a namespace; yield an iterator over the names of pods as they are bound."""
        trust = trusting(self._plane.authority.cert)
        admin = {"Authorization": f"Bearer {USERS['admin'][0]}"}
        path = f"/api/v1/namespaces/{namespace}/pods"
        query = {"watch": "true", "fieldSelector": "spec.nodeName!=", "resourceVersion": "0"}
        with (
            httpx.Client(
                base_url=self._plane.url, verify=trust, headers=admin, timeout=None, trust_env=False
            ) as client,
            client.stream("GET", path, params=query) as answer,
        ):
            yield (json.loads(line)["object"]["metadata"]["name"] for line in answer.iter_lines())

    def _kubextend(self) -> Api:
        """Return a client with kubextend's account, whose requests the policies check."""
        return Api(self._plane.url, self._plane.authority.cert, USERS["kubextend"][0])

    def _rate(self, scheduler: Scheduler) -> float:
        """Wait until all pods are bound, and return how many were bound a second."""
        first = until(lambda: _bound(scheduler), "the first is bound", every_s=0.02)
        began = time.monotonic()
        until(lambda: _bound(scheduler) >= self._count, "all are bound", 300.0, every_s=0.1)
        return (self._count - first) / (time.monotonic() - began)


def _release(api: Api, namespace: str, order: list[str], wait_for: Callable[[str], object]) -> None:
    for name in order:
        remove_gate(api, namespace, name, GATE)
        wait_for(name)


def _seen(bound: Iterator[str], name: str) -> None:
    while next(bound) != name:
        continue


def _bound(scheduler: Scheduler) -> int:
    found = BOUND.search(scheduler.get("/metrics").text)
    return int(float(found[1])) if found else 0


def _exactness(pods: QueuedPods, made: dict[str, Object]) -> str:
    exact = in_order(pods.bound_order(), made, by_qos)
    return "exact order" if exact else "order not exact"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="*", default=RUNS)
    parser.add_argument("--pods", type=int, default=2000)
    parser.add_argument("--nodes", type=int, default=1000)
    options = parser.parse_args()
    say(f"{options.pods} pods, {options.nodes} nodes")
    with program_plane() as plane:
        install_queue(plane)
        bench = Bench(plane, options.pods, options.nodes)
        for name in options.runs:
            say(f"{name}: {bench.run(name)}")


if __name__ == "__main__":
    main()
