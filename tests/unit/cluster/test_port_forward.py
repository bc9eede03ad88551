"""Ports of pods through a Kubernetes API that refuses them, or that does not answer."""

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from kubextend import cluster
from kubextend.cluster import port_forward
from kubextend.cluster.api_call import Call
from kubextend.cluster.client import Cluster
from kubextend.errors import ClusterError


def connected(folder: Path, port: int) -> Cluster:
    file = folder / "kubeconfig"
    config = {
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    }
    file.write_text(json.dumps(config))
    return cluster.connect(str(file))


ANONYMOUS = (
    b'{"kind":"Status","message":"pods is forbidden: User \\"system:anonymous\\" cannot get"}'
)


@pytest.fixture(params=[403, 404, 4030])
def refusing(request: pytest.FixtureRequest) -> Iterator[HTTPServer]:
    class Refuses(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = ANONYMOUS if request.param > 1000 else b""
            self.send_response(403 if body else request.param)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Refuses) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        server.status = request.param  # type: ignore[attr-defined]
        yield server
        server.shutdown()
        thread.join()


def test_a_refusal_names_the_right_that_is_missing(
    refusing: HTTPServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A machine that is busy may take longer than the ten seconds that a user waits.
    monkeypatch.setattr(port_forward, "CALL_S", 60.0)
    api = connected(tmp_path, refusing.server_port)
    said = {
        403: r"resources: \[pods/portforward\]\n  verbs: \[get, create\]",
        404: "pod a/b cannot be reached through the Kubernetes API: status 404 Not Found",
        # No role helps who is nobody.
        4030: "pod a/b cannot be reached through the Kubernetes API: status 403 Forbidden$",
    }
    with pytest.raises(ClusterError, match=said[refusing.status]):  # type: ignore[attr-defined]
        cluster.port_of_pod(api, "a", "b", 8888)


def test_an_api_that_does_not_answer_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(port_forward, "CALL_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        api = connected(tmp_path, silent.getsockname()[1])
        with pytest.raises(ClusterError, match="did not open port 8888"):
            cluster.port_of_pod(api, "a", "b", 8888)


def test_a_service_is_named_by_names_alone(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="is no name of a Service"):
        cluster.ready_pods(connected(tmp_path, 9), "a", "b/../c")


class Slices:
    """Stands in for an API with an EndpointSlice."""

    def __init__(self, *endpoints: dict[str, Any]) -> None:
        self._endpoints = endpoints

    def request(self, _: Call) -> bytes:
        return json.dumps({"items": [{"endpoints": self._endpoints}]}).encode()


def endpoint(name: str, kind: str = "Pod", **conditions: bool) -> dict[str, Any]:
    return {"targetRef": {"kind": kind, "name": name}, "conditions": conditions}


def test_the_pods_of_a_service_are_those_that_are_ready_or_of_which_nothing_is_known() -> None:
    # The API's reference: "ready: a nil value should be interpreted as true".
    slices: Any = Slices(
        endpoint("unknown"),
        endpoint("not-ready", ready=False),
        endpoint("node", "Node", ready=True),
        endpoint("b", ready=True),
        endpoint("a", ready=True),
        {"conditions": {"ready": True}},
    )
    assert cluster.ready_pods(slices, "ns", "kubextend") == ["a", "b", "unknown"]
