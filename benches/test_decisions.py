"""Measures what the record of decisions costs a request over HTTP: with the record beside without.

One server, which records or does not by turns, is asked about one new pod after the other. The
record is full before anything is timed.
"""

import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import pytest
from tests.e2e.workbench import Program

from asked import Asked
from figures import Figure
from nodes import Cluster
from remote import RemoteWork, Stopwatch
from servers import Servers
from works import FULL, NAMES, Mode

NODES = 5_000
MORE = Figure("% more", lambda ours_s, floor_s: 100 * (ours_s / floor_s - 1), at_least=False)
MOST_PERCENT = 1.0
_TOKEN = "reads-what-was-decided"  # noqa: S105  of this run alone
_MOST_PODS = 4_096
_CALLS_A_SECOND = 100
# A signal has certainly reached the server by then.
_SWITCHED_S = 0.1
_UID = b"ac30c2ca-6827-4ae8-a006-f820b5c392c3"
_DIGITS = 8
_SERVING = (sys.executable, Path(__file__).with_name("recording_server.py"))
_CHECKED = 50
_CALLS_IN_FULL_MODE = 30


@pytest.mark.parametrize(
    ("mode", "calls_a_second"),
    [(NAMES, _CALLS_A_SECOND), (NAMES, 0), (FULL, 0)],
    ids=["names-each-recorded", "names-at-full-speed", "full-each-recorded"],
)
@pytest.mark.parametrize("verb", ["filter", "prioritize"])
def test_a_request_with_the_record_beside_one_without(  # noqa: PLR0913, PLR0917  fixtures
    verb: str,
    mode: Mode,
    calls_a_second: int,
    clusters: Callable[[int], Cluster],
    client: Stopwatch,
    servers: Servers,
    compare: Callable[..., None],
    tmp_path: Path,
) -> None:
    asked = Asked(clusters(NODES), mode, tmp_path)
    pace = f"{calls_a_second} times a second" if calls_a_second else "without a pause"
    token = tmp_path / "token"
    token.write_text(_TOKEN)
    kubeconfig = servers.kubeconfig(servers.api(asked.node_list)) if mode is NAMES else None

    decisions = {"maxPods": _MOST_PODS, "tokenFile": str(token)}
    url, program = servers.kubextend(
        kubeconfig, sections={"server": {"decisions": decisions}}, serving=_SERVING
    )
    of_filter = asked.server_work(f"{verb} {pace}", client, url)
    answer = tmp_path / "answer"
    plain = RemoteWork(of_filter.name, client, of_filter.order | {"url": f"{url}/{verb}"})
    del plain.order["expected"]
    plain.answer(answer)
    number_at = asked.body.read_bytes().index(_UID) + len(_UID) - _DIGITS
    work = replace(plain, order=plain.order | {"number_at": number_at}).expecting(answer)
    slowly = paced(work, 1 / _CALLS_A_SECOND)
    before = recorded(url)
    Switched("", slowly, program, signal.SIGUSR1).turn(_CHECKED)
    assert recorded(url) == before
    Switched("", slowly, program, signal.SIGUSR2).turn(_CHECKED)
    # Each number is another pod.
    assert recorded(url) == before + _CHECKED
    work.turn(_MOST_PODS)
    assert recorded(url) == _MOST_PODS, "the record is not full"
    calls = calls_a_second or (_CALLS_IN_FULL_MODE if mode is FULL else None)
    if calls_a_second:
        work = paced(work, 1 / calls_a_second)
    recording = Switched(f"{verb} {pace}, recorded", work, program, signal.SIGUSR2)
    silent = Switched(f"{verb} {pace}, not recorded", work, program, signal.SIGUSR1)
    compare(recording, silent, *asked.size, MOST_PERCENT, MORE, calls)


@dataclass(frozen=True)
class Switched:
    """A work before each turn of which the server is told to record, or to record nothing.

    Attributes:
        name: the name of the work in the report.
        work: the calls of a turn.
        program: the server.
        told: the signal that tells the server.
    """

    name: str
    work: RemoteWork
    program: Program
    told: signal.Signals

    def turn(self, calls: int) -> list[float]:
        """Tell the server, make so many calls, and return the seconds of each."""
        os.kill(self.program.pid, self.told)
        time.sleep(_SWITCHED_S)
        return self.work.turn(calls)


def paced(work: RemoteWork, every_s: float) -> RemoteWork:
    """Return a work with a pause between its calls."""
    return replace(work, order=work.order | {"every": every_s})


def recorded(url: str) -> int:
    """Return of how many pods a server has a record."""
    headers = {"Authorization": f"Bearer {_TOKEN}"}
    answer = httpx.get(f"{url}/overview", headers=headers, trust_env=False, timeout=30.0)
    total: int = answer.raise_for_status().json()["pods"]["total"]
    return total
