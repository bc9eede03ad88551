"""Leases and clocks that do what a test says, for the tests of who leads."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from kubextend.cluster import Election, LeaseName
from kubextend.cluster.api_call import RefusedError, UnreachableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubextend.cluster.api_call import Call
    from kubextend.cluster.client import Cluster

LEASE = LeaseName("kubextend-system", "kubextend-queue")
COLLECTION = "/apis/coordination.k8s.io/v1/namespaces/kubextend-system/leases"


@dataclass
class Clock:
    now_s: float = 0.0

    def __call__(self) -> float:
        return self.now_s

    def pass_s(self, seconds: float) -> None:
        self.now_s += seconds


@dataclass
class Leases:
    """The leases of an API: one writer at a time, by resourceVersion.

    Attributes:
        errors: raised by the next calls instead of an answer.
        lost: the next write takes effect, and its answer never arrives.
        takes: called while an answer is on its way.
    """

    lease: dict[str, Any] | None = None
    version: int = 0
    errors: list[Exception] = field(default_factory=list)
    lost: bool = False
    calls: list[str] = field(default_factory=list)
    takes: Callable[[], object] = lambda: None

    def request(self, call: Call) -> bytes:
        self.calls.append(call.method)
        try:
            return self._answer(call)
        finally:
            self.takes()

    def _answer(self, call: Call) -> bytes:
        if self.errors:
            raise self.errors.pop(0)
        if call.method == "POST":
            assert call.path == COLLECTION
            if self.lease is not None:
                raise RefusedError(call, 409, "already exists")
            return self._written(call)
        assert call.path == f"{COLLECTION}/kubextend-queue"
        if self.lease is None:
            raise RefusedError(call, 404, "not found")
        if call.method == "PUT":
            given = orjson.loads(orjson.dumps(call.body))
            if given["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
                raise RefusedError(call, 409, "the object has been modified")
            return self._written(call)
        return json.dumps(self.lease).encode()

    def _written(self, call: Call) -> bytes:
        self.version += 1
        self.lease = orjson.loads(orjson.dumps(call.body))
        self.lease["metadata"]["resourceVersion"] = str(self.version)
        if self.lost:
            self.lost = False
            raise UnreachableError(call, "connection reset")
        return json.dumps(self.lease).encode()

    @property
    def spec(self) -> dict[str, Any]:
        assert self.lease is not None
        spec: dict[str, Any] = self.lease["spec"]
        return spec


@dataclass
class World:
    leases: Leases = field(default_factory=Leases)
    clock: Clock = field(default_factory=Clock)

    def candidate(self, identity: str, on_change: Callable[[], object] = lambda: None) -> Election:
        api: Cluster = self.leases  # type: ignore[assignment]
        return Election(api, LEASE, on_change, identity=identity, clock=self.clock)

    def answer_after(self, seconds: float) -> None:
        """Every answer of the API takes so long from now on."""
        self.leases.takes = lambda: self.clock.pass_s(seconds)


def unreachable() -> UnreachableError:
    return UnreachableError("the call", "no route")  # type: ignore[arg-type]
