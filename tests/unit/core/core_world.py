"""Makes requests as kube-scheduler writes them, and core objects, from Python values."""

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


def pod(labels: Mapping[str, str] | None = None, **spec: Any) -> Json:
    meta = {"name": "p", "namespace": "ns", "uid": "u-1", "labels": dict(labels or {})}
    return {"metadata": meta, "spec": spec}


def full(nodes: Sequence[Json], of_pod: Json | None = None) -> bytes:
    return compact({"Pod": of_pod, "Nodes": {"metadata": {}, "items": nodes}, "NodeNames": None})


def names(wanted: Sequence[str | None], of_pod: Json | None = None) -> bytes:
    return compact({"Pod": of_pod, "Nodes": None, "NodeNames": wanted})


def node_list(nodes: Sequence[Json], version: str = "7", token: str = "") -> bytes:
    meta = {"resourceVersion": version, "continue": token}
    return compact({"kind": "NodeList", "metadata": meta, "items": nodes})


def event(kind: str, of_node: Json) -> bytes:
    return compact({"type": kind, "object": of_node})


def nodes_of(*nodes: Json) -> core.Nodes:
    found = core.read_args(full(nodes)).nodes
    assert found is not None
    return found


def pod_of(labels: Mapping[str, str] | None = None, **spec: Any) -> core.Pod:
    found = core.read_args(names([], pod(labels, **spec))).pod
    assert found is not None
    return found


def watched(*nodes: Json) -> core.NodeStore:
    store = core.NodeStore()
    store.replace(node_list(nodes))
    return store
