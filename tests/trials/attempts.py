"""Counts the filter calls of each attempt of kube-scheduler to place a pod group.

A relay between kube-scheduler and kubextend notes the calls, and kube-scheduler's log says when an
attempt began. kube-scheduler tries one pod or group after the other, so a call belongs to the
attempt that began last.
"""

import http.server
import json
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Self

import httpx

# klog: Imonthday hour:minute:second.microseconds pid file:line] "message" key="value"...
_BEGINS = re.compile(
    r'^I(\d{4} [\d:.]+) .*"Attempting to schedule pod(?: group)?"'
    r'.*? (?:podGroup|pod)="([^"]+)"',
    re.MULTILINE,
)
_HOP_BY_HOP = {"connection", "transfer-encoding", "content-length", "date", "server"}


@dataclass
class Attempt:
    """One attempt of kube-scheduler to place a pod group or a lone pod.

    Attributes:
        of: the group or pod, as NAMESPACE/NAME.
        calls: how often filter was called about each pod, by NAMESPACE/NAME.
    """

    of: str
    calls: Counter[str] = field(default_factory=Counter)


class Relay:
    """Passes the calls of kube-scheduler on, and notes when filter was called about which pod.

    Args:
        port: the loopback port to listen on.
    """

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.to = ""
        """The URL that calls are passed on to."""
        self.calls: list[tuple[float, str]] = []
        """When filter was called, in seconds, and about which pod."""
        self.client = httpx.Client(
            trust_env=False,
            timeout=120.0,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=None),
        )
        handler = type("_Handler", (_Handler,), {"relay": self})
        self._server = _Server(("127.0.0.1", port), handler)

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, name="relay", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self.client.close()

    def attempts(self, log: str) -> list[Attempt]:
        """Return the attempts with their calls, in order; ``log`` is that of kube-scheduler.

        Raises: ValueError: filter was called before any attempt had begun.
        """
        begins = list(_begins(log))
        attempts = [Attempt(of) for _, of in begins]
        at = -1
        for called_s, pod in sorted(self.calls):
            while at + 1 < len(begins) and begins[at + 1][0] <= called_s:
                at += 1
            if at < 0:
                message = f"filter was called about {pod} before any attempt"
                raise ValueError(message)
            attempts[at].calls[pod] += 1
        return attempts


def _begins(log: str) -> Iterator[tuple[float, str]]:
    """Yield when each attempt of a log began, in seconds, and of which pod or group."""
    # klog leaves the year out, and has local time.
    year = datetime.now().astimezone().year
    for when, of in _BEGINS.findall(log):
        begun = datetime.strptime(f"{year}{when}", "%Y%m%d %H:%M:%S.%f").astimezone()
        yield begun.timestamp(), of


def strangers(attempts: list[Attempt], groups: Mapping[str, str]) -> list[str]:
    """Return a sentence for each attempt with a call about a pod that the attempt is not about.

    Args:
        attempts: the attempts.
        groups: the group of each member, both as NAMESPACE/NAME.
    """
    return [
        f"filter was called about {pod} in an attempt of {attempt.of}"
        for attempt in attempts
        for pod in attempt.calls
        if groups.get(pod, pod) != attempt.of
    ]


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    # kube-scheduler binds the members of a group at the same time.
    request_queue_size = 256


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    relay: Relay

    def do_POST(self) -> None:
        now_s = time.time()
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/filter":
            metadata = json.loads(body)["Pod"]["metadata"]
            pod = f"{metadata['namespace']}/{metadata['name']}"
            self.relay.calls.append((now_s, pod))
        headers = {"Content-Type": self.headers["Content-Type"]}
        answer = self.relay.client.post(self.relay.to + self.path, content=body, headers=headers)
        self.send_response(answer.status_code)
        for name, value in answer.headers.items():
            if name.lower() not in _HOP_BY_HOP:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.content)))
        self.end_headers()
        self.wfile.write(answer.content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  its name there
        """Write nothing for each request."""
