"""A request that failed leaves nothing behind that only the garbage collector would find."""

import gc
import json
import logging
import threading
from collections.abc import Iterator

import pytest
from live_server import PATIENT_S, Connection, eventually, fail_on_demand, serving

from kubextend import core
from kubextend.metrics import Metrics
from kubextend.profile import Profile, Profiles
from make_verbs import make_verbs

_SIZE = 5_000_000


class Fails:
    """A filter that raises, dies or waits, as the pod says."""

    name = "Fails"

    def __init__(self) -> None:
        self.called = threading.Event()
        self.go_on = threading.Event()

    def filter_nodes(self, _state: object, pod: core.Pod, _nodes: core.Nodes) -> list[object]:
        fail_on_demand(pod)
        self.called.set()
        assert self.go_on.wait(PATIENT_S)
        return []


@pytest.fixture
def _nothing_is_collected() -> Iterator[None]:
    gc.collect()
    gc.disable()
    # pytest keeps log records, and with them errors and their frames.
    logging.disable()
    yield
    logging.disable(logging.NOTSET)
    gc.enable()


def large_body(then: str) -> bytes:
    pod = {"metadata": {"name": "p", "labels": {"then": then}}}
    body = {"Pod": pod, "Nodes": {"items": [{"metadata": {"name": "n"}}]}, "Ignored": "x" * _SIZE}
    return json.dumps(body).encode()


@pytest.mark.usefixtures("_nothing_is_collected")
@pytest.mark.parametrize(
    ("body", "status", "timeout_s"),
    [
        pytest.param(large_body("raise"), 200, PATIENT_S, id="its plugin raises"),
        pytest.param(large_body("die"), 200, PATIENT_S, id="its plugin dies"),
        pytest.param(large_body("") + b"x", 400, PATIENT_S, id="it cannot be read"),
        pytest.param(large_body("wait"), 200, 1.0, id="its plugin hangs"),
    ],
)
def test_the_body_of_a_request_that_failed_is_let_go_of_at_once(
    body: bytes, status: int, timeout_s: float
) -> None:
    pool, fails = core.BodyPool(), Fails()
    verbs = make_verbs(
        Profiles.of([Profile("default-scheduler", filter=[fails])]),
        metrics=Metrics(),
        http_timeout_s=timeout_s,
        pool=pool,
    )
    with serving(verbs) as url, Connection(url) as client:
        assert client.post("/filter", body).status == status
        fails.go_on.set()
        eventually(lambda: pool.idle_bytes >= len(body))
