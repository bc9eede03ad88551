"""Measures the memory of a kubextend in full mode, while some nodes change with each request."""

import http.client
import random
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from figures import Figure
from nodes import Cluster
from report import Reading
from servers import Servers
from works import FIRST_POD, FULL

_NODES = 5_000
_REQUESTS = 1_000
_CHANGING = _NODES * 2 // 100
_WARM_UP = 10
_AIM_BODIES, _SLACK_BYTES, _AIM_GROWTH = 3.2, 150e6, 1.05
_CHANGES = b'"resourceVersion":"'
_DIGITS = 4


class Conversation:
    """Requests about one cluster over one connection, each with some nodes changed in place."""

    def __init__(self, cluster: Cluster, url: str) -> None:
        self._connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)
        self._body = bytearray(FULL.request(cluster, FIRST_POD))
        self._places = _places(self._body, cluster)
        answer = self._ask()
        FULL.check(cluster, answer)
        self._expected = bytearray(answer)
        self._kept_places = _places(self._expected, cluster)
        self._names = list(cluster.names)
        self._rng = random.Random(1)  # noqa: S311  data for a measurement

    @property
    def body_bytes(self) -> int:
        return len(self._body)

    def go_on(self) -> None:
        """Send one more request with changed nodes, and check its answer."""
        for name in self._rng.sample(self._names, _CHANGING):
            digits = b"%0*d" % (_DIGITS, self._rng.randrange(10**_DIGITS))
            _write(self._body, self._places[name], digits)
            if name in self._kept_places:
                _write(self._expected, self._kept_places[name], digits)
        assert self._ask() == self._expected

    def close(self) -> None:
        self._connection.close()

    def _ask(self) -> bytes:
        headers = {"Content-Type": "application/json"}
        self._connection.request("POST", "/filter", self._body, headers)
        response = self._connection.getresponse()
        answer = response.read()
        assert response.status == 200, answer[:200]
        return answer


def test_a_thousand_full_requests_with_changing_nodes(
    clusters: Callable[[int], Cluster], servers: Servers, add: Callable[..., None]
) -> None:
    url, program = servers.kubextend()
    resident: list[int] = []
    with closing(Conversation(clusters(_NODES), url)) as conversation:
        for _ in range(_REQUESTS):
            conversation.go_on()
            resident.append(_status(program.pid, "VmRSS"))
    first = max(resident[_WARM_UP : _WARM_UP + 100])
    growth = [size / first for size in resident[-100:]]
    peak = (_status(program.pid, "VmHWM") - _SLACK_BYTES) / conversation.body_bytes
    times = Figure("x after the first ten", lambda ours, _: ours, at_least=False)
    bodies = Figure("x the body, + 150 MB", lambda ours, _: ours, at_least=False)
    what = f"{_REQUESTS:,} full requests"
    add(Reading("memory", _NODES, f"{what}, resident", [max(growth)], times, _AIM_GROWTH))
    add(Reading("memory", _NODES, f"{what}, peak", [peak], bodies, _AIM_BODIES))


def _places(text: bytearray, cluster: Cluster) -> dict[str, int]:
    """Return where in ``text`` the digits of each node's resourceVersion are, by node name."""
    places: dict[str, int] = {}
    at = 0
    for name in cluster.names:
        found = text.find(b'{"metadata":{"name":"%b"' % name.encode(), at)
        if found >= 0:
            at = text.index(_CHANGES, found) + len(_CHANGES)
            places[name] = at
    return places


def _write(text: bytearray, at: int, digits: bytes) -> None:
    text[at : at + _DIGITS] = digits


def _status(pid: int, field: str) -> int:
    """Return the bytes of one field of the process's ``/proc`` status, such as VmRSS."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    kilobytes = next(line.split()[1] for line in lines if line.startswith(f"{field}:"))
    return int(kilobytes) * 1024
