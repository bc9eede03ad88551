"""A small client of kube-apiserver, and the nodes and pods that the tests create with it."""

import contextlib
import json
import ssl
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any, Protocol, Self

import httpx

Object = dict[str, Any]
WRITERS = 12
POOL_LABEL = "e2e.kubextend.dev/pool"
RDMA_LABEL = "node.kubernetes.io/rdma-enabled"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
IMAGE = "registry.invalid/none"
# Fields of affinity.
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class _FixedProtocols(ssl.SSLContext):
    """A TLS context whose ALPN protocols nobody changes.

    httpx sets them for each connection, and OpenSSL frees what another thread of the client reads.
    """

    def set_alpn_protocols(self, alpn_protocols: Iterable[str]) -> None:
        """Offer none, as the servers of these tests speak HTTP/1.1 to such clients."""


def trusting(ca: Path) -> ssl.SSLContext:
    """Return a context for clients of many threads that trusts this CA and no other."""
    context = _FixedProtocols(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(ca)
    return context


class Api:
    """A client of kube-apiserver as one user; raises httpx.HTTPStatusError, with the reason.

    Args:
        url: the URL of kube-apiserver.
        ca: the file of the CA certificate to trust.
        token: the bearer token of the caller.
        acting_as: another user, whom the caller may impersonate.
        in_pod: the name of the pod in which the other user runs.
    """

    def __init__(
        self, url: str, ca: Path, token: str, acting_as: str = "", in_pod: str = ""
    ) -> None:
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        if acting_as:
            self._headers["Impersonate-User"] = acting_as
        if in_pod:
            # The token of a service account that the kubelet mounts has this field.
            field = "authentication.kubernetes.io%2fpod-name"
            self._headers[f"Impersonate-Extra-{field}"] = in_pod
        self._trust = trusting(ca)
        how: Object = {"verify": self._trust, "timeout": 120.0, "trust_env": False}
        self._client = httpx.Client(base_url=url, headers=self._headers, **how)
        self._writers = ThreadPoolExecutor(WRITERS)

    def close(self) -> None:
        self._writers.shutdown()
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        content_type: str = "application/json",
        **query: str,
    ) -> Object:
        content = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": content_type}
        answer = self._client.request(method, path, content=content, headers=headers, params=query)
        if answer.is_error:
            message = f"{method} {path}: {answer.status_code} {answer.text}"
            raise httpx.HTTPStatusError(message, request=answer.request, response=answer)
        return dict(answer.json())

    def refusal(
        self, method: str, path: str, body: object = None, content_type: str = "application/json"
    ) -> str:
        """Return why a request, which changes nothing, is refused; empty: it is not."""
        try:
            self.call(method, path, body, content_type, dryRun="All")
        except httpx.HTTPStatusError as refused:
            return str(refused)
        return ""

    def is_ready(self) -> bool:
        try:
            return self._client.get("/readyz").is_success
        except httpx.TransportError:
            return False

    def create_all(self, path: str, objects: Iterable[Object]) -> list[Object]:
        """Create objects over several connections; return the answers in the objects' order."""
        bodies = list(objects)
        made: list[Object] = [{} for _ in bodies]

        def create(first: int) -> None:
            # httpx, which the other calls use, takes more time than kube-apiserver.
            with contextlib.closing(self._connect()) as connection:
                for at in range(first, len(bodies), WRITERS):
                    made[at] = self._create(connection, path, bodies[at])

        list(self._writers.map(create, range(min(WRITERS, len(bodies)))))
        return made

    def _connect(self) -> HTTPSConnection:
        url = self._client.base_url
        return HTTPSConnection(url.host, url.port, timeout=120.0, context=self._trust)

    def _create(self, connection: HTTPSConnection, path: str, body: Object) -> Object:
        connection.request("POST", path, json.dumps(body), self._headers)
        answer = connection.getresponse()
        text = answer.read()
        assert answer.status == HTTPStatus.CREATED, text
        return dict(json.loads(text))

    def items(self, path: str, **query: str) -> list[Object]:
        return list(self.call("GET", path, **query)["items"])

    def changes(self, path: str, since: str, **query: str) -> Iterator[Object]:
        """Yield the watch events of a path after a resourceVersion, in the API's order."""
        query = {"watch": "true", "resourceVersion": since, **query}
        with self._client.stream("GET", path, params=query, timeout=None) as answer:
            yield from map(json.loads, answer.iter_lines())

    def create_namespace(self, name: str, labels: Mapping[str, str] | None = None) -> str:
        metadata = {"name": name, "labels": dict(labels or {})}
        self.call("POST", "/api/v1/namespaces", {"metadata": metadata})
        return name

    def create_pods(self, namespace: str, pods: Iterable[Object]) -> list[Object]:
        return self.create_all(f"/api/v1/namespaces/{namespace}/pods", pods)

    def pods(self, namespace: str, **query: str) -> list[Object]:
        return self.items(f"/api/v1/namespaces/{namespace}/pods", **query)

    def pod(self, namespace: str, name: str) -> Object:
        return self.call("GET", f"/api/v1/namespaces/{namespace}/pods/{name}")

    def delete_pod(self, namespace: str, name: str) -> None:
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        self.call("DELETE", path, {"gracePeriodSeconds": 0})

    def delete_pods(self, namespace: str) -> None:
        # Without grace period, which no kubelet would end.
        path = f"/api/v1/namespaces/{namespace}/pods"
        self.call("DELETE", path, {"gracePeriodSeconds": 0})

    def create_nodes(self, nodes: Iterable[Object]) -> list[Object]:
        return self.create_all("/api/v1/nodes", nodes)

    def label_node(self, name: str, labels: Mapping[str, str | None]) -> Object:
        """Set labels of a node; the value None removes a label."""
        patch = {"metadata": {"labels": dict(labels)}}
        return self.call("PATCH", f"/api/v1/nodes/{name}", patch, MERGE)

    def label_nodes(self, names: Iterable[str], labels: Mapping[str, str | None]) -> None:
        list(self._writers.map(lambda name: self.label_node(name, labels), names))

    def delete_node(self, name: str) -> None:
        self.call("DELETE", f"/api/v1/nodes/{name}", {"gracePeriodSeconds": 0})


class NodePool:
    """Nodes for one test: the test's pods select them, so that nodes of other tests do not count.

    Args:
        api: the client with which the nodes are created.
        name: the name of the pool, with which the names of its nodes begin.
        size: how many nodes.
        cpu: the CPU of each node.
        pods: how many pods each node takes.
        born_with: a label, its value, and the numbers of the nodes that have it from the start: one
            that is set later may not be seen yet when the next pod comes.
    """

    def __init__(
        self,
        api: Api,
        name: str,
        size: int,
        cpu: str = "32",
        pods: int = 500,
        born_with: tuple[str, str, Iterable[int]] = ("", "", ()),
    ) -> None:
        self._api = api
        self.name = name
        self.names = [f"{name}-{i:04}" for i in range(size)]
        key, value, chosen = born_with
        self.chosen = [self.names[i] for i in chosen]
        labels = {n: {POOL_LABEL: name} for n in self.names}
        labels |= {n: {POOL_LABEL: name, key: value} for n in self.chosen}
        api.create_nodes(node(n, labels[n], cpu, pods) for n in self.names)

    def enable_rdma(self, *names: str) -> None:
        """Label exactly these nodes and no other as able to do RDMA."""
        self.label_only(RDMA_LABEL, "true", *names)

    def label_only(self, key: str, value: str, *names: str) -> None:
        """Give the label to these nodes of the pool, and take it from all others."""
        labelled = f"{POOL_LABEL}={self.name},{key}"
        found = self._api.items("/api/v1/nodes", labelSelector=labelled)
        now = {each["metadata"]["name"] for each in found}
        self._api.label_nodes(now - {*names}, {key: None})
        self._api.label_nodes({*names} - now, {key: value})

    def delete(self) -> None:
        selector = f"{POOL_LABEL}={self.name}"
        self._api.call("DELETE", "/api/v1/nodes", labelSelector=selector)


class NewPool(Protocol):
    """Makes a ``NodePool`` for one test; ``api`` is that of another control plane."""

    def __call__(self, name: str, size: int, **how: Any) -> NodePool: ...


def node(
    name: str, labels: Mapping[str, str] | None = None, cpu: str = "32", pods: int = 500
) -> Object:
    """Make a ready node that takes at most ``pods`` pods."""
    capacity = {"cpu": cpu, "memory": "64Gi", "pods": str(pods), "ephemeral-storage": "100Gi"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "status": {
            "capacity": capacity,
            "allocatable": capacity,
            "conditions": [{"type": "Ready", "status": "True", "reason": "E2E"}],
        },
    }


def container(**resources: Mapping[str, str]) -> Object:
    """Make a container with these ``requests`` and ``limits``."""
    return {"name": "c", "image": IMAGE, "resources": resources}


def pod(
    name: str,
    scheduler: str,
    pool: str = "",
    labels: Mapping[str, str] | None = None,
    *,
    cpu: str = "10m",
    priority_class: str = "",
    **spec: Any,
) -> Object:
    """Make a pod with this scheduler name that selects the nodes of a pool, if it has a name.

    A name that ends with ``-`` gets a unique end. ``spec`` are further fields of the spec, and
    labels of the nodeSelector.
    """
    selector = {**({POOL_LABEL: pool} if pool else {}), **spec.pop("nodeSelector", {})}
    own: Object = {
        "schedulerName": scheduler,
        "terminationGracePeriodSeconds": 0,
        "containers": [container(requests={"cpu": cpu})],
        **({"nodeSelector": selector} if selector else {}),
        **({"priorityClassName": priority_class} if priority_class else {}),
    }
    named = {"generateName" if name.endswith("-") else "name": name}
    return {"metadata": {**named, "labels": dict(labels or {})}, "spec": {**own, **spec}}


def gated(pod: Object, *gates: str) -> Object:
    """Return a pod with further scheduling gates behind its own."""
    every = [*pod["spec"].get("schedulingGates", []), *({"name": name} for name in gates)]
    return {**pod, "spec": {**pod["spec"], "schedulingGates": every}}


def placed_on(pods: Sequence[Object]) -> dict[str, str]:
    """Return the node of each pod that has one, by the pod's name."""
    return {p["metadata"]["name"]: n for p in pods if (n := p["spec"].get("nodeName"))}


def condition(pod: Object, kind: str) -> Object:
    """Return the condition of this type of a pod; empty: the pod does not have it."""
    conditions = pod.get("status", {}).get("conditions") or []
    return next((c for c in conditions if c["type"] == kind), {})
