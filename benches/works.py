"""What all suites share: sizes, request modes, and the floors with which works are compared."""

import gc
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import orjson

from answers import Check, check_full_answer, check_names_answer
from kubextend import core
from kubextend.config import load
from kubextend.framework.handle import ClusterPorts, Handle
from kubextend.metrics import Metrics
from kubextend.plugins import IN_TREE
from kubextend.profile import PluginLimits, Profiles, WaitingPods
from kubextend.verbs import Verbs
from kubextend.verbs.context import Context, Memory
from nodes import Cluster
from pairing import Work, as_bytes

__all__ = [
    "FIRST_POD",
    "FULL",
    "NAMES",
    "SIZES",
    "SIZES_OF_GROWTH",
    "Case",
    "Mode",
    "Watched",
    "loads",
    "loads_without_gc",
    "memory",
    "verbs_over",
]

SIZES = (500, 1_000, 5_000)
SIZES_OF_GROWTH = (100, 300, 1_000, 3_000, 5_000, 10_000, 15_000)

# The pod of the request that brings in the nodes. The pod of the timed request has a longer name,
# so that the two bodies differ: to compare a buffer with itself takes half the memory traffic.
FIRST_POD = "worker-0"
_SECOND_POD = "another-worker-1"


@dataclass(frozen=True)
class Mode:
    """A mode of requests: full (whole nodes) or names.

    Attributes:
        name: the name of the mode in the report.
        request: makes the body of a request about a cluster, for a pod of this name.
        check: asserts that an answer is right.
        calls: returns how many calls pytest-benchmark times, by the number of nodes.
    """

    name: str
    request: Callable[[Cluster, str], bytes]
    check: Check
    calls: Callable[[int], int]

    def body(self, cluster: Cluster) -> bytes:
        """Return the body of the request that is timed."""
        return self.request(cluster, _SECOND_POD)


@dataclass(frozen=True)
class Case:
    """A layer of kubextend in one request mode, with nodes that it has seen before or not.

    Attributes:
        mode: full or names mode.
        work_of: makes the work of answering a request body about a cluster.
    """

    mode: Mode
    work_of: Callable[[Cluster, bytes], Work]

    def work(self, cluster: Cluster, body: bytes) -> Work:
        """Check one answer; return the work of answering, which expects the same answer."""
        work = self.work_of(cluster, body)
        answer = as_bytes(work.call(work.given()))
        self.mode.check(cluster, answer)
        return replace(work, expected=answer)


@dataclass(frozen=True)
class Watched:
    """A source of nodes for names mode, in place of a watch."""

    store: core.NodeStore
    synced: bool = True

    def age_s(self) -> float | None:
        return 0.0


FULL = Mode("full", Cluster.full_body, check_full_answer, lambda size: max(5, 10_000 // size))
NAMES = Mode("names", Cluster.names_body, check_names_answer, lambda _: 200)


def loads(body: bytes) -> Work:
    """Return the work of building the JSON document of a body with orjson, and nothing else."""
    return Work("orjson.loads", lambda: body, orjson.loads)


def loads_without_gc(body: bytes) -> Work:
    """Return the work of orjson.loads with the garbage collector off, which few programs do."""

    def call(body: bytes) -> Any:
        gc.disable()
        try:
            return orjson.loads(body)
        finally:
            gc.enable()

    return Work("orjson.loads, gc off", lambda: body, call)


def memory(body: bytes, answer: bytes) -> Work:
    """Return the work of comparing the body and copying the answer, the least for known nodes."""
    # A real copy: the interpreter may give bytes(body) the memory of the body.
    stored = bytes(bytearray(body))

    def call(stored: bytes) -> bytes:
        assert stored == body
        return bytes(memoryview(answer))

    return Work("compare body, copy answer", lambda: stored, call, expected=answer)


def verbs_over(profiles: Profiles, nodes: Watched) -> Verbs:
    """Make the verbs of some profiles, for requests with names of these nodes."""
    config, cluster, metrics = load(None, known=IN_TREE), ClusterPorts(nodes=nodes), Metrics()
    memory = Memory(config, cluster, metrics, PluginLimits(metrics=metrics), WaitingPods())
    handle = Handle(memory.waiting_pods, cluster)
    return Verbs(Context(config, profiles, memory, cluster, metrics), handle)
