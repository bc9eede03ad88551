"""Makes pods and nodes for tests from keyword arguments: as manifests, or as core objects.

The Rust core parses each manifest as JSON, as in a cluster, so plugins see the same fields.
"""

import itertools
import json
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Generic, TypeAlias, TypeVar

from kubextend import core
from kubextend.framework.handle import MAX_POD_BYTES
from kubextend.framework.kept_parts import ALL_PARTS, KeptParts

__all__ = [
    "Manifest",
    "NodeLike",
    "NodesLike",
    "PodLike",
    "list_of",
    "make_node",
    "make_nodes",
    "make_pod",
    "manifest_of",
    "manifests_of_nodes",
    "node_manifest",
    "node_store",
    "pod_manifest",
    "pod_manifest_of",
    "pod_of",
    "pod_store",
]

Manifest: TypeAlias = Mapping[str, Any]
PodLike: TypeAlias = core.Pod | Manifest
"""A pod of ``make_pod``, or a manifest as ``kubectl get -o json`` prints it."""
NodeLike: TypeAlias = core.NodeInfo | Manifest | str
"""A node of ``make_node``, a manifest, or the name of a node with the defaults."""
NodesLike: TypeAlias = core.Nodes | Mapping[str, Mapping[str, str]] | Iterable[NodeLike] | int
"""The nodes that ``make_nodes`` returned, or any first argument that ``make_nodes`` takes."""

_Made = TypeVar("_Made", core.Pod, core.NodeInfo, core.Nodes)
_Origin = TypeVar("_Origin")

_ALLOCATABLE: Final = {"cpu": "4", "memory": "16Gi", "pods": "110"}
_KEPT: Final = 20_000


class _Origins(Generic[_Made, _Origin]):
    """Remembers from which manifests the last 20,000 pods or nodes of the Rust core were made."""

    def __init__(self, maker: str) -> None:
        self._maker = maker
        # The object is kept too, so that no other object gets its id.
        self._kept: OrderedDict[int, tuple[_Made, _Origin]] = OrderedDict()

    def keep(self, made: _Made, origin: _Origin) -> _Made:
        self._kept[id(made)] = (made, origin)
        if len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return made

    def of(self, made: _Made) -> _Origin:
        try:
            return self._kept[id(made)][1]
        except KeyError:
            message = f"{made!r} was not made by {self._maker}, or long ago: give its manifest"
            raise ValueError(message) from None


# An object of the core carries no attribute of ours, so the module keeps this state.
_PODS: Final = _Origins[core.Pod, Manifest]("make_pod")
_NODE_INFOS: Final = _Origins[core.NodeInfo, Manifest]("make_node")
_NODES: Final = _Origins[core.Nodes, tuple[Manifest, ...]]("make_nodes")
_NUMBERS: Final = itertools.count(1)


def pod_manifest(  # noqa: PLR0913  one keyword for each thing that plugins read
    name: str = "pod",
    *,
    namespace: str = "default",
    uid: str | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    requests: Mapping[str, str | int] | None = None,
    node_name: str = "",
    scheduler_name: str = "default-scheduler",
    priority: int | None = None,
    creation_timestamp: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """Return the manifest of a pod as the Kubernetes API shows it.

    Args:
        name: name of the pod.
        namespace: namespace of the pod.
        uid: UID of the pod; by default a new one, so that no two pods are equal by accident.
        labels: labels of the pod.
        annotations: annotations of the pod.
        requests: requests of the pod's one container: ``{"cpu": "500m", "memory": "1Gi"}``.
        node_name: the node that the pod is bound to; empty: pending.
        scheduler_name: name of the pod's scheduler.
        priority: priority of the pod, as a number.
        creation_timestamp: a time such as ``2030-01-01T00:00:00Z``.
        metadata: any other fields of ``metadata``: ``{"ownerReferences": [...]}``.
        status: any fields of ``status``: ``{"conditions": [...]}``.
        **spec: any other field of ``spec`` under its own name: ``tolerations=[...]``,
            ``affinity={...}``, ``volumes=[...]``, ``initContainers=[...]``.

    Raises: TypeError: a keyword is no name of a field.
    """
    _check_names(spec, "spec of a pod")
    container: dict[str, Any] = {"name": "main", "image": "example.com/main:1"}
    if requests:
        container["resources"] = {"requests": dict(requests)}
    of_object = {
        "name": name,
        "namespace": namespace,
        "uid": uid or f"uid-{next(_NUMBERS)}-of-{name}",
        "labels": labels and dict(labels),
        "annotations": annotations and dict(annotations),
        "creationTimestamp": creation_timestamp,
    }
    fields = {
        "containers": [container],
        "schedulerName": scheduler_name,
        "nodeName": node_name or None,
        "priority": priority,
    }
    return {
        "metadata": _without_nothing(of_object) | dict(metadata or {}),
        "spec": _without_nothing(fields) | spec,
        "status": {"phase": "Running" if node_name else "Pending"} | dict(status or {}),
    }


def node_manifest(  # noqa: PLR0913  one keyword for each thing that plugins read
    name: str = "node",
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    allocatable: Mapping[str, str | int] | None = None,
    taints: Iterable[str | tuple[str, str, str]] = (),
    unschedulable: bool = False,
    provider_id: str = "",
    **status: Any,
) -> dict[str, Any]:
    """Return the manifest of a node as the Kubernetes API shows it.

    Args:
        name: name of the node, and the value of its label ``kubernetes.io/hostname``.
        labels: further labels of the node.
        annotations: annotations of the node.
        allocatable: replaces or adds single amounts, as in ``{"nvidia.com/gpu": "8"}``; by default
            a node has 4 cores, 16Gi of memory and 110 pods.
        taints: ``key=value:NoSchedule`` or ``(key, value, effect)`` each.
        unschedulable: whether the node is cordoned.
        provider_id: the node's ``spec.providerID``.
        **status: any other field of ``status`` under its own name: ``conditions=[...]``,
            ``images=[...]``, ``addresses=[...]``, ``nodeInfo={...}``.

    Raises: TypeError: a keyword is no name of a field.
    """
    _check_names(status, "status of a node")
    metadata = {
        "name": name,
        "uid": f"uid-of-{name}",
        "labels": {"kubernetes.io/hostname": name} | dict(labels or {}),
        "annotations": annotations and dict(annotations),
    }
    fields = {
        "taints": [_taint(taint) for taint in taints] or None,
        "unschedulable": unschedulable or None,
        "providerID": provider_id or None,
    }
    amounts = _ALLOCATABLE | {key: str(value) for key, value in (allocatable or {}).items()}
    return {
        "metadata": _without_nothing(metadata),
        "spec": _without_nothing(fields),
        "status": {"allocatable": amounts, "capacity": amounts} | status,
    }


def _check_names(fields: Iterable[str], what: str) -> None:
    """Refuse a keyword with an underscore, such as ``node_selector``: no field has one."""
    for name in fields:
        if "_" in name:
            first, *others = name.split("_")
            camel = first + "".join(map(str.capitalize, others))
            message = f"the {what} has no field {name}: say {camel}, or use a keyword of ours"
            raise TypeError(message)


def make_pod(name: str = "pod", **fields: Any) -> core.Pod:
    """Make a ``core.Pod`` from keywords such as ``labels``: those of ``pod_manifest``."""
    return pod_of(pod_manifest(name, **fields))


def pod_of(manifest: Manifest) -> core.Pod:
    """Return the ``core.Pod`` that the Rust core parses from a pod's manifest."""
    body = json.dumps({"Pod": manifest, "Nodes": None, "NodeNames": []}).encode()
    pod = core.read_args(body, watched=core.NodeStore(**ALL_PARTS)).pod
    if pod is None:
        message = f"the core reads no pod from {manifest}"
        raise ValueError(message)
    return _PODS.keep(pod, manifest)


def make_node(name: str = "node", *, pods: Iterable[PodLike] = (), **fields: Any) -> core.NodeInfo:
    """Make a ``core.NodeInfo`` with pods on the node, from keywords of ``node_manifest``."""
    manifest = node_manifest(name, **fields)
    placed = [_bound(pod_manifest_of(pod), name) for pod in pods]
    node = node_store([manifest]).get(name, pod_store(placed).snapshot())
    if node is None:
        message = f"the core reads no node from {manifest}"
        raise ValueError(message)
    return _NODE_INFOS.keep(node, manifest)


def make_nodes(nodes: NodesLike = 3, **fields: Any) -> core.Nodes:
    """Make a ``core.Nodes`` of several nodes, in the order given.

    Args:
        nodes: a number of nodes with the names ``node-0`` and so on; or labels by name, ``{"a":
            {"zone": "east"}, "b": {}}``; or names, manifests and nodes of ``make_node``.
        **fields: keywords of ``node_manifest`` for every node that is not given as a manifest or
            made before.
    """
    if isinstance(nodes, core.Nodes):
        return nodes
    manifests = manifests_of_nodes(nodes, **fields)
    names = [manifest["metadata"]["name"] for manifest in manifests]
    body = json.dumps({"Pod": {}, "Nodes": None, "NodeNames": names}).encode()
    made = core.read_args(body, watched=node_store(manifests)).nodes
    if made is None:
        message = f"the core reads no nodes from {names}"
        raise ValueError(message)
    return _NODES.keep(made, tuple(manifests))


def pod_manifest_of(pod: PodLike) -> Manifest:
    """Return the manifest that a pod was made from, or a given manifest unchanged."""
    return _PODS.of(pod) if isinstance(pod, core.Pod) else pod


def manifest_of(thing: core.Pod | core.NodeInfo | Manifest) -> tuple[str, Manifest]:
    """Return the kind of a pod or a node, ``Pod`` or ``Node``, and its manifest.

    Args:
        thing: a pod of ``make_pod``, a node of ``make_node``, or a manifest with its ``kind``.

    Raises: ValueError: a manifest is no Pod and no Node.
    """
    if isinstance(thing, core.Pod):
        return "Pod", _PODS.of(thing)
    if isinstance(thing, core.NodeInfo):
        return "Node", _NODE_INFOS.of(thing)
    kind = thing.get("kind")
    if kind not in {"Pod", "Node"}:
        message = f"kind is {kind!r}: give make_pod(...), make_node(...), or a manifest of these"
        raise ValueError(message)
    return kind, thing


def manifests_of_nodes(nodes: NodesLike, **fields: Any) -> Sequence[Manifest]:
    """Return the manifests of nodes in any form; ``fields`` holds keywords of ``node_manifest``."""
    if isinstance(nodes, core.Nodes):
        return _NODES.of(nodes)
    if isinstance(nodes, int):
        return [node_manifest(f"node-{number}", **fields) for number in range(nodes)]
    if isinstance(nodes, Mapping):
        common = dict(fields.pop("labels", None) or {})
        return [
            node_manifest(name, labels=common | dict(labels), **fields)
            for name, labels in nodes.items()
        ]
    return [_node_manifest_of(node, fields) for node in nodes]


def node_store(manifests: Iterable[Manifest], parts: KeptParts = ALL_PARTS) -> core.NodeStore:
    """Return a ``core.NodeStore`` with the nodes of these manifests, filled as by a list call.

    Args:
        manifests: the nodes.
        parts: the optional parts of nodes that the store keeps.
    """
    store = core.NodeStore(**parts)
    store.replace(list_of("Node", manifests))
    return store


def pod_store(manifests: Iterable[Manifest], parts: KeptParts = ALL_PARTS) -> core.PodStore:
    """Return a ``core.PodStore`` with these pods, filled as by a list call.

    The store leaves out large fields of large pods, as kubextend does in a cluster.

    Args:
        manifests: the pods.
        parts: the optional parts of pods that the store keeps.
    """
    store = core.PodStore(max_pod_bytes=MAX_POD_BYTES, **parts)
    store.replace(list_of("Pod", manifests))
    return store


def list_of(kind: str, manifests: Iterable[Manifest]) -> bytes:
    """Return the JSON of a list of objects as the Kubernetes API writes it.

    Args:
        kind: the kind of the objects, ``Node`` or ``Pod``.
        manifests: the objects.
    """
    metadata = {"resourceVersion": "1"}
    listed = {"kind": f"{kind}List", "apiVersion": "v1", "metadata": metadata}
    return json.dumps(listed | {"items": list(manifests)}).encode()


def _bound(manifest: Manifest, node: str) -> Manifest:
    return {**manifest, "spec": {**manifest.get("spec", {}), "nodeName": node}}


def _node_manifest_of(node: NodeLike, fields: dict[str, Any]) -> Manifest:
    if isinstance(node, str):
        return node_manifest(node, **fields)
    return _NODE_INFOS.of(node) if isinstance(node, core.NodeInfo) else node


def _taint(taint: str | tuple[str, str, str]) -> dict[str, str]:
    if isinstance(taint, tuple):
        key, value, effect = taint
    else:
        pair, _, effect = taint.rpartition(":")
        key, _, value = pair.partition("=")
    return {"key": key, "value": value, "effect": effect}


def _without_nothing(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}
