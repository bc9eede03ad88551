"""The record of what the verbs decided about each pod, as ``kubextend why`` reads it."""

from typing import Any

import pytest
from tests.doors.wire import (
    Hang,
    Plugin,
    Steps,
    Wire,
    answers,
    needs,
    node,
    pod,
    raises,
    scores,
    uid_of,
)

from kubextend import Status
from kubextend.plugins import Coscheduling

A = pod("a")
GANG = {"scheduling.x-k8s.io/pod-group": "g", "pod-group.scheduling.sigs.k8s.io/min-available": "2"}
SSD = [node("a", labels={"rdma": ""}), node("b"), node("c")]


def calls(wire: Wire, of: Any = A) -> Any:
    """Return the calls of a pod's last attempt."""
    return wire.decision(of)["attempts"][0]["calls"]


def nodes_of(wire: Wire, query: str = "", of: Any = A) -> Any:
    return wire.get(f"/decisions/{uid_of(of)}/nodes{query}").json


def has_record(wire: Wire, of: Any) -> bool:
    return bool(wire.decision(of)["attempts"])


def test_the_nodes_that_a_plugin_rejected_are_counted_with_plugin_and_reason() -> None:
    wire = Wire(needs(), nodes=SSD)
    wire.filter(A)
    (call,) = calls(wire)
    assert (call["verb"], call["nodes"]["nodes"], call["nodes"]["passed"]) == ("filter", 3, 1)
    (group,) = call["nodes"]["rejected"]
    assert (group["plugin"], group["reason"], group["nodes"]) == ("Needs", "no rdma", 2)
    assert group["examples"] == ["b", "c"]
    assert {each["node"] for each in nodes_of(wire, "?plugin=Needs")["items"]} == {"b", "c"}


class Unblocks(Plugin):
    """Rejects all nodes, and says what the pod lacks there."""

    def __init__(self, unblock: Any) -> None:
        super().__init__("Unblocks", filter=answers(Status.unschedulable("no")), unblock=unblock)


def test_a_pod_that_fits_nowhere_is_told_what_the_nearest_nodes_lack() -> None:
    wire = Wire(Unblocks(lambda _pod, at: f"a label on {at.name}" if at else ""), nodes=["n", "m"])
    wire.filter(A)
    near = wire.decision(A)["nearest"]
    assert [each["node"] for each in near] == ["n", "m"]
    assert [each["lacks"][0]["lacks"] for each in near] == ["a label on n", "a label on m"]


@pytest.mark.parametrize("fails", ["raises", "hangs"])
def test_a_plugin_that_fails_to_say_what_a_pod_lacks_hides_no_record(
    fails: str, hang: Hang
) -> None:
    unblock = hang if fails == "hangs" else raises(RuntimeError("0x7f3a"))
    wire = Wire(Unblocks(unblock), nodes=["n"], settings={"extender.httpTimeout": "100ms"})
    wire.filter(A)
    found = wire.decision(A)
    assert found["attempts"]
    lacks = [each for near in found["nearest"] for each in near["lacks"]]
    assert {(each["lacks"], each["reason"]) for each in lacks} <= {("", "no")}


def test_raw_normalised_and_weighted_scores_of_any_node_are_kept() -> None:
    doubles = scores("Doubles", n0=0, n1=1, n2=2, n3=3)
    doubles.normalize_score = lambda _state, _pod, given: [2 * each for each in given]  # type: ignore[attr-defined]
    wire = Wire(doubles, nodes=[f"n{row}" for row in range(4)], weights={"Doubles": 3})
    wire.prioritize(A)
    (call,) = calls(wire)
    assert [each["node"] for each in call["nodes"]["best"]] == ["n3", "n2", "n1", "n0"]
    (row,) = nodes_of(wire, "?node=n2")["items"]
    assert row["scores"] == {"Doubles": {"raw": 2, "normalized": 4, "weighted": 12}}


@pytest.mark.parametrize("raw", [2**63, -(2**63) - 1, 2**70, float("inf")])
def test_a_raw_score_that_no_json_may_hold_does_not_hide_the_record(raw: Any) -> None:
    anything = Plugin(score_nodes=answers([raw, raw]), normalize_score=answers([7, 7]))
    wire = Wire(anything, nodes=["n", "m"])
    wire.prioritize(A)
    best = calls(wire)[0]["nodes"]["best"]
    assert [each["scores"]["P"]["raw"] for each in best] == [7, 7]


@pytest.mark.parametrize("said", ["team \ud800", 5, None])
def test_a_detail_that_no_json_may_hold_does_not_hide_the_record(said: Any) -> None:
    wire = Wire(Plugin(filter=answers(Status.unschedulable("no such team", said))), nodes=["n"])
    wire.filter(A)
    groups = calls(wire)[0]["nodes"]["rejected"]
    assert [group["reason"] for group in groups] == ["no such team"]


def test_a_plugin_that_fails_is_named_with_what_it_raised() -> None:
    broken = raises(ValueError("broken"))
    wire = Wire(Plugin("Raises", filter=broken), Plugin("Scores", score=broken), nodes=["n"])
    wire.filter(A)
    point = {"plugin": "Raises", "extensionPoint": "Filter"}
    assert calls(wire)[0]["failed"] == {**point, "detail": "ValueError: broken"}
    wire.prioritize(pod("b"))
    assert calls(wire, pod("b"))[0]["leftOut"] == ["Scores"]


def test_a_bind_that_permit_rejects_names_the_plugin_and_is_done() -> None:
    wire = Wire(Steps(permit=Status.unschedulable("over budget")), nodes=["n"], pods=[A])
    wire.bind(A, "n")
    call = calls(wire)[-1]
    assert call["rejectedBy"] == {"plugin": "Steps", "extensionPoint": "Permit"}
    assert (call["error"], call["done"], call["node"]) == ("over budget", True, "n")


def test_a_held_pod_is_under_way_and_says_which_members_its_gang_lacks() -> None:
    first, second = (pod(name, labels=GANG) for name in "ab")
    wire = Wire(Coscheduling, nodes=["n", "m"], pods=[first, second])
    call = wire.begin_bind(first, "n")
    wire.wait_until_held(first)
    found = wire.decision(first)
    assert found["attempts"][0]["calls"][-1]["done"] is False
    assert found["waiting"]["pendingPlugins"] == ["Coscheduling"]
    assert found["lacks"][0]["lacks"].startswith("a node for 1 more pods of the pod group g")
    call.leave()
    assert calls(wire, first)[-1]["error"].startswith("the bind request was given up")


def test_the_last_four_attempts_are_kept_newest_first_and_the_nodes_of_the_last() -> None:
    wire = Wire(needs(), nodes=["n", "m"])
    for number in range(6):
        wire.filter(A, ["m"] if number == 5 else None)
    attempts = wire.decision(A)["attempts"]
    assert [each["calls"][0]["nodes"]["nodes"] for each in attempts] == [1, 2, 2, 2]
    assert [each["node"] for each in nodes_of(wire)["items"]] == ["m"]


def test_of_two_pods_of_one_name_the_one_with_the_later_call_is_found() -> None:
    wire = Wire(needs(), nodes=["n"])
    for uid in ("before", "recreated"):
        wire.filter(pod("a", uid=uid))
    assert wire.get("/decisions?pod=ml/a").json["pod"]["uid"] == "recreated"


def test_a_deleted_pod_has_no_record() -> None:
    wire = Wire(needs(), nodes=["n"], pods=[A])
    wire.filter(A)
    assert has_record(wire, A)
    wire.gone_pod(A)
    assert not has_record(wire, A)


def test_of_too_many_pods_the_one_whose_last_call_is_oldest_has_no_record() -> None:
    wire = Wire(needs(), nodes=["n"], settings={"server.decisions.maxPods": 2})
    before = wire.decision(A)["kubextend"]["recordsSince"]
    for name in "abac":
        wire.filter(pod(name))
    assert [has_record(wire, pod(name)) for name in "abc"] == [True, False, True]
    # Nobody may conclude from the missing record that kube-scheduler did not ask.
    assert wire.decision(A)["kubextend"]["recordsSince"] > before


def test_the_nodes_of_the_last_pods_are_kept_and_a_summary_of_the_others() -> None:
    wire = Wire(needs(), scores("Scores", good=3), nodes=["n", node("good", labels={"rdma": ""})])
    wire.filter(A, ["n"])
    fits = [pod(f"p{number}") for number in range(40)]
    for of in fits:
        wire.filter(of)
        wire.prioritize(of, ["good"])
    # People ask about pods that fit nowhere: other pods do not push their nodes out.
    kept = [nodes_of(wire, of=of)["kept"] for of in (A, fits[0], fits[-1])]
    assert kept == [True, False, True]
    assert nodes_of(wire, of=fits[0])["items"] == []
    filtered, scored = [call["nodes"] for call in calls(wire, fits[0])]
    assert [filtered["passed"], filtered["rejected"][0]["examples"]] == [1, ["n"]]
    assert scored["best"] == calls(wire, fits[-1])[1]["nodes"]["best"] != []


def test_of_many_reasons_the_first_eight_are_told_and_the_nodes_of_the_others_counted() -> None:
    names = [f"n{number}" for number in range(11)]
    wordy = Plugin(filter=lambda _state, _pod, at: Status.unschedulable(f"no {at.name}"))
    wire = Wire(wordy, nodes=names)
    wire.filter(A)
    found = calls(wire)[0]["nodes"]
    assert [group["reason"] for group in found["rejected"]] == [f"no {name}" for name in names[:8]]
    assert (found["rejectedForOtherReasons"], found["passed"]) == (3, 0)
    assert [each["reason"] for each in nodes_of(wire)["items"]] == [f"no {name}" for name in names]


def test_whole_nodes_are_recorded_by_their_names() -> None:
    wire = Wire(needs())
    wire.filter(A, whole=SSD)
    assert [each["node"] for each in nodes_of(wire)["items"]] == ["a", "b", "c"]


@pytest.mark.parametrize("whole", [True, False])
def test_of_names_of_nodes_that_take_over_a_mebibyte_the_record_has_a_summary_alone(
    whole: bool,
) -> None:
    wire = Wire(needs(), scores("Scores", good=3), nodes=[node("good", labels={"rdma": ""})])
    names = ["good", *(f"{row:02000}" for row in range(600))]
    if whole:
        wire.filter(
            A, whole=[node(name, labels={"rdma": ""} if name == "good" else {}) for name in names]
        )
    else:
        wire.filter(A, names)
    found = calls(wire)[0]["nodes"]
    assert (found["nodes"], found["passed"]) == (601, 1)
    assert {len(name) for name in found["rejected"][0]["examples"]} == {256}
    assert (nodes_of(wire)["kept"], nodes_of(wire)["items"]) == (False, [])
    # The nodes of prioritize alone would look as if there were no others.
    wire.prioritize(A, ["good"])
    assert not nodes_of(wire)["kept"]
    wire.filter(A, ["good"])
    assert [each["node"] for each in nodes_of(wire)["items"]] == ["good"]


# What a tenant does to his own pods changes no answer for the pods of others.

TOO_MANY = {f"k{number}": "v" for number in range(5000)}


def test_pods_too_large_to_be_kept_in_three_namespaces_do_not_stop_gangs_elsewhere() -> None:
    large = [pod(f"large-{n}", labels=TOO_MANY, namespace=f"tenant-{n}") for n in range(3)]
    wire = Wire(Coscheduling, nodes=["n"], pods=[*large, pod("a", labels=GANG)])
    wire.show_pod(pod("b", labels=GANG))
    for n in range(9):
        said = wire.filter(pod(f"g{n}", labels=GANG, namespace=f"tenant-{n % 3}"))
        assert (said.error, said.kept) == ("", [])
        assert f"pod tenant-{n % 3}/large-{n % 3} is kept" in said.body.decode()
    for of in (pod("a", labels=GANG), pod("alone")):
        assert wire.filter(of).kept == ["n"]
