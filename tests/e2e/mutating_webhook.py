"""Runs somebody else's mutating webhook for pods, behind a real kube-apiserver."""

import base64
import contextlib
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from .certificates import Authority
from .kubeapi import Api, Object

# Returns the operations of a JSON patch for a pod; none: the pod stays as it is.
Patch = Callable[[Object], list[Object]]
NEW_PODS = {"apiGroups": [""], "apiVersions": ["v1"]}
NEW_PODS |= {"operations": ["CREATE"], "resources": ["pods"]}
REGISTRATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


@contextlib.contextmanager
def webhook_installed(
    api: Api, name: str, patch: Patch, folder: Path, reinvocation: str
) -> Iterator[None]:
    """Make kube-apiserver ask a webhook about each new pod that has the label ``other=name``."""
    authority = Authority(folder / "pki")
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(patch))
    pair = authority.issue("webhook")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pair.cert, pair.key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    url = f"https://127.0.0.1:{server.server_port}/"
    api.call("POST", REGISTRATIONS, _registration(name, url, authority.cert, reinvocation))
    try:
        yield
    finally:
        api.call("DELETE", f"{REGISTRATIONS}/{name}")
        server.shutdown()
        thread.join()
        server.server_close()


def _registration(name: str, url: str, authority: Path, reinvocation: str) -> Object:
    bundle = base64.b64encode(authority.read_bytes()).decode()
    webhook = {
        "name": f"{name}.example.com",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": url, "caBundle": bundle},
        "failurePolicy": "Fail",
        "objectSelector": {"matchLabels": {"other": name}},
        "reinvocationPolicy": reinvocation,
        "rules": [NEW_PODS],
        "sideEffects": "None",
    }
    return {"metadata": {"name": name}, "webhooks": [webhook]}


def _handler(patch: Patch) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            length = int(self.headers["content-length"])
            request = json.loads(self.rfile.read(length))["request"]
            operations = json.dumps(patch(request["object"])).encode()
            response = {"uid": request["uid"], "allowed": True, "patchType": "JSONPatch"}
            response["patch"] = base64.b64encode(operations).decode()
            review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
            body = json.dumps({**review, "response": response}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    return Handler
