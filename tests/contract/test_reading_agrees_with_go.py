"""kubextend reads odd bodies as Go's encoding/json does, apart from a listed set of differences.

The bodies and Go's verdict on each are in tests/data/corpus, written by tests/go/contract/record.
"""

import base64
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kubextend import core

CORPUS = Path(__file__).resolve().parents[1] / "data" / "corpus"
UNREAD = "accepted: wrong type in a field that is not read"
DELIBERATE = {
    "refused: trailing bytes",
    "refused: invalid UTF-8",
    "refused: deeper than 128",
    "refused: nodes given twice",
    UNREAD,
}
Record = dict[str, Any]


def corpus(kind: str) -> list[Record]:
    lines = (CORPUS / f"{kind}.jsonl").read_text().split("\n")
    return [json.loads(line) for line in lines if line]


def body_of(record: Record) -> bytes:
    if "bodyBase64" in record:
        return base64.b64decode(record["bodyBase64"])
    return str(record.get("body", "")).encode()


def by_name(kind: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("record", [pytest.param(r, id=r["name"]) for r in corpus(kind)])


# What Go calls it, and what kubextend does.
OF_POD = {name: name for name in ("name", "namespace", "uid", "labels", "annotations", "priority")}
OF_POD |= {name: name for name in ("overhead", "requests", "phase")}
OF_POD |= {"schedulerName": "scheduler_name", "nodeName": "node_name", "qosClass": "qos_class"}
OF_POD |= {"nodeSelector": "node_selector", "gates": "scheduling_gates"}
OF_POD |= {"nominatedNode": "nominated_node_name"}
CONTAINERS = {"containers": "containers", "initContainers": "init_containers"}
OF_CONTAINER = ("name", "requests", "limits", "sidecar")
OF_EXPRESSION = ("key", "operator", "values")
ZERO = {"value": 0, "milliValue": 0}


def pod_view(pod: core.Pod | None) -> Record | None:
    if pod is None:
        return None
    terms = pod.required_terms
    times = (pod.creation_timestamp or None, pod.deletion_timestamp, pod.start_time)
    containers = {
        name: [{of: getattr(each, of) for of in OF_CONTAINER} for each in getattr(pod, ours)]
        for name, ours in CONTAINERS.items()
    }
    return {
        **{name: getattr(pod, ours) for name, ours in OF_POD.items()},
        **containers,
        "tolerations": [list(toleration) for toleration in pod.tolerations],
        "requiredTerms": None if terms is None else [term_view(*term) for term in terms],
        "times": [time is not None for time in times],
    }


def term_view(*lists: list[tuple[str, str, list[str]]]) -> Record:
    parts = [[dict(zip(OF_EXPRESSION, each, strict=True)) for each in part] for part in lists]
    return dict(zip(("expressions", "fields"), parts, strict=True))


def expected_pod(view: Record | None) -> Record | None:
    """What Go read; kubextend says the default's name where no scheduler is named."""
    if view is None:
        return None
    named = {"schedulerName": view["schedulerName"] or "default-scheduler"}
    containers = {name: [in_our_units(each) for each in view[name]] for name in CONTAINERS}
    return in_our_units(view) | named | containers


def in_our_units(view: Record) -> Record:
    """Cpu in milli, everything else in whole units."""
    amounts = {of: view[of] for of in ("overhead", "requests", "limits") if of in view}
    return view | {
        of: {name: whole(name, amount) for name, amount in named.items()}
        for of, named in amounts.items()
    }


def whole(name: str, amount: Record) -> int:
    return int(amount["milliValue" if name == "cpu" else "value"])


def nodes_view(nodes: core.Nodes, like: list[Record]) -> list[Record]:
    """Of every node what Go shows; labels and resources are asked for by every key of any node."""
    keys = {key for node in like for key in node["labels"]}
    resources = {name for node in like for name in node["allocatable"]}
    labels = {key: nodes.labels(key) for key in keys}
    amounts = {name: list(nodes.allocatable(name)) for name in resources}
    return [
        {
            "name": name,
            "labels": {k: values[i] for k, values in labels.items() if values[i] is not None},
            "taints": [list(taint) for taint in nodes.taints[i]],
            "unschedulable": nodes.unschedulable[i],
            "allocatable": {name: amount[i] for name, amount in amounts.items()},
        }
        for i, name in enumerate(nodes.names)
    ]


def expected_nodes(nodes: list[Record]) -> list[Record]:
    """Go's view in our units; absent resources are 0."""
    resources = {name for node in nodes for name in node["allocatable"]}
    return [
        {**node, "allocatable": {r: whole(r, node["allocatable"].get(r, ZERO)) for r in resources}}
        for node in nodes
    ]


def refuses(read: Callable[[bytes], object], record: Record) -> bool:
    """Whether the body is refused, which must be so if Go refuses it or the list says so."""
    deliberate = record.get("deliberate", "")
    assert deliberate in DELIBERATE | {""}
    body = body_of(record)
    if deliberate == UNREAD:
        read(body)
        return True
    if deliberate or "error" in record:
        with pytest.raises(core.WireError, match=r"^byte \d+: "):
            read(body)
        return True
    return False


@by_name("args")
def test_filter_arguments_are_read_as_go_reads_them(record: Record) -> None:
    if refuses(core.read_args, record):
        return
    args = core.read_args(body_of(record))
    go = record["view"]
    assert pod_view(args.pod) == expected_pod(go["pod"])
    if go["nodes"] is None and go["nodeNames"] is None:
        assert args.nodes is None
        return
    if args.names_mode:
        assert args.nodes.names == go["nodeNames"]
    else:
        assert nodes_view(args.nodes, go["nodes"]) == expected_nodes(go["nodes"])


@by_name("preemption")
def test_preemption_arguments_are_read_as_go_reads_them(record: Record) -> None:
    if refuses(core.read_preemption_args, record):
        return
    args = core.read_preemption_args(body_of(record))
    candidates = zip(args.nodes.names, args.victims, strict=True)
    shown = {name: {"uids": uids, "pdbViolations": pdb} for name, (uids, pdb) in candidates}
    assert len(shown) == len(args.nodes)
    assert pod_view(args.pod) == expected_pod(record["view"]["pod"])
    assert shown == record["view"]["candidates"]


@by_name("binding")
def test_binding_arguments_are_read_as_go_reads_them(record: Record) -> None:
    if refuses(core.read_binding_args, record):
        return
    args = core.read_binding_args(body_of(record))
    of_pod = {"podName": args.pod_name, "podNamespace": args.pod_namespace, "podUID": args.pod_uid}
    assert {**of_pod, "node": args.node} == record["view"]


def test_the_corpus_holds_what_it_is_meant_to_hold() -> None:
    records = [r for kind in ("args", "preemption", "binding") for r in corpus(kind)]
    deliberate = Counter(r["deliberate"] for r in records if "deliberate" in r)
    plain = [r for r in records if "deliberate" not in r]
    assert len(corpus("args")) >= 220
    assert set(deliberate) == DELIBERATE
    assert sum("error" in r for r in plain) >= 100
    assert sum("view" in r for r in plain) >= 100
