"""Binds pods while calls of the Kubernetes API are lost, doubled and delayed."""

import contextlib
import json
import random
import socket
import threading
import time
from argparse import Namespace
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import Any, BinaryIO, Final, Self

from tests.doors.scripted_api import ScriptedApi

from .clients import Tally, ThreadClients
from .harness import Report, trial
from .served import ready, serving

# Seconds of a delay: noticed, long, and longer than kubextend waits for an answer of the API.
_DELAYS_S: Final = (0.3, 3.0, 12.0)
# Seconds for which a half-open connection stays open if its client does not close it.
_HELD_S: Final = 40.0
_NODES: Final = [f"node-{number}" for number in range(50)]
_ATTEMPTS: Final = 12
_REPEATED: Final = 0.05
_BINDING: Final[dict[str, Any]] = {"extender": {"bind": True, "httpTimeout": "30s"}}


class FaultyProxy:
    """A proxy on loopback that loses, doubles or delays a share of the requests or their answers.

    Only calls about single pods get faults.

    Args:
        upstream: the port of the API.
        share: the share of requests with a fault, from 0 to 1.
        seed: decides which requests have which fault.

    Attributes:
        committed: how often each fault was committed.
    """

    FAULTS: Final = (*product(("request", "answer"), ("lost", "doubled", "delayed", "half-open")),)

    def __init__(self, upstream: int, share: float, seed: int) -> None:
        self._upstream = upstream
        self._share = share
        self._dice = random.Random(seed)
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.committed: Counter[tuple[str, str]] = Counter()
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

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
        upstream = ("127.0.0.1", self._upstream)
        ending = contextlib.suppress(OSError, EOFError)
        with client, ending, socket.create_connection(upstream) as api:
            api.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            requests, answers = client.makefile("rb"), api.makefile("rb")
            goes_on = True
            while goes_on and not self._over.is_set():
                request = _message(requests)
                line = request.partition(b"\r\n")[0]
                if b"watch=" in line:
                    api.sendall(request)
                    while data := api.recv(1 << 16):
                        client.sendall(data)
                    return
                fault = self._fault() if b"/pods/" in line else ("", "")
                goes_on = self._passed_on(fault, request, client, (api, answers))

    def _fault(self) -> tuple[str, str]:
        with self._lock:
            if self._dice.random() >= self._share:
                return "", ""
            fault = self._dice.choice(self.FAULTS)
            self.committed[fault] += 1
            return fault

    def _passed_on(
        self,
        fault: tuple[str, str],
        request: bytes,
        client: socket.socket,
        api: tuple[socket.socket, BinaryIO],
    ) -> bool:
        """Pass a request and its answer on with a fault; return whether the connection goes on."""
        answer = b""
        for what in ("request", "answer"):
            how = fault[1] if fault[0] == what else ""
            if how == "half-open":
                self._over.wait(_HELD_S)
            if how in {"half-open", "lost"}:
                return False
            if how == "delayed":
                time.sleep(self._dice.choice(_DELAYS_S))
            for _ in range(2 if how == "doubled" else 1):
                if what == "request":
                    api[0].sendall(request)
                    answer = _message(api[1])
                else:
                    client.sendall(answer)
        return True


def _message(stream: BinaryIO) -> bytes:
    """Read one request or answer with the body that its Content-Length announces.

    Raises: EOFError: the other side has closed the connection.
    """
    lines, length = [], 0
    while line := stream.readline():
        lines.append(line)
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
        if line == b"\r\n":
            return b"".join(lines) + stream.read(length)
    raise EOFError


class Binds:
    """Binds pods as kube-scheduler does, and compares each answer with the pods of the API.

    After an Error it asks again, for another node while the API shows the pod on none.

    Attributes:
        found: how often each figure's event has happened.
    """

    def __init__(self, api: ScriptedApi, port: int, seed: int) -> None:
        self._api = api
        self._seed = seed
        self._mine = ThreadClients(port)
        self.found = Tally()

    def bind(self, number: int) -> None:
        """Bind one pod, and ask again after a share of the successes."""
        dice = random.Random(f"{self._seed}-{number}")
        pod, node = f"pod-{number}", dice.choice(_NODES)
        for _ in range(_ATTEMPTS):
            if not self._error(pod, node):
                self.found.note("told_wrongly", self._node_of(pod) != node)
                break
            self.found.note("errors")
            # kube-scheduler would see that the pod is bound, and ask no more: whether the node
            # may be told again is asked here.
            node = self._node_of(pod) or dice.choice(_NODES)
        else:
            self.found.note("lost")
        if dice.random() < _REPEATED:
            self._repeat(pod, dice)

    def _repeat(self, pod: str, dice: random.Random) -> None:
        """Ask for another node, which has to be an Error whatever the API answers."""
        node = self._node_of(pod)
        other = dice.choice([each for each in _NODES if each != node])
        wrong = not self._error(pod, other) or self._node_of(pod) != node
        self.found.note("bound_twice", wrong)
        self.found.note("repeats")

    def _error(self, pod: str, node: str) -> str:
        """Ask kubextend to bind a pod to a node, and return the Error of its answer."""
        body = {"PodName": pod, "PodNamespace": "default", "PodUID": f"uid-{pod}", "Node": node}
        status, answer = self._mine.client.post("/bind", body)
        self.found.note("told_wrongly", status != 200)
        return str(json.loads(answer)["Error"])

    def _node_of(self, pod: str) -> str:
        return str(self._api.pods[pod]["spec"].get("nodeName", ""))


@trial(binds=10_000, faults=0.05, clients=64, latency=0.0, seed=0)
def faulty_binds(options: Namespace, report: Report) -> None:
    """Binds go through a proxy that loses, doubles and delays 5 % of what it passes on."""
    api = ScriptedApi()
    for node in _NODES:
        api.put_node(node)
    for number in range(options.binds):
        api.put_pod(f"pod-{number}", f"uid-pod-{number}")
    with (
        ready(api),
        FaultyProxy(api.port, options.faults, options.seed) as proxy,
        serving(_BINDING, proxy) as server,
    ):
        binds = Binds(api, server.port, options.seed)
        api.latency_s = options.latency
        start = time.monotonic()
        with ThreadPoolExecutor(options.clients) as clients:
            list(clients.map(binds.bind, range(options.binds)))
        report.tell(binds_a_second=options.binds / (time.monotonic() - start))
    faults, found = proxy.committed, binds.found
    bound = [pod.get("bindings", 0) for pod in api.pods.values()]
    report.say(f"faults: {dict(faults)}")
    report.tell(binds=len(bound), faults_percent=100 * faults.total() / len(bound))
    report.tell(repeats=found["repeats"], errors=found["errors"])
    report.tell(bound_twice=found["bound_twice"] + sum(each > 1 for each in bound))
    report.tell(told_wrongly=found["told_wrongly"])
    report.tell(lost=found["lost"] + sum(each == 0 for each in bound))
