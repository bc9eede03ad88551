"""Pods that are kept without some of their parts are named in the log, and not again and again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from kubextend import core
from kubextend.cluster.pending_pod_reflector import _Told
from kubextend.cluster.pod_reflector import _Fates
from kubextend.framework.handle import MAX_POD_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubextend.cluster.reflector import Listener


def ignored(_told: object) -> None:
    """Nobody listens."""


LISTENERS: list[Callable[[core.PodStore], Listener]] = [
    lambda store: _Fates(store, tuple, ignored, ignored),
    lambda store: _Told(store, ignored, ignored, ignored),
]


def event(kind: str, name: str, labels: int) -> bytes:
    metadata = {
        "name": name,
        "namespace": "ns",
        "uid": name,
        "labels": {f"k{number}": "v" for number in range(labels)},
    }
    return json.dumps({"type": kind, "object": {"metadata": metadata}}).encode()


@pytest.mark.parametrize("listener_of", LISTENERS)
def test_a_pod_is_named_once_however_it_became_too_large_and_again_after_its_deletion(
    listener_of: Callable[[core.PodStore], Listener], caplog: pytest.LogCaptureFixture
) -> None:
    store = core.PodStore(max_pod_bytes=MAX_POD_BYTES)
    listener = listener_of(store)

    def named(kind: str, name: str, labels: int) -> list[str]:
        caplog.clear()
        listener.applied(store.apply(event(kind, name, labels)))
        return [record.getMessage().rpartition(": ")[2] for record in caplog.records]

    assert named("ADDED", "grows", 1) == []
    assert named("MODIFIED", "grows", 2000) == ["ns/grows"]
    assert named("MODIFIED", "grows", 2001) == []
    assert named("MODIFIED", "grows", 1) == []
    assert named("MODIFIED", "grows", 2000) == []
    assert named("ADDED", "large", 2000) == ["ns/large"]
    assert named("DELETED", "grows", 2000) == []
    assert named("ADDED", "grows", 2000) == ["ns/grows"]
    caplog.clear()
    listener.swap(lambda: None)
    (record,) = caplog.records
    assert sorted(record.getMessage().rpartition(": ")[2].split(", ")) == ["ns/grows", "ns/large"]
    assert named("MODIFIED", "large", 2001) == []
