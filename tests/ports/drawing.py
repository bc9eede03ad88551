"""Draws what a generated case has, the same in every run, and writes the objects of a cluster."""

import random
from collections.abc import Sequence
from typing import Any, TypeAlias, TypeVar

Json: TypeAlias = dict[str, Any]
_T = TypeVar("_T")


class Draw(random.Random):
    """Draws values; the attribute ``cluster`` is the number of the cluster that is asked about."""

    cluster = 0

    def one(self, of: Sequence[_T]) -> _T:
        """Return one of the values."""
        return of[int(self.random() * len(of))]

    def whole(self, lowest: int, highest: int) -> int:
        """Return a number from the lowest to the highest."""
        return lowest + int(self.random() * (highest - lowest + 1))

    def happens(self, share: float) -> bool:
        """Return whether an event happens that happens in this share of the cases."""
        return self.random() < share


def pod_of(name: str, spec: Json) -> Json:
    metadata = {"name": name, "namespace": "ns", "uid": f"uid-of-{name}"}
    return {"metadata": metadata, "spec": spec, "status": {}}


def object_of(version: str, kind: str, namespace: str, name: str, spec: Json) -> Json:
    metadata = {"name": name, "namespace": namespace, "uid": f"{namespace}-{name}"}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}
