"""Answers POST requests with JSON, as extenders and webhooks of somebody else do."""

import contextlib
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from .kubeapi import Object


@contextlib.contextmanager
def answering(
    answer: Callable[[Object], Object], tls: ssl.SSLContext | None = None
) -> Iterator[int]:
    """Serve during a block, on the loopback port that is yielded."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            body = json.dumps(answer(request)).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever).start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
