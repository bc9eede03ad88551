"""The preempt verb: the candidates that the filters let the pod onto."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from tests.doors.wire import (
    Answer,
    Plugin,
    Wire,
    needs,
    node,
    pod,
    preempt_request,
    raises,
    rejects,
    whole_preempt_request,
)

from kubextend import core
from kubextend.framework import Handle, Rejection, Status

P = pod()
EMPTY = b'{"NodeNameToMetaVictims":{}}'
VICTIMS = {"good": ["u1", "u2"], "plain": ["u3"], "unknown": ["u4"]}
RDMA = {"rdma": ""}
NODES = [node("good", labels=RDMA), node("other", labels=RDMA), node("plain")]
BREAKS = Plugin("Breaks", filter=raises(RuntimeError("0x7f3a")))


def on(where: str, *uids: str) -> list[dict[str, Any]]:
    return [pod(uid, uid=uid, node_name=where) for uid in uids]


def test_candidates_that_the_filters_reject_or_nobody_knows_are_dropped() -> None:
    wire = Wire(needs(), nodes=NODES)
    said = wire.preempt(pod(), VICTIMS)
    kept = {"good": {"Pods": [{"UID": "u1"}, {"UID": "u2"}], "NumPDBViolations": 1}}
    assert said.json == {"NodeNameToMetaVictims": kept}
    assert wire.metric("kubextend_verb_nodes_count", verb="preempt") == 1
    assert wire.metric("kubextend_verb_nodes_sum", verb="preempt") == len(VICTIMS)
    # Also where a filter would let the pod onto the unknown node.
    assert Wire(rejects("good"), nodes=NODES).preempt(pod(), VICTIMS).victims == {"plain": ["u3"]}


def test_whole_victims_are_answered_with_uids_on_nodes_that_earlier_requests_brought() -> None:
    wire = Wire(needs(), cluster=False)
    wire.filter(pod(), whole=NODES)
    whole = {name: on(name, *uids) for name, uids in VICTIMS.items()}
    said = wire.post("/preempt", whole_preempt_request(pod(), whole))
    assert said.victims == {"good": ["u1", "u2"]}


def test_every_candidate_stays_for_a_pod_that_is_passed_through() -> None:
    wire = Wire(needs(), settings={"passThrough": ["other"]})
    for wire.nodes.synced in (False, True):
        assert wire.preempt(pod(scheduler_name="other"), VICTIMS).victims == VICTIMS


@pytest.mark.parametrize(
    ("plugin", "of", "synced"),
    [
        (needs(), pod(), False),
        (BREAKS, pod(), True),
        (needs(), None, True),
        (needs("nowhere"), pod(), True),
        (needs(), pod(scheduler_name="typo"), True),
    ],
    ids=["not listed", "a filter fails", "no pod", "all are rejected", "unknown scheduler"],
)
def test_nobody_is_evicted_where_no_candidate_was_judged_to_pass(
    plugin: Plugin, of: Any, synced: bool
) -> None:
    for ignored in ([], [plugin.name]):
        wire = Wire(plugin, nodes=NODES, ignored=ignored)
        wire.nodes.synced = synced
        assert wire.post("/preempt", preempt_request(of, VICTIMS)).body == EMPTY
    labels = {"plugin": "Breaks", "extension_point": "Filter"}
    assert wire.metric("kubextend_plugin_failures_total", **labels) == (plugin is BREAKS)


@pytest.mark.parametrize(
    "body",
    [b'{"Pod":{"metadata":{}}}', b"null", preempt_request(pod(), {"unknown": ["u4"]})],
)
def test_nobody_is_evicted_where_no_candidate_is_known(body: bytes) -> None:
    assert Wire(needs(), nodes=NODES).post("/preempt", body).body == EMPTY


def test_nobody_is_evicted_where_the_server_knows_no_node_at_all() -> None:
    assert Wire(needs(), cluster=False).preempt(pod(), VICTIMS).body == EMPTY


def test_filters_see_the_candidates_without_their_victims() -> None:
    full = Status.unschedulable("no room")
    room = Plugin(
        "Room", needs_pods=True, filter=lambda _state, _pod, at: full if len(at.pods) > 1 else None
    )
    there = [*on("good", "a", "b", "c"), *on("plain", "d", "e", "f")]
    wire = Wire(room, nodes=["good", "plain"], pods=there)
    # Two of three leave good, one leaves plain: only good has room for one more then.
    assert wire.preempt(pod(), {"good": ["a", "c"], "plain": ["e"]}).victims == {"good": ["a", "c"]}
    # The victims have not gone yet.
    assert wire.filter(pod()).kept == []


def test_sixteen_candidates_are_judged_alone_and_those_first_that_pass_with_all() -> None:
    class Looks:
        name = "Looks"
        needs_pods = True

        def __init__(self, handle: Handle) -> None:
            self.handle = handle

        def filter_nodes(self, state: Any, _pod: Any, nodes: Any) -> list[Rejection]:
            self.handle.pods(state)
            refused = core.Mask([name in {"n00", "n01"} for name in nodes.names])
            return [Rejection(refused, Status.unschedulable("no"))]

    names = [f"n{number:02}" for number in range(20)]
    wire = Wire(Looks, nodes=names)
    said = wire.preempt(pod(), {name: [f"u-{name}"] for name in names})
    assert list(said.victims) == names[2:18]


@pytest.mark.parametrize(("most", "offered"), [(0, []), (1, ["good", "plain"])])
def test_of_two_candidates_each_is_judged_with_the_victims_of_the_other_in_place(
    most: int, offered: list[str]
) -> None:
    class Few:
        """Rejects every node while the cluster has more than ``most`` pods on nodes."""

        name = "Few"
        needs_pods = True

        def __init__(self, handle: Handle) -> None:
            self.handle = handle

        def filter_nodes(self, state: Any, _pod: Any, nodes: core.Nodes) -> list[Rejection]:
            pods = self.handle.pods(state)
            assert pods is not None
            there = sum(len(pods.pods_on(name)) for name in ("good", "plain"))
            full = nodes.everything() if there > most else nodes.nothing()
            return [Rejection(full, Status.unschedulable("too many pods"))]

    wire = Wire(Few, nodes=["good", "plain"], pods=[*on("good", "a"), *on("plain", "b")])
    # kube-scheduler evicts the pods of one node only.
    assert list(wire.preempt(pod(), {"good": ["a"], "plain": ["b"]}).victims) == offered


def asked(wire: Wire, victims: Mapping[str, Any], of: Any = P) -> Answer:
    return wire.post("/preempt", whole_preempt_request(of, victims))


# A group of two pods, which kube-scheduler evicts together.
GROUP = [*on("good", "g1"), *on("other", "g2")]


def test_only_candidates_with_all_their_victims_are_offered() -> None:
    wire = Wire(needs(), nodes=NODES, settings={"passThrough": ["other"]})
    for of in (pod(), pod(scheduler_name="other")):
        proposed = {"good": GROUP, "other": on("other", "u2")}
        assert asked(wire, proposed, of).victims == {"other": ["u2"]}
        assert asked(wire, {"good": GROUP}, of).body == EMPTY
    assert note(wire).endswith("allows 0 of them; of 1 some victims are on other nodes")


def test_victims_whose_nodes_the_request_does_not_say_are_named() -> None:
    wire = Wire(needs(), nodes=NODES)
    assert wire.preempt(pod(), {"good": ["g1", "g2"]}).victims == {"good": ["g1", "g2"]}


# From 1.38 on kube-scheduler asks about candidates without victims, for extenders to choose them.


@pytest.mark.parametrize("field", ["NodeNameToMetaVictims", "NodeNameToVictims"])
@pytest.mark.parametrize("pods", [[], None])
def test_candidates_without_victims_are_left_out_and_the_record_says_so(
    field: str, pods: Any
) -> None:
    wire = Wire(needs(), nodes=NODES)
    empty = {"Pods": pods, "NumPDBViolations": 0}
    body = {"Pod": P, field: {"good": empty, "other": {"Pods": on("other", "u2")}}}
    if field == "NodeNameToMetaVictims":
        body[field]["other"] = {"Pods": [{"UID": "u2"}]}
    assert wire.post("/preempt", json.dumps(body).encode()).victims == {"other": ["u2"]}
    assert note(wire) == (
        "kube-scheduler would evict pods on 2 nodes; kubextend allows 1 of them; "
        "1 have no victims, and kubextend chooses none"
    )
    del body[field]["other"]
    said = wire.post("/preempt", json.dumps(body).encode())
    assert (said.status, said.body) == (200, EMPTY)


def note(wire: Wire) -> str:
    """Return what the record says of the last call."""
    said: str = wire.decision(P)["attempts"][0]["calls"][-1]["note"]
    return said
