"""`kubextend why --service` reaches kubextend through the Kubernetes API server.

kube-apiserver is real; of a kubelet there is what passes on the bytes of a port.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from .controlplane import ControlPlane
from .kubeapi import NewPool, Object, node, pod
from .kubelet import Kubelet
from .manifests import apply, grant
from .stack import HIGH_COMM, Mode, NewStack, Stack, refused_kubextend, run_kubextend
from .workbench import until

NAMESPACE = "why-service"
NODE = "why-service-kubelet"
REPLICAS = ["kubextend-0", "kubextend-1"]


def rule(group: str, resource: str, *verbs: str) -> Object:
    return {"apiGroups": [group], "resources": [resource], "verbs": verbs}


READS = [
    rule("", "pods", "get"),
    rule("", "events", "list"),
    rule("discovery.k8s.io", "endpointslices", "list"),
]
FORWARDS = [rule("", "pods/portforward", "get", "create")]


@pytest.fixture(scope="module")
def kubelet(control_plane: ControlPlane) -> Iterator[Kubelet]:
    port = control_plane.bench.free_port()
    made = node(NODE)
    made["status"]["addresses"] = [{"type": "InternalIP", "address": "127.0.0.1"}]
    made["status"]["daemonEndpoints"] = {"kubeletEndpoint": {"Port": port}}
    control_plane.api.create_nodes([made])
    with Kubelet(port, control_plane.authority.issue("kubelet")) as kubelet:
        yield kubelet
    control_plane.api.delete_node(NODE)


@pytest.fixture(scope="module")
def stack(
    control_plane: ControlPlane, new_stack: NewStack, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stack]:
    """Run a kubextend with TLS, and make a Service whose ready pods have its port."""
    token = tmp_path_factory.mktemp("why-service") / "token"
    token.write_text("reads-and-decides-nothing\n")
    api = control_plane.api
    api.create_namespace(NAMESPACE)
    api.create_pods(NAMESPACE, [pod(name, "none", nodeName=NODE) for name in REPLICAS])
    grant(api, "reads", "reader", READS, namespace=NAMESPACE)
    apply(api, endpoints())
    yield new_stack("why-service", Mode(tls=True), readers=token)
    api.delete_pods(NAMESPACE)


def endpoints() -> Object:
    labels = {"kubernetes.io/service-name": "kubextend"}
    ready = [
        {
            "addresses": [f"10.0.0.{number}"],
            "conditions": {"ready": True},
            "targetRef": {"kind": "Pod", "namespace": NAMESPACE, "name": name},
        }
        for number, name in enumerate(REPLICAS, 1)
    ]
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "kubextend-1", "namespace": NAMESPACE, "labels": labels},
        "addressType": "IPv4",
        "ports": [{"name": "https", "port": 8888}],
        "endpoints": ready,
    }


def options(stack: Stack, plane: ControlPlane, service: str = "kubextend") -> list[str | Path]:
    pair = stack.client_pair
    return [
        "why", "p", "-n", NAMESPACE, "--config", stack.config,
        "--service", f"{NAMESPACE}/{service}", "--cert-file", pair.cert, "--key-file", pair.key,
        "--kubeconfig", plane.kubeconfig("reader"),
    ]  # fmt: skip


def test_why_asks_the_pods_of_a_service_through_the_api_server(
    stack: Stack, control_plane: ControlPlane, kubelet: Kubelet, new_pool: NewPool
) -> None:
    api = control_plane.api
    pool = new_pool("why-service", 1)
    api.create_pods(NAMESPACE, [pod("p", stack.scheduler_name, pool.name, HIGH_COMM)])
    until(lambda: stack.attempts("unschedulable"), "the pod is tried")
    ask = options(stack, control_plane)
    assert "resources: [pods/portforward]" in run_kubextend(*ask)
    grant(api, "forwards", "reader", FORWARDS, namespace=NAMESPACE)
    until(lambda: "kubextend rejected 1 node" in run_kubextend(*ask), "kubextend is asked")
    assert set(kubelet.asked) <= {f"/portForward/{NAMESPACE}/{name}" for name in REPLICAS}
    printed = run_kubextend(*ask, "--node", pool.names[0])
    assert f"node {pool.names[0]}: rejected by HighCommPodFilter" in printed
    said = refused_kubextend(*options(stack, control_plane, "absent"))
    assert f"the Service {NAMESPACE}/absent has no ready pod, or does not exist" in said
