"""Large bodies are read a few at a time, so that the event loop does not wait for a processor."""

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kubextend import core
from kubextend.verbs import node_stores
from kubextend.verbs.node_stores import Stores

POD = {"metadata": {"name": "p", "uid": "u"}}


def _body(bytes_of_node: int) -> bytes:
    node = {"metadata": {"name": "n", "annotations": {"a": "x" * bytes_of_node}}}
    return json.dumps({"Pod": POD, "Nodes": {"items": [node]}, "NodeNames": None}).encode()


def _victims(bytes_of_pod: int) -> bytes:
    pod = POD | {"spec": {"schedulerName": "x" * bytes_of_pod}}
    return json.dumps({"Pod": pod, "NodeNameToMetaVictims": {"n": {"Pods": []}}}).encode()


SMALL, LARGE = 10, 1_000_000


@pytest.mark.parametrize(
    ("read", "body"), [(Stores.read_args, _body), (Stores.read_preemption_args, _victims)]
)
def test_a_large_body_waits_for_its_turn_and_a_small_one_does_not(
    monkeypatch: pytest.MonkeyPatch,
    read: Callable[[Stores, bytes], Any],
    body: Callable[[int], bytes],
) -> None:
    turn = threading.BoundedSemaphore(1)
    monkeypatch.setattr(node_stores, "_READING_LARGE_BODIES", turn)
    stores = Stores(core.RequestStore(), None)
    with ThreadPoolExecutor() as threads:
        with turn:
            large = threads.submit(read, stores, body(LARGE))
            small = threads.submit(read, stores, body(SMALL))
            assert small.result(timeout=10).pod.name == "p"
            with pytest.raises(TimeoutError):
                large.result(timeout=0.2)
        assert large.result(timeout=60).pod.name == "p"
    # A body that is refused gives its turn back.
    with pytest.raises(core.WireError):
        read(stores, body(LARGE)[:-1])
    assert turn.acquire(blocking=False)


@pytest.mark.parametrize(("processors", "at_once"), [(None, 1), (1, 1), (2, 1), (3, 2), (64, 63)])
def test_a_processor_is_left_to_the_event_loop(processors: int | None, at_once: int) -> None:
    assert node_stores._large_bodies_at_once(processors) == at_once
