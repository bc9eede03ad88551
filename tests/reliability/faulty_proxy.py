"""A proxy in front of the Kubernetes API that loses, doubles and delays requests and answers."""

import contextlib
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import BinaryIO, Final, Self

# Seconds of a delay: noticed, long, and longer than kubextend waits for an answer of the API.
_DELAYS_S: Final = (0.3, 3.0, 12.0)
# Seconds for which a half-open connection stays open if its client does not close it.
_HELD_S: Final = 40.0
_CHUNK: Final = 1 << 16


class FaultyProxy:
    """A proxy on loopback that commits one of ``FAULTS`` with a share of the requests.

    Connections on which the API sends without an end, as for a watch, are passed on as they are.

    Args:
        upstream: the port of the API.
        share: the share of requests with a fault, from 0 to 1.
        seed: decides which requests have which fault.

    Attributes:
        committed: how often each fault was committed.
        port: the port of the proxy.
    """

    FAULTS: Final = (
        "request lost",
        "answer lost",
        "request doubled",
        "answer doubled",
        "request delayed",
        "answer delayed",
        "half-open before the API",
        "half-open behind the API",
    )

    def __init__(self, upstream: int, share: float, seed: int) -> None:
        self._upstream = upstream
        self._share = share
        self._dice = random.Random(seed)
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._silenced = 0
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.committed: Counter[str] = Counter()
        self.port: int = self._listener.getsockname()[1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def go_silent(self) -> None:
        """Pass nothing on any more over the open connections of watches; new ones work."""
        self._silenced += 1

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        # A thread that waits in accept notices no close.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while not self._over.is_set():
                client, _ = self._listener.accept()
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        """Pass the requests of one client on until the client or a fault ends the connection."""
        with client, contextlib.suppress(OSError, EOFError), _upstream(self._upstream) as api:
            requests, answers = client.makefile("rb"), api.makefile("rb")
            while not self._over.is_set():
                request = _message(requests)
                line = request.partition(b"\r\n")[0]
                if b"watch=" in line:
                    api.sendall(request)
                    self._pump(api, client)
                    return
                fault = self._fault() if b"/pods/" in line else ""
                if not self._passed_on(fault, request, client, (api, answers)):
                    return

    def _fault(self) -> str:
        with self._lock:
            if self._dice.random() >= self._share:
                return ""
            fault = self._dice.choice(self.FAULTS)
            self.committed[fault] += 1
            return fault

    def _passed_on(
        self, fault: str, request: bytes, client: socket.socket, api: tuple[socket.socket, BinaryIO]
    ) -> bool:
        """Pass a request and its answer on with a fault; return whether the connection goes on."""
        delay_s = self._dice.choice(_DELAYS_S)
        if fault == "request lost":
            return False
        if fault == "half-open before the API":
            self._hold()
            return False
        if fault == "request delayed":
            time.sleep(delay_s)
        if fault == "request doubled":
            _asked(request, api)
        answer = _asked(request, api)
        if fault == "answer lost":
            return False
        if fault == "half-open behind the API":
            self._hold()
            return False
        if fault == "answer delayed":
            time.sleep(delay_s)
        client.sendall(answer * (2 if fault == "answer doubled" else 1))
        return True

    def _pump(self, api: socket.socket, client: socket.socket) -> None:
        """Pass on what the API sends until one of the two closes, or the proxy has gone silent."""
        silenced = self._silenced
        while data := api.recv(_CHUNK):
            if silenced != self._silenced:
                # Neither side hears that the other is gone.
                self._over.wait()
            client.sendall(data)

    def _hold(self) -> None:
        """Leave the client alone with an open connection."""
        self._over.wait(_HELD_S)


def _asked(request: bytes, api: tuple[socket.socket, BinaryIO]) -> bytes:
    connection, answers = api
    connection.sendall(request)
    return _message(answers)


@contextlib.contextmanager
def _upstream(port: int) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port)) as api:
        api.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield api


def _message(stream: BinaryIO) -> bytes:
    """Read one request or answer with the body that its Content-Length announces.

    Raises: EOFError: the other side has closed the connection.
    """
    lines = []
    length = 0
    while True:
        line = stream.readline()
        if not line:
            raise EOFError
        lines.append(line)
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
        if line == b"\r\n":
            return b"".join(lines) + stream.read(length)
