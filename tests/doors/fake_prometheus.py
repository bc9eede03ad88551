"""An HTTP server in place of Prometheus that misbehaves; each fault is a function."""

import http.server
import ipaddress
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

LONGEST_FAULT_S = 60.0
"""The seconds after which a fault ends a query that the client has not ended."""

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


ANSWER = json.dumps(
    {
        "status": "success",
        "data": {
            "resultType": "vector",
            "result": [{"metric": {"instance": "a:9100"}, "value": [1.0, "7"]}],
        },
    }
).encode()


def good(request: Request) -> None:
    request.says(200, ANSWER)


def chunked(request: Request) -> None:
    request.send_response(200)
    request.send_header("Transfer-Encoding", "chunked")
    request.end_headers()
    for byte in ANSWER:
        request.wfile.write(b"1\r\n" + bytes([byte]) + b"\r\n")
    request.wfile.write(b"0\r\n\r\n")


def silent(request: Request) -> None:
    request.server.over.wait(LONGEST_FAULT_S)


def trickling_headers(request: Request) -> None:
    request.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
    _trickle(request, b"x")


def trickling_body(request: Request) -> None:
    request.send_response(200)
    request.send_header("Content-Length", "1000000")
    request.end_headers()
    _trickle(request, b" ")


def trickling_last_body(request: Request) -> None:
    request.send_response(200)
    request.send_header("Connection", "close")
    request.end_headers()
    _trickle(request, b" ")


def _trickle(request: Request, byte: bytes) -> None:
    ends = time.monotonic() + LONGEST_FAULT_S
    while not request.server.over.wait(0.02) and time.monotonic() < ends:
        request.wfile.write(byte)


def cut_off(request: Request) -> None:
    request.send_response(200)
    request.send_header("Content-Length", str(len(ANSWER)))
    request.end_headers()
    request.wfile.write(ANSWER[:-20])
    request.close_connection = True


def refused(request: Request) -> None:
    body = {"status": "error", "errorType": "bad_data", "error": "parse error: no such thing"}
    request.says(400, json.dumps(body).encode())


def unavailable(request: Request) -> None:
    request.says(503, b"<html><h1>upstream connect error</h1></html>")


def forbidden(request: Request) -> None:
    request.says(403, b"[" * 4000)


def redirected(request: Request) -> None:
    request.says(302, b"", ("Location", "/elsewhere"))


def page(request: Request) -> None:
    request.says(200, b"<html><body>Please log in</body></html>", ("Content-Type", "text/html"))


def empty(request: Request) -> None:
    request.says(200, b"")


def announced_huge(request: Request) -> None:
    request.send_response(200)
    request.send_header("Content-Length", str(1 << 40))
    request.end_headers()
    _flood(request)


def endless(request: Request) -> None:
    request.send_response(200)
    request.send_header("Connection", "close")
    request.end_headers()
    _flood(request)


def endless_chunks(request: Request) -> None:
    request.send_response(200)
    request.send_header("Transfer-Encoding", "chunked")
    request.end_headers()
    _flood(request, before=b"10000\r\n", behind=b"\r\n")


def endless_headers(request: Request) -> None:
    request.wfile.write(b"HTTP/1.1 200 OK\r\n")
    _flood(request, before=b"X: ", behind=b"\r\n")


def _flood(request: Request, before: bytes = b"", behind: bytes = b"") -> None:
    piece = before + b" " * 65536 + behind
    while not request.server.over.is_set():
        request.wfile.write(piece)


def no_http(request: Request) -> None:
    request.wfile.write(b"SSH-2.0-OpenSSH_9.2\r\n")
    request.close_connection = True


def gone(request: Request) -> None:
    request.connection.shutdown(socket.SHUT_RDWR)
    request.close_connection = True


def slow(request: Request) -> None:
    time.sleep(0.2)
    good(request)


@contextmanager
def running(certificate: Path | None = None) -> Iterator[tuple[FakePrometheus, str]]:
    """Run the server, over TLS if a certificate file is given; yield the server and its URL."""
    server = FakePrometheus()
    scheme = "http"
    if certificate is not None:
        scheme = "https"
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    # Polled often, so that a test ends as soon as it can.
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server, f"{scheme}://127.0.0.1:{server.server_address[1]}"
    finally:
        server.over.set()
        server.shutdown()
        server.server_close()
        thread.join()


def certificate_for(address: str, directory: Path) -> Path:
    """Write a self-signed certificate and its key to one file, and return the file's path."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, address)])
    now = datetime.now(UTC)
    built = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([_general_name(address)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = directory / f"{address}.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    file.write_bytes(private + built.public_bytes(serialization.Encoding.PEM))
    return file


def _general_name(address: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(address))
    except ValueError:
        return x509.DNSName(address)
