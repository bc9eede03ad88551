"""An HTTP server in place of Prometheus that misbehaves; each fault is a function."""

import http.server
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from tests.doors.answering import served
from tests.doors.certificates import Pair
from tests.doors.prometheus import answer, series

# After that a fault ends a query that the client has not ended.
LONGEST_FAULT_S = 60.0

Fault = Callable[["Request"], None]


class Request(http.server.BaseHTTPRequestHandler):
    """One request, which the current ``fault`` of the server answers."""

    protocol_version = "HTTP/1.1"
    server: "FakePrometheus"

    def do_GET(self) -> None:
        self.server.seen.append((self.path, dict(self.headers)))
        with suppress(OSError):
            self.server.fault(self)

    def says(self, status: int, body: bytes, *headers: tuple[str, str]) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Log nothing, so that the output has only the test's own lines."""


class FakePrometheus(http.server.ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Request)
        self.fault: Fault = good
        self.seen: list[tuple[str, dict[str, str]]] = []
        self.over = threading.Event()

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that go away or refuse the certificate: both are tested."""


ANSWER = answer(series("7", instance="a:9100"))
ERROR = {"status": "error", "errorType": "bad_data", "error": "parse error: no such thing"}


def _says(status: int, body: bytes, *headers: tuple[str, str]) -> Fault:
    return lambda request: request.says(status, body, *headers)


good = _says(200, ANSWER)
refused = _says(400, json.dumps(ERROR).encode())
unavailable = _says(503, b"<html><h1>upstream connect error</h1></html>")
forbidden = _says(403, b"[" * 4000)
redirected = _says(302, b"", ("Location", "/elsewhere"))
page = _says(200, b"<html><body>Please log in</body></html>", ("Content-Type", "text/html"))
empty = _says(200, b"")


def _begins(header: str, value: str, then: Fault) -> Fault:
    """Return a fault that sends a head with this header, and then does something else."""

    def fault(request: Request) -> None:
        request.send_response(200)
        request.send_header(header, value)
        request.end_headers()
        then(request)

    return fault


def _in_chunks(request: Request) -> None:
    for byte in ANSWER:
        request.wfile.write(b"1\r\n" + bytes([byte]) + b"\r\n")
    request.wfile.write(b"0\r\n\r\n")


def _cut_off(request: Request) -> None:
    request.wfile.write(ANSWER[:-20])
    request.close_connection = True


def _trickle(request: Request, byte: bytes = b" ") -> None:
    ends = time.monotonic() + LONGEST_FAULT_S
    while not request.server.over.wait(0.02) and time.monotonic() < ends:
        request.wfile.write(byte)


def _flood(request: Request, before: bytes = b"", behind: bytes = b"") -> None:
    piece = before + b" " * 65536 + behind
    while not request.server.over.is_set():
        request.wfile.write(piece)


def _flood_of_chunks(request: Request) -> None:
    _flood(request, before=b"10000\r\n", behind=b"\r\n")


chunked = _begins("Transfer-Encoding", "chunked", _in_chunks)
cut_off = _begins("Content-Length", str(len(ANSWER)), _cut_off)
trickling_body = _begins("Content-Length", "1000000", _trickle)
trickling_last_body = _begins("Connection", "close", _trickle)
announced_huge = _begins("Content-Length", str(1 << 40), _flood)
endless = _begins("Connection", "close", _flood)
endless_chunks = _begins("Transfer-Encoding", "chunked", _flood_of_chunks)


def silent(request: Request) -> None:
    request.server.over.wait(LONGEST_FAULT_S)


def slow(request: Request) -> None:
    time.sleep(0.2)
    good(request)


def trickling_headers(request: Request) -> None:
    request.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
    _trickle(request, b"x")


def endless_headers(request: Request) -> None:
    request.wfile.write(b"HTTP/1.1 200 OK\r\n")
    _flood(request, before=b"X: ", behind=b"\r\n")


def no_http(request: Request) -> None:
    request.wfile.write(b"SSH-2.0-OpenSSH_9.2\r\n")
    request.close_connection = True


def gone(request: Request) -> None:
    request.connection.shutdown(socket.SHUT_RDWR)
    request.close_connection = True


@contextmanager
def running(certificate: Pair | None = None) -> Iterator[tuple[FakePrometheus, str]]:
    """Run the server, over TLS if a certificate is given; yield the server and its URL."""
    server = FakePrometheus()
    files = () if certificate is None else (certificate.cert_file, certificate.key_file)
    with served(server, *files) as url:
        try:
            yield server, url
        finally:
            server.over.set()
