"""Filter's answer leaves out rejected nodes where a node passes, if the configuration declares it.

The declaration is ``extender.lastFilter``: no entry with a filterVerb is called after kubextend's.
What kube-scheduler does with such answers is in tests/e2e/test_lean_answers.py.
"""

import asyncio
import json
import re
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from click.testing import CliRunner, Result

from kubextend import app, core, discovery
from kubextend.cli import main
from kubextend.testing import Cluster

RDMA = "node.kubernetes.io/rdma-enabled"
NO_RDMA = "Node does not support RDMA"
TOKEN = "0123456789abcdef"
# One plugin rejects for good, another where evicting pods may help, and a third scores.
PLUGINS = """
from kubextend.framework import Status


class Full:
    name = "Full"

    def filter(self, state, pod, node):
        return Status.unschedulable("node is full") if "full" in node.name else None


class Likes:
    name = "Likes"

    def score(self, state, pod, node):
        return 100 if "good" in node.name else 0
"""


def node(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {} if "plain" in name else {RDMA: "true"}}}


def pod(nominated: str | None = None) -> dict[str, Any]:
    metadata = {"name": "chatty", "namespace": "ml", "uid": "u1", "labels": {"high-comm": "x"}}
    status = {"nominatedNodeName": nominated} if nominated else {}
    return {"metadata": metadata, "spec": {"schedulerName": "default-scheduler"}, "status": status}


def configuration(
    folder: Path, monkeypatch: pytest.MonkeyPatch, extender: dict[str, Any], **more: Any
) -> Path:
    (folder / "full_nodes.py").write_text(PLUGINS)
    monkeypatch.syspath_prepend(folder)
    (folder / "token").write_text(TOKEN)
    filters = [{"name": "HighCommPodFilter"}, {"name": "Full"}]
    file = folder / "kubextend.yaml"
    tree = {
        "apiVersion": "kubextend.dev/v1alpha1",
        "kind": "ExtenderConfiguration",
        "server": {"decisions": {"tokenFile": str(folder / "token")}},
        "outOfTree": ["full_nodes:Full", "full_nodes:Likes"],
        "profiles": [
            {"schedulerName": "default-scheduler", "plugins": {"filter": {"enabled": filters}}}
        ],
        "extender": extender,
        **more,
    }
    file.write_text(yaml.safe_dump(tree))
    return file


def asked(file: Path, nodes: Iterable[str], nominated: str | None = None) -> list[Any]:
    """Return filter's answer, what the record says of the call and of each node, and counters."""
    listed = {"metadata": {}, "items": [node(name) for name in nodes]}
    request = {"Pod": pod(nominated), "Nodes": listed, "NodeNames": None}

    async def ask() -> list[Any]:
        transport = httpx.ASGITransport(app=app.create_app(discovery.load(file)))
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            answer = (await client.post("/filter", json=request)).json()
            reader = {"authorization": f"Bearer {TOKEN}"}
            record = (await client.get("/decisions?pod=ml/chatty", headers=reader)).json()
            rows = (await client.get("/decisions/u1/nodes", headers=reader)).json()["items"]
            metrics = (await client.get("/metrics")).text
            (call,) = record["attempts"][0]["calls"]
            counters = [line for line in metrics.splitlines() if re.search("_(total|count){", line)]
            return [answer, call["nodes"], rows, counters]

    return asyncio.run(ask())


FITS = ["plain", "full", "good", "plain-too", "good-too"]


def test_rejected_nodes_are_left_out_where_a_node_passes_and_nothing_else_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, *told_elsewhere = asked(configuration(tmp_path, monkeypatch, {}), FITS)
    lean, *elsewhere = asked(configuration(tmp_path, monkeypatch, {"lastFilter": True}), FITS)
    plain = dict.fromkeys(["plain", "plain-too"], NO_RDMA)
    assert told == {
        "Nodes": {"metadata": {}, "items": [node("good"), node("good-too")]},
        "NodeNames": None,
        "FailedNodes": {"full": "node is full"},
        "FailedAndUnresolvableNodes": plain,
        "Error": "",
    }
    assert lean == told | {"FailedNodes": None, "FailedAndUnresolvableNodes": None}
    assert elsewhere == told_elsewhere
    call, rows, counters = elsewhere
    assert [(each["reason"], each["nodes"]) for each in call["rejected"]] == [
        (NO_RDMA, 2),
        ("node is full", 1),
    ]
    reasons = {row["node"]: row["reason"] for row in rows}
    assert reasons == plain | {"full": "node is full", "good": "", "good-too": ""}
    assert any('result="feasible"' in line for line in counters)


@pytest.mark.parametrize(
    ("nodes", "nominated"),
    [(["plain", "full"], None), (["plain"], "plain"), (["full"], "full"), (["full"], None)],
)
def test_everything_is_told_where_no_node_passes(
    nodes: list[str], nominated: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lean = configuration(tmp_path, monkeypatch, {"lastFilter": True})
    answer = asked(lean, nodes, nominated)[0]
    assert answer == asked(configuration(tmp_path, monkeypatch, {}), nodes, nominated)[0]
    rejected = (answer["FailedNodes"] or {}) | (answer["FailedAndUnresolvableNodes"] or {})
    assert set(rejected) == set(nodes)


@pytest.mark.parametrize(
    ("nodes", "scores"),
    [(FITS, [0, 0, 10, 0, 10]), (["plain", "full"], [0, 0]), (["good", "good-too"], [10, 10])],
)
def test_prioritize_names_every_node_whatever_its_score(
    nodes: list[str], scores: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kube-scheduler from 1.35 on breaks ties by chance, among nodes that an answer names alone."""
    plugins = {"score": {"enabled": [{"name": "Likes"}]}}
    profiles = [{"schedulerName": "default-scheduler", "plugins": plugins}]
    file = configuration(tmp_path, monkeypatch, {"lastFilter": True}, profiles=profiles)
    request = {"Pod": pod(), "Nodes": {"items": [node(name) for name in nodes]}, "NodeNames": None}

    async def ask() -> Any:
        transport = httpx.ASGITransport(app=app.create_app(discovery.load(file)))
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            return (await client.post("/prioritize", json=request)).json()

    expected = dict(zip(nodes, scores, strict=True))
    assert asyncio.run(ask()) == [{"Host": of, "Score": each} for of, each in expected.items()]
    with Cluster(discovery.load(file), nodes=[node(name) for name in nodes]) as by_names:
        assert by_names.prioritize(pod()) == expected


def test_the_core_leaves_rejected_names_out_and_keeps_the_others_as_they_came() -> None:
    body = b'{"Pod":{"metadata":{}},"Nodes":null,"NodeNames":["a", "b","\\u0063","d"]}'
    args = core.read_args(body)
    rejected = [
        (core.Mask([True, False, False, False]), "for good", True),
        (core.Mask([False, False, False, True]), "full", False),
    ]
    assert args.filter_answer(rejected, told=False) == (
        b'{"Nodes":null,"NodeNames":["b","\\u0063"],"FailedNodes":null,'
        b'"FailedAndUnresolvableNodes":null,"Error":""}'
    )
    told = json.loads(args.filter_answer(rejected))
    assert (told["FailedNodes"], told["FailedAndUnresolvableNodes"]) == (
        {"d": "full"},
        {"a": "for good"},
    )


def test_a_test_and_the_filter_command_still_see_every_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = configuration(tmp_path, monkeypatch, {"lastFilter": True})
    with Cluster(discovery.load(file), nodes=[node(name) for name in FITS]) as cluster:
        result = cluster.filter(pod())
    assert result.kept == ("good", "good-too")
    assert result.rejected == dict.fromkeys(["plain", "plain-too"], NO_RDMA) | {
        "full": "node is full"
    }
    request = tmp_path / "request.json"
    listed = {"metadata": {}, "items": [node(name) for name in FITS]}
    request.write_text(json.dumps({"Pod": pod(), "Nodes": listed, "NodeNames": None}))
    printed = run("filter", request, "--config", file).stdout
    assert printed.count(NO_RDMA) == 2
    assert "node is full" in printed


def run(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


URL = "http://127.0.0.1:8888"
OTHER = {"urlPrefix": "http://other:1", "httpTimeout": "1s", "nodeCacheCapable": True}


@pytest.mark.parametrize(
    ("ignorable", "others", "first", "filters"), list(product([False, True], repeat=4))
)
def test_check_compares_the_declaration_with_the_order_of_kube_scheduler(
    ignorable: bool,
    others: bool,
    first: bool,
    filters: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The order is that of buildExtenders in kube-scheduler: the ignorable entries come last."""
    verb = {"filterVerb": "filter"} if filters else {"prioritizeVerb": "score", "weight": 1}
    other = OTHER | verb | {"ignorable": others}
    extender = {"ignorable": ignorable, "managedResources": [{"name": "a.b/c"}]}
    scheduler = tmp_path / "kube-scheduler.yaml"
    said = {}
    for declared in (False, True):
        file = configuration(tmp_path, monkeypatch, extender | {"lastFilter": declared})
        written = yaml.safe_load(run("scheduler-config", "--config", file).stdout)
        (ours,) = written["extenders"]
        written["extenders"] = [other, ours] if first else [ours, other]
        scheduler.write_text(yaml.safe_dump(written))
        said[declared] = run("check", file, "--scheduler", scheduler)
    placed = [ours, other] if not first else [other, ours]
    called = [each for each in placed if not each["ignorable"]]
    called += [each for each in placed if each["ignorable"]]
    filters_later = any("filterVerb" in each for each in called[called.index(ours) + 1 :])
    at = f"extenders[{placed.index(other)}].filterVerb: kube-scheduler calls http://other:1 after"
    assert (at in said[True].stderr) == filters_later
    assert said[True].exit_code == (1 if filters_later else 0)
    note = f"extenders[{placed.index(ours)}].filterVerb: called last"
    assert (note in said[False].stdout) == (not filters_later)
    assert said[False].exit_code == 0
    assert "called last" not in said[True].stdout


def test_the_doctor_names_the_entry_that_filters_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = configuration(tmp_path, monkeypatch, {"lastFilter": True})
    written = yaml.safe_load(run("scheduler-config", "--config", file).stdout)
    written["extenders"].insert(0, OTHER | {"filterVerb": "filter", "ignorable": True})
    scheduler = tmp_path / "kube-scheduler.yaml"
    scheduler.write_text(yaml.safe_dump(written))
    result = run("doctor", "--config", file, "--scheduler", scheduler, "--output", "json")
    found = json.loads(result.stdout)
    (wrong,) = [each for each in found if "lastFilter" in each["message"]]
    assert (wrong["check"], wrong["verdict"]) == ("scheduler-file", "error")
    assert "http://other:1" in wrong["message"]
    assert "ignorable" in wrong["hint"]


def test_scheduler_config_says_beside_the_entry_what_is_declared_or_could_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def comments(extender: dict[str, Any], **more: Any) -> list[str]:
        file = configuration(tmp_path, monkeypatch, extender, **more)
        text = run("scheduler-config", "--config", file).stdout
        return [line for line in text.splitlines() if "lastFilter" in line]

    (declared,) = comments({"lastFilter": True})
    assert declared.startswith("# lastFilter: no filterVerb is called after this one")
    (could_be,) = comments({})
    assert "extender.lastFilter: true" in could_be
    scores = {"score": {"enabled": [{"name": "LabelMatch"}]}}
    profiles = [{"schedulerName": "default-scheduler", "plugins": scores}]
    assert comments({}, outOfTree=[], profiles=profiles) == []
