"""Details of rejections are told of their own nodes alone; what people read about pods."""

import logging
from pathlib import Path
from typing import Any

import pytest
from tests.doors.answering import Answering, listening
from tests.doors.command_line import run
from tests.doors.wire import WAIT, Plugin, Wire, node, pod, raises, rejects, scores

from kubextend import core
from kubextend.framework import Rejection, Status

DIFFER = "details differ by node"
FREE = {"n0": "0 free GPUs", "n1": "1 free GPU", "n2": "2 free GPUs"}
NODES = [node(name, labels={"free": free}) for name, free in FREE.items()]
POD = pod("p")


def by_label(name: str, label: str, reason: str, *, always: bool = True) -> Plugin:
    """Return a filter that rejects nodes, with what their label says as the detail."""

    def look(_state: object, _pod: core.Pod, at: core.NodeInfo) -> Status | None:
        detail = at.labels.get(label)
        if detail is None and not always:
            return None
        return Status.unschedulable(reason, detail=detail or "")

    return Plugin(name, filter=look)


def at_once(*rejections: Any) -> Plugin:
    """Return a filter that rejects all nodes in one call; each rejection is rows and a status."""

    def look(_state: object, _pod: core.Pod, nodes: core.Nodes) -> list[Rejection]:
        rows = range(len(nodes))
        return [
            Rejection(core.Mask([row in of for row in rows]), status, **more)
            for of, status, more in rejections
        ]

    return Plugin("AtOnce", filter_nodes=look)


GPUS = by_label("Gpus", "free", "too few GPUs")
RACKS = by_label("Racks", "rack", "rack is full", always=False)
FEW = Status.unschedulable("too few GPUs", detail="see each node")
OF_RACK = [Status.unschedulable("too few GPUs", detail=f"of rack {rack}") for rack in (1, 2)]
NOT_DUE = Status.unschedulable("the pod is not due", detail="due on Monday")


def labelled(*labels: dict[str, str]) -> list[Any]:
    return [node(f"n{at}", labels=each) for at, each in enumerate(labels)]


@pytest.mark.parametrize(
    ("plugins", "nodes", "details", "together"),
    [
        ([GPUS], NODES, [*FREE.values()], [DIFFER]),
        ([GPUS], labelled({"free": "none"}, {"free": "none"}), ["none", "none"], ["none"]),
        ([GPUS], labelled({"free": "0"}, {}, {"free": "0"}), ["0", "", "0"], [DIFFER]),
        # The first plugin that rejects a node tells its detail.
        (
            [RACKS, GPUS],
            labelled({"rack": "a", "free": "0"}, {"rack": "b"}, {"free": "2"}),
            *(["a", "b", "2"], [DIFFER, "2"]),
        ),
        # A detail of sets of nodes, of some of a set, and of the pod.
        (
            [at_once(({0, 1}, OF_RACK[0], {}), ({2}, OF_RACK[1], {}))],
            *(NODES, ["of rack 1", "of rack 1", "of rack 2"], ["of rack 1", "of rack 2"]),
        ),
        (
            [at_once(({0, 1, 2}, FEW, {"details": {0: "none", 2: "two"}}))],
            *(NODES, ["none", "", "two"], ["see each node"]),
        ),
        (
            [Plugin("NeverToday", pre_filter=lambda *_: NOT_DUE, filter=lambda *_: None)],
            *(NODES, ["due on Monday"] * 3, ["due on Monday"]),
        ),
    ],
)
def test_a_detail_is_told_of_the_nodes_that_it_is_about(
    plugins: list[Any], nodes: list[Any], details: list[str], together: list[str]
) -> None:
    wire = Wire(*plugins, nodes=nodes)
    wire.filter(POD)
    items = wire.get("/decisions/uid-of-p/nodes").json["items"]
    told = {item["node"]: item["detail"] for item in items}
    assert told == {f"n{at}": detail for at, detail in enumerate(details)}
    assert [group["detail"] for group in groups(wire)] == together


def groups(wire: Wire) -> list[Any]:
    """Return what was decided of the nodes together."""
    (attempt,) = wire.decision(POD)["attempts"]
    found: list[Any] = attempt["calls"][0]["nodes"]["rejected"]
    return found


@pytest.mark.parametrize(("details", "said"), [(["none"], "a mapping"), ({0: 1}, "a str for each")])
def test_details_of_a_wrong_form_are_an_error_of_the_plugin(details: object, said: str) -> None:
    wire = Wire(at_once(({0}, FEW, {"details": details})), nodes=NODES)
    wire.filter(POD)
    (attempt,) = wire.decision(POD)["attempts"]
    failed = attempt["calls"][0]["failed"]
    assert failed["plugin"] == "AtOnce"
    assert said in failed["detail"]
    assert "in Rejection.details" in failed["detail"]


def test_the_log_tells_no_detail_of_one_node_for_others(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    wire = Wire(GPUS, nodes=NODES)
    wire.filter(POD)
    wire.filter(POD, ["n0"])
    assert [line for line in caplog.messages if "too few GPUs" in line] == [
        f"pod ml/p, 3 nodes: too few GPUs ({DIFFER})",
        "pod ml/p, 1 nodes: too few GPUs (0 free GPUs)",
    ]


def noting() -> tuple[Plugin, dict[int, str]]:
    """Return a plugin that notes the details that PostFilter is shown, by the row of the node."""
    shown: dict[int, str] = {}

    def post_filter(_state: object, _pod: core.Pod, rejections: list[Rejection]) -> Status:
        for each in rejections:
            for row in each.nodes.indices():
                shown[row] = each.details.get(row, "") if each.details else each.status.detail
        return Status.unschedulable("no node")

    return Plugin("Notes", post_filter=post_filter), shown


def test_post_filter_sees_the_detail_of_each_node() -> None:
    notes, shown = noting()
    Wire(GPUS, notes, nodes=NODES).filter(POD)
    assert shown == dict(enumerate(FREE.values()))


@pytest.mark.parametrize("whole", [False, True])
def test_nodes_with_nominated_pods_keep_their_own_details(whole: bool) -> None:
    def by_whom(at: core.NodeInfo) -> str:
        return f"by {', '.join(each.name for each in at.pods)}"

    def look(_state: object, _pod: core.Pod, at: core.NodeInfo) -> Status | None:
        return Status.unschedulable("node is taken", detail=by_whom(at)) if at.pods else None

    def look_at_all(_state: object, _pod: core.Pod, nodes: core.Nodes) -> list[Rejection]:
        taken = {row: by_whom(at) for row, at in enumerate(nodes) if at.pods}
        mask = core.Mask([row in taken for row in range(len(nodes))])
        return [Rejection(mask, Status.unschedulable("node is taken"), details=taken)]

    filters: dict[str, Any] = {"filter_nodes": look_at_all} if whole else {"filter": look}
    notes, shown = noting()
    names = [f"n{at}" for at in range(20)]
    nominated = [
        pod(f"to-{name}", priority=10) | {"status": {"nominatedNodeName": name}} for name in names
    ]
    taken = Plugin("WithOthers", needs_pods=True, **filters)
    Wire(taken, notes, nodes=names, pods=nominated).filter(POD)
    assert shown == {at: f"by to-{name}" for at, name in enumerate(names)}


@pytest.mark.slow
def test_why_shows_the_detail_of_the_node_that_is_asked_for(tmp_path: Path) -> None:
    wire = Wire(GPUS, nodes=NODES)
    wire.filter(POD)
    items = wire.get("/decisions/uid-of-p/nodes").json["items"]
    decision = {"/decisions": wire.decision(POD)}
    asked = Answering(decision)
    with listening(asked) as url:
        options = ("why", "p", "-n", "ml", "--server", url, "--kubeconfig", tmp_path / "none")
        for item in items:
            name = item["node"]
            asked.objects = decision | {"/decisions/uid-of-p/nodes": {"items": [item]}}
            lines = run(*options, "--node", name).stdout.splitlines()
            assert lines[-1] == f"node {name}: rejected by Gpus: too few GPUs {item['detail']}"
            assert not any("free GPU" in line for line in lines[:-1])
        asked.objects = decision | {"/decisions/uid-of-p/nodes": {"items": []}}
        last = run(*options, "--node", "n9").stdout.splitlines()[-1]
    assert "nothing is on record" in last


# The overview: each pod is where its calls have brought it.


def listed(wire: Wire) -> list[Any]:
    found: list[Any] = wire.get("/overview").json["pods"]["items"]
    return found


def test_the_overview_tells_of_each_pod_what_its_last_call_came_to() -> None:
    wire = Wire(rejects("a", "b", reason="no ssd"), scores(), nodes=["a", "b", "c"])
    wire.filter(POD)
    wire.filter(pod("q", namespace="shop"), ["a", "b"])
    first, second = listed(wire)
    assert [first[key] for key in ("namespace", "name", "verb")] == ["shop", "q", "filter"]
    assert [first[key] for key in ("state", "passed", "nodes")] == ["Rejected", 0, 2]
    assert [second[key] for key in ("name", "state", "passed", "nodes")] == ["p", "Passed", 1, 3]
    wire.clock.now_s += 601
    assert [each["state"] for each in listed(wire)] == ["Rejected", "Passed"]
    # The latest comes first.
    wire.filter(POD)
    assert [each["name"] for each in listed(wire)] == ["p", "q"]
    assert wire.get("/overview").json["pods"]["total"] == 2


def test_the_overview_says_that_a_plugin_failed_for_a_pod_also_after_its_scores() -> None:
    # kube-scheduler goes on without the filters of an extender that is ignorable.
    fails = Plugin("Raises", filter=raises(ValueError("broken")), score=lambda *_: 0)
    wire = Wire(fails, nodes=["a", "b"])
    wire.filter(POD)
    (failed,) = listed(wire)
    assert (failed["state"], failed["passed"]) == ("Failed", None)
    assert "Raises" in failed["said"]
    wire.prioritize(POD)
    assert [(each["verb"], each["state"]) for each in listed(wire)] == [("prioritize", "Failed")]


def test_the_overview_says_which_pods_are_bound_held_and_rejected_by_permit() -> None:
    answers: dict[str, Any] = {"good": None, "bad": Status.unschedulable("over budget")}

    def permit(_state: object, of: core.Pod, _node: str) -> Any:
        return answers.get(of.name, WAIT)

    pods = [pod(name) for name in ("good", "bad", "held")]
    wire = Wire(Plugin("AtPermit", permit=permit, needs_pods=True), nodes=["a"], pods=pods)
    wire.bind(pod("good"), "a")
    wire.bind(pod("bad"), "a")
    wire.begin_bind(pod("held"), "a")
    wire.wait_until_held(pod("held"))
    found = {each["name"]: (each["state"], each["said"]) for each in listed(wire)}
    bad = ("NotBound", "over budget")
    assert found == {"good": ("Bound", ""), "bad": bad, "held": ("Waiting", "")}
    (waiting,) = wire.get("/overview").json["waiting"]["items"]
    assert (waiting["name"], waiting["node"]) == ("held", "a")
    assert [*waiting["pendingPlugins"]] == ["AtPermit"]
