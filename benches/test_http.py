"""Measures filter over HTTP with a Go client like kube-scheduler's, beside a no-op and Go servers.

Requests are equal byte for byte, and answers in length.
"""

import statistics
from collections.abc import Callable
from pathlib import Path

import pytest

from asked import Asked
from figures import AS_LONG, FASTER, Figure
from nodes import Cluster
from remote import RemoteWork, Stopwatch
from servers import Servers
from test_core import full_warm, names
from works import FULL, NAMES, Case, Mode

_SIZES = (500, 5_000)
_CORE = {FULL.name: Case(FULL, full_warm), NAMES.name: Case(NAMES, names)}
_CORE_CALLS = 200


@pytest.fixture(params=[FULL, NAMES], ids=lambda mode: mode.name)
def mode(request: pytest.FixtureRequest) -> Mode:
    mode: Mode = request.param
    return mode


@pytest.fixture(params=_SIZES)
def asked(
    request: pytest.FixtureRequest, mode: Mode, clusters: Callable[[int], Cluster], tmp_path: Path
) -> Asked:
    return Asked(clusters(request.param), mode, tmp_path)


@pytest.fixture
def ours(asked: Asked, client: Stopwatch, servers: Servers) -> RemoteWork:
    watched = asked.mode is NAMES
    url, _ = servers.kubextend(
        servers.kubeconfig(servers.api(asked.node_list)) if watched else None
    )
    return asked.server_work(asked.mode.name, client, url)


def test_kubextend_beside_a_no_op(
    asked: Asked,
    client: Stopwatch,
    servers: Servers,
    ours: RemoteWork,
    compare: Callable[..., None],
) -> None:
    url = servers.noop(Path(ours.order["expected"]).stat().st_size)
    noop = asked.server_work("stock no-op", client, url, right=False)
    figure, aim = (AS_LONG, 0.5) if asked.mode is FULL else (_beside_core_too(asked), 1.0)
    compare(ours, noop, *asked.size, aim, figure)


def test_kubextend_beside_a_go_extender(
    asked: Asked,
    client: Stopwatch,
    servers: Servers,
    ours: RemoteWork,
    compare: Callable[..., None],
) -> None:
    url = servers.go_extender(asked.node_list if asked.mode is NAMES else None)
    go = asked.server_work("Go extender", client, url)
    assert _answer_bytes(go) == _answer_bytes(ours)
    compare(ours, go, *asked.size, None, FASTER)


def test_kubextend_beside_a_go_server_that_answers_from_bytes(
    asked: Asked,
    client: Stopwatch,
    servers: Servers,
    ours: RemoteWork,
    compare: Callable[..., None],
) -> None:
    go = asked.server_work("Go from bytes", client, servers.go_bytes("-good", asked.good_names))
    assert _answer_bytes(go) == _answer_bytes(ours)
    compare(ours, go, *asked.size, None, FASTER)


def _answer_bytes(work: RemoteWork) -> int:
    return Path(work.order["expected"]).stat().st_size


def _beside_core_too(asked: Asked) -> Figure:
    """Return the figure of a time relative to the floor's time and the core's time together."""
    core = _CORE[asked.mode.name].work(asked.cluster, asked.body.read_bytes())
    core_s = statistics.median(core.turn(_CORE_CALLS))

    def of(ours_s: float, floor_s: float) -> float:
        return ours_s / (floor_s + core_s)

    return Figure(f"x no-op + core's {core_s * 1e6:.0f} us", of, at_least=False)
