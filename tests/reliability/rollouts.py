"""Replaces replicas, or their certificates, while clients send 10,000 requests.

- ``replicas``: clients ask two replicas, each of which is replaced again and again. A replica that
  gets SIGTERM leaves the clients' list only a second later, as in a Service.
- ``certificates``: the certificate and the key of a server are replaced by a swap of a symlink.
"""

import argparse
import http.client
import os
import random
import signal
import ssl
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from tests.doors.certificates import Authority
from tests.e2e.workbench import Workbench, say, until
from tests.hostile.memory import Served

from .clients import Client, tell

_CLIENTS: Final = 8
_PAUSE_S: Final = 0.005
_LIST_LAGS_S: Final = 1.0
_SWAPS: Final = 3
_ROLLOUTS: Final = 4
_BODY: Final = b'{"Pod":{"metadata":{"name":"p"}},"Nodes":{"items":[{"metadata":{"name":"n"}}]}}'
_CONFIG: Final[dict[str, Any]] = {
    "server": {"drainDelay": "3s"},
    "profiles": [{"plugins": {"filter": {"enabled": [{"name": "HighCommPodFilter"}]}}}],
}


class Clients:
    """Clients that send requests without an end, over connections that they keep.

    Args:
        connected: returns a new connection to some server.

    Attributes:
        done: how many requests were answered.
        failed: what went wrong, and how often.
    """

    def __init__(self, connected: Callable[[], Client]) -> None:
        self._connected = connected
        self._over = threading.Event()
        self._lock = threading.Lock()
        self.done = 0
        self.failed: Counter[str] = Counter()

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Ask until the block ends."""
        threads = [threading.Thread(target=self._ask) for _ in range(_CLIENTS)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._over.set()
            for thread in threads:
                thread.join()

    def _ask(self) -> None:
        client = self._connected()
        while not self._over.wait(_PAUSE_S):
            try:
                status, _ = client.post("/filter", _BODY)
            except (OSError, http.client.HTTPException) as error:
                self._count(repr(error))
            else:
                self._count("" if status == http.client.OK else str(status))
            if not client.is_open or random.random() < 0.05:
                client.close()
                client = self._connected()

    def _count(self, failure: str) -> None:
        with self._lock:
            self.done += 1
            if failure:
                self.failed[failure] += 1


def replicas(requests: int) -> dict[str, float]:
    """Replace replicas until the clients have sent this many requests."""
    exits: Counter[int] = Counter()
    with ExitStack() as stack:
        running = [_replica(stack), _replica(stack)]
        listed = list(running)
        clients = Clients(lambda: Client(random.choice(listed).port))
        with clients.asking():
            while clients.done < requests or exits.total() < _ROLLOUTS:
                running.append(_replica(stack))
                listed.append(running[-1])
                leaving = running.pop(0)
                os.kill(leaving.program.pid, signal.SIGTERM)
                time.sleep(_LIST_LAGS_S)
                listed.remove(leaving)
                until(lambda gone=leaving: not gone.program.is_running(), "a replica ends")
                exits[leaving.program.end()] += 1
        say(f"exit codes {dict(exits)}; failed {dict(clients.failed)}")
    return {
        "requests": clients.done,
        "rollouts": exits.total(),
        "failed": clients.failed.total(),
        "bad_exit_codes": exits.total() - exits[0],
    }


def _replica(stack: ExitStack) -> Served:
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    return Served(stack.enter_context(Workbench(Path(folder))), _CONFIG)


def certificates(requests: int) -> dict[str, float]:
    """Replace the certificate of a server until the clients have sent this many requests."""
    with tempfile.TemporaryDirectory() as name, Workbench(Path(name)) as bench:
        authority = Authority(bench.folder, "authority")
        trusted = ssl.create_default_context(cafile=authority.file)
        pairs = [_pair(bench.folder / f"pair-{number}", authority) for number in range(_SWAPS + 1)]
        mounted = bench.folder / "..data"
        mounted.symlink_to(pairs[0])
        files = {"certFile": str(mounted / "tls.crt"), "keyFile": str(mounted / "tls.key")}
        server = Served(bench, {**_CONFIG, "server": {"tls": files}})
        clients = Clients(lambda: Client(server.port, tls=trusted))
        live_after_s = []
        with clients.asking():
            for pair in pairs[1:]:
                start = time.monotonic()
                _swap(mounted, pair)
                wanted = ssl.PEM_cert_to_DER_cert((pair / "tls.crt").read_text())
                until(lambda shown=wanted: _shown(server.port, trusted) == shown, "it is live")
                live_after_s.append(time.monotonic() - start)
            until(lambda: clients.done >= requests, "enough requests", timeout_s=600.0)
        say(f"failed {dict(clients.failed)}")
    return {
        "requests": clients.done,
        "swaps": _SWAPS,
        "failed": clients.failed.total(),
        "live_after_s": max(live_after_s),
    }


def _pair(folder: Path, authority: Authority) -> Path:
    """Make a folder with a certificate and its key, as a mounted Secret has them."""
    folder.mkdir()
    signed = authority.sign(folder.name)
    signed.cert_file.rename(folder / "tls.crt")
    signed.key_file.rename(folder / "tls.key")
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


_PARTS: Final[dict[str, Callable[[int], dict[str, float]]]] = {
    "replicas": replicas,
    "certificates": certificates,
}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=_PARTS)
    parser.add_argument("--requests", type=int, default=10_000)
    options = parser.parse_args()
    tell(_PARTS[options.part](options.requests))
    return 0


if __name__ == "__main__":
    sys.exit(main())
