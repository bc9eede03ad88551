"""The door of the core: requests as kube-scheduler writes them, stores, nodes and pods."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from kubextend import core

Json = dict[str, Any]


def compact(value: object) -> bytes:
    """Return the JSON of a value without white space, as Go writes JSON."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def node(name: str, labels: Mapping[str, str] | None = None, **more: Any) -> Json:
    return {"metadata": {"name": name, "labels": dict(labels or {})}, **more}


def node_with_room(name: str, labels: Mapping[str, str] | None = None, **allocatable: str) -> Json:
    return node(name, labels, status={"allocatable": allocatable})


def container(name: str = "c", *, limits: Mapping[str, str] | None = None, **requests: str) -> Json:
    return {"name": name, "resources": {"requests": requests, "limits": dict(limits or {})}}


def pod(
    name: str,
    *,
    uid: str | None = None,
    node: str | None = None,
    phase: str = "Pending",
    spec: Json | None = None,
    **more: Any,
) -> Json:
    """Return a v1.Pod that requests 100m of CPU; its ``uid`` is its name by default."""
    bound = {} if node is None else {"nodeName": node}
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": name if uid is None else uid},
        "spec": {"containers": [container(cpu="100m")], **bound, **(spec or {})},
        "status": {"phase": phase},
        **more,
    }


def full(nodes: Sequence[Json], of_pod: Json | None = None) -> bytes:
    """Return a request with whole nodes."""
    return compact({"Pod": of_pod, "Nodes": {"metadata": {}, "items": nodes}, "NodeNames": None})


def names(wanted: Sequence[str | None], of_pod: Json | None = None) -> bytes:
    """Return a request with the names of nodes."""
    return compact({"Pod": of_pod, "Nodes": None, "NodeNames": wanted})


def listed(items: Sequence[Json], version: str = "7", token: str = "") -> bytes:
    """Return a page of a list; a ``token`` leads to the next one."""
    meta = {"resourceVersion": version, "continue": token}
    return compact({"metadata": meta, "items": items})


def event(kind: str, shown: Json) -> bytes:
    return compact({"type": kind, "object": shown})


def nodes_of(*nodes: Json) -> core.Nodes:
    """Return the nodes of a request with whole nodes."""
    found = core.read_args(full(nodes)).nodes
    assert found is not None
    return found


def read(shown: Json) -> core.Pod:
    """Return the pod of a request."""
    found = core.read_args(names([], shown)).pod
    assert found is not None
    return found


def pod_of(labels: Mapping[str, str] | None = None, **spec: Any) -> core.Pod:
    """Return a pod with labels and a spec, and nothing else."""
    meta = {"name": "p", "namespace": "ns", "uid": "u-1", "labels": dict(labels or {})}
    return read({"metadata": meta, "spec": spec})


def node_store(*nodes: Json) -> core.NodeStore:
    store = core.NodeStore()
    store.replace(listed(nodes))
    return store


def pod_store(*pods: Json) -> core.PodStore:
    store = core.PodStore()
    store.replace(listed(pods))
    return store
