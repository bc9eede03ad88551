"""HTTP servers that answer by path, in place of the Kubernetes API or of a kubextend to ask."""

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.doors.certificates import Pair
from tests.doors.configurations import write_kubeconfig
from tests.doors.scripted_requests import status_of

from kubextend.why import Replicas, Server

Object = Mapping[str, Any]
Answer = Object | str | Callable[[], Object | str | int | None]


@dataclass
class Answering:
    """A server that has some objects, by path, and forbids some paths.

    Attributes:
        objects: path -> object or text, or a function that returns one, None if there is none
            now, or the status of a refusal.
        forbidden: the paths that the user may not read.
        unserved: a prefix of the paths of groups and versions that the API does not serve.
        asked: the paths that were asked for, with their queries.
    """

    objects: Mapping[str, Answer] = field(default_factory=dict)
    forbidden: set[str] = field(default_factory=set)
    unserved: str = "none"
    asked: list[str] = field(default_factory=list)

    def answer(self, target: str) -> tuple[int, Object | str]:
        self.asked.append(target)
        path = target.partition("?")[0]
        group, kind, name = (["", "", "", *path.split("/")])[-4], *path.split("/")[-2:]
        what = f'{kind}.{group} "{name}"'
        if path.startswith(self.unserved):
            return 404, "404 page not found\n"
        if path in self.forbidden:
            return 403, status_of(403, "Forbidden", f"{what} is forbidden: no right to get it")
        found = self.objects.get(path)
        found = found() if callable(found) else found
        if isinstance(found, int):
            return found, status_of(found, "Refused", f"{what} is refused now")
        if found is not None:
            return 200, found
        if kind.endswith("events") or name == "events":
            return 200, {"kind": "EventList", "items": []}
        return 404, status_of(404, "NotFound", f"{what} not found")


@contextmanager
def listening(answering: Answering, certificate: Pair | None = None) -> Iterator[str]:
    """Answer on a loopback port, with TLS if a certificate is given; yield the URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            code, answer = answering.answer(self.path)
            body = (answer if isinstance(answer, str) else json.dumps(answer)).encode()
            kind = "text/plain" if isinstance(answer, str) else "application/json"
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.do_GET()

        def log_message(self, *_: object) -> None:
            """Write no line for a request."""

    files = (certificate.cert_file, certificate.key_file) if certificate else ()
    with served(ThreadingHTTPServer(("127.0.0.1", 0), Handler), *files) as url:
        yield url


@contextmanager
def served(server: ThreadingHTTPServer, *certificate: Path) -> Iterator[str]:
    """Run a server on a thread, over TLS with files of a certificate and key; yield its URL."""
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    # Polled often, so that a test ends as soon as it can.
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"{'https' if certificate else 'http'}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def api(answering: Answering, folder: Path) -> Iterator[Path]:
    """Answer as the Kubernetes API, and yield a kubeconfig for it."""
    with listening(answering) as url:
        yield kubeconfig_for(url, folder)


def kubeconfig_for(url: str, folder: Path) -> Path:
    return write_kubeconfig(folder / "kubeconfig", url, "t")


@contextmanager
def says(*answers: bytes) -> Iterator[str]:
    """Listen on a loopback port, answer bytes to a connection, and hang up; yield the address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer_one() -> None:
            accepted, _ = listener.accept()
            with accepted:
                accepted.recv(65536)
                for each in answers:
                    accepted.sendall(each)

        thread = threading.Thread(target=answer_one)
        thread.start()
        port = listener.getsockname()[1]
        try:
            yield f"127.0.0.1:{port}"
        finally:
            # Who was not asked is asked now, so that the thread ends.
            with socket.socket() as last:
                last.connect_ex(("127.0.0.1", port))
            thread.join()


@contextmanager
def closed_port() -> Iterator[str]:
    """Yield an address of loopback at which nobody listens."""
    with socket.socket() as bound:
        # While the socket is bound, nobody else gets its port.
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


def answer_of_replicas(*answers: Object | None) -> dict[str, Any]:
    """Return what is believed of several replicas; None is a replica that is down."""

    stack = ExitStack()

    def dial(answer: Object | None) -> socket.socket:
        if answer is None:
            raise ConnectionRefusedError
        ours, theirs = map(stack.enter_context, socket.socketpair())
        body = json.dumps(answer).encode()
        theirs.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        return ours

    servers = [Server("http://kubextend", dial=lambda each=each: dial(each)) for each in answers]  # type: ignore[misc]
    with stack:
        return Replicas(servers).get("/decisions", {})
