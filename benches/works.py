"""What every suite measures at, and the floors that stand beside it."""

import gc
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import orjson

from answers import Check, check_full_answer, check_names_answer
from kubextend import core
from kubextend.framework.handle import ClusterPorts
from kubextend.metrics import Metrics
from kubextend.profile import Profiles
from kubextend.verbs import Context, Memory, Verbs
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

# The pod that brings the nodes in, before one with a longer name asks: two requests are never one
# buffer, and a node that is compared with itself costs half the memory traffic of a server's.
FIRST_POD = "worker-0"
_SECOND_POD = "another-worker-1"


@dataclass(frozen=True)
class Mode:
    """Full or names.

    Attributes:
        name: as the report calls it.
        request: the body that a pod of this name sends.
        check: that the answer is right.
        calls: how many calls pytest-benchmark times, for so many nodes.
    """

    name: str
    request: Callable[[Cluster, str], bytes]
    check: Check
    calls: Callable[[int], int]

    def body(self, cluster: Cluster) -> bytes:
        """The request that is timed."""
        return self.request(cluster, _SECOND_POD)


@dataclass(frozen=True)
class Case:
    """A layer of ours in one mode, with nodes known or not.

    Attributes:
        mode: full or names.
        work_of: the work on a request of the cluster.
    """

    mode: Mode
    work_of: Callable[[Cluster, bytes], Work]

    def work(self, cluster: Cluster, body: bytes) -> Work:
        """The work after it has answered right once; from now on it must answer the same."""
        work = self.work_of(cluster, body)
        answer = as_bytes(work.call(work.given()))
        self.mode.check(cluster, answer)
        return replace(work, expected=answer)


@dataclass(frozen=True)
class Watched:
    """Nodes that a watch would have brought."""

    store: core.NodeStore
    synced: bool = True

    def age_s(self) -> float | None:
        return 0.0


FULL = Mode("full", Cluster.full_body, check_full_answer, lambda size: max(5, 10_000 // size))
NAMES = Mode("names", Cluster.names_body, check_names_answer, lambda _: 200)


def loads(body: bytes) -> Work:
    """orjson builds the document, and no more."""
    return Work("orjson.loads", lambda: body, orjson.loads)


def loads_without_gc(body: bytes) -> Work:
    """The same while no garbage is collected, as hardly any program has it."""

    def call(body: bytes) -> Any:
        gc.disable()
        try:
            return orjson.loads(body)
        finally:
            gc.enable()

    return Work("orjson.loads, gc off", lambda: body, call)


def memory(body: bytes, answer: bytes) -> Work:
    """A compare of the whole body and a copy of the answer: no known node costs less."""
    # Not a copy that the interpreter could take for the same object.
    stored = bytes(bytearray(body))

    def call(stored: bytes) -> bytes:
        assert stored == body
        return bytes(memoryview(answer))

    return Work("compare body, copy answer", lambda: stored, call, expected=answer)


def verbs_over(profiles: Profiles, nodes: Watched) -> Verbs:
    """The verbs of some profiles, for requests that name these nodes."""
    metrics, cluster = Metrics(), ClusterPorts(nodes=nodes)
    memory = Memory.of(cluster, metrics, look_again_s=5.0)
    return Verbs(Context(profiles, memory, cluster, metrics=metrics))
