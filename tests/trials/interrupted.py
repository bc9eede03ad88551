"""Plugins hang, and replicas and certificates are replaced, while clients send requests."""

import http.client
import json
import os
import random
import signal
import ssl
import threading
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import mean
from typing import Any, Final

from tests.e2e.certificates import Authority
from tests.e2e.workbench import until

from .clients import Client, Tally, filter_body, small_nodes, timed
from .harness import Report, trial
from .served import Served, filtering, serving, workbench

_CLIENTS: Final = 8
_PAUSE_S: Final = 0.005
# A replica that gets SIGTERM leaves the clients' list only so much later, as in a Service.
_LIST_LAGS_S: Final = 1.0
_SWAPS: Final = 3
_ROLLOUTS: Final = 4
_BODY: Final = filter_body(small_nodes(1))
_DRAINING: Final[dict[str, Any]] = {"server": {"drainDelay": "3s"}}
_HANGS: Final = '''
import time


class Sleeps:
    """Sleeps for some seconds."""

    name = "Sleeps"

    def filter_nodes(self, state, pod, nodes):
        time.sleep({hangs_s})
        return []


class Computes:
    """Computes for some seconds."""

    name = "Computes"

    def filter_nodes(self, state, pod, nodes):
        end = time.monotonic() + {hangs_s}
        while time.monotonic() < end:
            pass
        return []
'''
_HANGING: Final[dict[str, Any]] = {
    "extender": {"httpTimeout": "5s"},
    "outOfTree": ["hangs:Sleeps", "hangs:Computes"],
    "profiles": [
        filtering("HighCommPodFilter", "good"),
        filtering("Sleeps", "sleeps"),
        filtering("Computes", "computes"),
    ],
}


def _hang(port: int, scheduler: str) -> tuple[float, str]:
    """Send a request that hangs; return the seconds until its answer, and the answer's Error."""
    start = time.monotonic()
    _, answer = Client(port).post("/filter", filter_body(small_nodes(), scheduler))
    return time.monotonic() - start, json.loads(answer)["Error"]


@trial(seconds=(10.0, 6.0))
def hanging_plugins(options: Namespace, report: Report) -> None:
    """A plugin sleeps, and then computes, for ten seconds, while another client is timed."""
    plugins = {"hangs": _HANGS.format(hangs_s=options.seconds)}
    with serving(_HANGING, plugins=plugins) as server, ThreadPoolExecutor(2) as threads:
        good, body = Client(server.port), filter_body(small_nodes(), "good")
        timed(good, "/filter", body, 3.0)
        times, hangs = {}, []
        for phase in ("before", "sleeps", "between", "computes"):
            if phase in {"sleeps", "computes"}:
                hangs.append(threads.submit(_hang, server.port, phase))
            times[phase] = timed(good, "/filter", body, options.seconds)
        answers = [hang.result() for hang in hangs]
    p99s_ms = {phase: each.p99_ms for phase, each in times.items()}
    report.say(f"p99 {p99s_ms}; {answers}")
    report.tell(failed=sum(each.failed for each in times.values()))
    report.tell(without_error=sum(not error for _, error in answers))
    report.tell(answered_after_s=max(took_s for took_s, _ in answers))
    alone_ms = mean([p99s_ms["before"], p99s_ms["between"]])
    report.tell(p99_ratio_beside_sleep=p99s_ms["sleeps"] / alone_ms)
    report.tell(p99_ms_beside_busy_loop=p99s_ms["computes"])


class Clients:
    """Clients that send requests without an end, over connections that they keep.

    Args:
        connected: returns a new connection to some server.

    Attributes:
        done: how many requests were answered, by what went wrong; empty: nothing.
    """

    def __init__(self, connected: Callable[[], Client]) -> None:
        self._connected = connected
        self._over = threading.Event()
        self.done = Tally()

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Ask until the block ends."""
        with ThreadPoolExecutor(_CLIENTS) as threads:
            asking = [threads.submit(self._ask) for _ in range(_CLIENTS)]
            try:
                yield
            finally:
                self._over.set()
        for each in asking:
            each.result()

    def _ask(self) -> None:
        client = self._connected()
        while not self._over.wait(_PAUSE_S):
            try:
                status, _ = client.post("/filter", _BODY)
            except (OSError, http.client.HTTPException) as error:
                self.done.note(repr(error))
            else:
                self.done.note("" if status == http.client.OK else str(status))
            if not client.is_open or random.random() < 0.05:
                client.close()
                client = self._connected()

    def tell(self, report: Report) -> None:
        report.say(dict(self.done))
        requests = self.done.total()
        report.tell(requests=requests, failed=requests - self.done[""])


@trial(requests=(10_000, 500))
def replaced_replicas(options: Namespace, report: Report) -> None:
    """Two replicas are replaced again and again while clients ask them."""
    exits: Counter[int] = Counter()
    with ExitStack() as stack:
        running = [stack.enter_context(serving(_DRAINING)) for _ in range(2)]
        listed = list(running)
        clients = Clients(lambda: Client(random.choice(listed).port))
        with clients.asking():
            while clients.done.total() < options.requests or exits.total() < _ROLLOUTS:
                running.append(stack.enter_context(serving(_DRAINING)))
                listed.append(running[-1])
                leaving = running.pop(0)
                os.kill(leaving.program.pid, signal.SIGTERM)
                time.sleep(_LIST_LAGS_S)
                listed.remove(leaving)
                until(lambda gone=leaving: not gone.program.is_running(), "a replica ends")
                exits[leaving.program.end()] += 1
    clients.tell(report)
    report.say(f"exit codes {dict(exits)}")
    report.tell(rollouts=exits.total(), bad_exit_codes=exits.total() - exits[0])


@trial(requests=(10_000, 500))
def replaced_certificates(options: Namespace, report: Report) -> None:
    """Certificate and key are replaced by a swap of a symlink while clients ask."""
    with workbench() as bench:
        authority = Authority(bench.folder)
        trusted = ssl.create_default_context(cafile=authority.cert)
        pairs = [_pair(bench.folder / f"pair-{number}", authority) for number in range(_SWAPS + 1)]
        mounted = bench.folder / "..data"
        mounted.symlink_to(pairs[0])
        files = {"certFile": str(mounted / "tls.crt"), "keyFile": str(mounted / "tls.key")}
        server = Served(bench, {"server": {"tls": files}})
        clients = Clients(lambda: Client(server.port, tls=trusted))
        live_after_s = []
        with clients.asking():
            for pair in pairs[1:]:
                start = time.monotonic()
                _swap(mounted, pair)
                wanted = ssl.PEM_cert_to_DER_cert((pair / "tls.crt").read_text())
                until(lambda shown=wanted: _shown(server.port, trusted) == shown, "it is live")
                live_after_s.append(time.monotonic() - start)
            enough = lambda: clients.done.total() >= options.requests  # noqa: E731
            until(enough, "enough requests", timeout_s=600.0)
    clients.tell(report)
    report.tell(swaps=_SWAPS, live_after_s=max(live_after_s))


def _pair(folder: Path, authority: Authority) -> Path:
    """Make a folder with a certificate and its key, as a mounted Secret has them."""
    folder.mkdir()
    signed = authority.issue(folder.name)
    signed.cert.rename(folder / "tls.crt")
    signed.key.rename(folder / "tls.key")
    return folder


def _swap(mounted: Path, pair: Path) -> None:
    """Let a symlink point elsewhere in one step, as the kubelet does."""
    following = mounted.with_name("..data_tmp")
    following.symlink_to(pair)
    following.replace(mounted)


def _shown(port: int, trusted: ssl.SSLContext) -> bytes | None:
    """Return the certificate that a server shows on a new connection."""
    client = Client(port, tls=trusted)
    client.post("/filter", _BODY)
    shown = client.certificate
    client.close()
    return shown
