"""Makes pods, nodes and events as the API writes them, for the tests of the core's stores."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from kubextend import core

Json = dict[str, Any]


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


def event(kind: str, shown: Json) -> bytes:
    return json.dumps({"type": kind, "object": shown}).encode()


def listed(items: Sequence[Json], version: str = "7", token: str = "") -> bytes:
    meta = {"resourceVersion": version, "continue": token}
    return json.dumps({"metadata": meta, "items": list(items)}).encode()


def read(shown: Json) -> core.Pod:
    """Return the ``core.Pod`` that the core reads from a request with this pod."""
    found = core.read_args(json.dumps({"Pod": shown, "NodeNames": []}).encode()).pod
    assert found is not None
    return found


def node(name: str, labels: Mapping[str, str] | None = None, **allocatable: str) -> Json:
    return {
        "metadata": {"name": name, "labels": dict(labels or {})},
        "status": {"allocatable": allocatable},
    }


def node_store(*nodes: Json) -> core.NodeStore:
    store = core.NodeStore()
    store.replace(listed(nodes))
    return store


def pod_store(*pods: Json) -> core.PodStore:
    store = core.PodStore()
    store.replace(listed(pods))
    return store
