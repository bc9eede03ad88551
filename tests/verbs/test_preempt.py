"""The preempt verb: the candidates that the filters let the pod onto."""

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


NAMES = preempt_request(pod(), VICTIMS)


@pytest.mark.parametrize(
    ("plugin", "body", "synced"),
    [
        (needs(), NAMES, False),
        (BREAKS, NAMES, True),
        (needs(), preempt_request(None, VICTIMS), True),
        (needs(), b'{"Pod":{"metadata":{}}}', True),
        (needs(), b"null", True),
        (needs("nowhere"), NAMES, True),
        (needs(), preempt_request(pod(), {"unknown": ["u4"]}), True),
        (needs(), preempt_request(pod(scheduler_name="typo"), VICTIMS), True),
    ],
)
def test_nobody_is_evicted_where_no_candidate_was_judged_to_pass(
    plugin: Plugin, body: bytes, synced: bool
) -> None:
    for ignored in ([], [plugin.name]):
        wire = Wire(plugin, nodes=NODES, ignored=ignored)
        wire.nodes.synced = synced
        assert wire.post("/preempt", body).body == EMPTY
    labels = {"plugin": "Breaks", "extension_point": "Filter"}
    assert wire.metric("kubextend_plugin_failures_total", **labels) == (plugin is BREAKS)


def test_nobody_is_evicted_where_the_server_knows_no_node_at_all() -> None:
    assert Wire(needs(), cluster=False).preempt(pod(), VICTIMS).body == EMPTY


@pytest.mark.parametrize("body", [b"", b"[]", b'{"NodeNameToMetaVictims":3}'])
def test_a_body_that_cannot_be_read_evicts_nobody(body: bytes) -> None:
    wire = Wire(needs(), nodes=NODES)
    said = wire.post("/preempt", body)
    assert (said.status, said.body) == (200, EMPTY)
    labels = {"verb": "preempt", "result": "bad_request"}
    assert wire.metric("kubextend_verb_requests_total", **labels) == 1


FULL = Status.unschedulable("no room")


class Room:
    """Two pods a node at most, counted in the snapshot of the Handle."""

    name = "Room"
    needs_pods = True

    def __init__(self, handle: Handle) -> None:
        self.handle = handle

    def filter_nodes(self, state: Any, _pod: Any, nodes: Any) -> list[Rejection]:
        pods = self.handle.pods(state)
        assert pods is not None
        full = core.Mask([number > 1 for number in pods.requested(nodes, "pods")])
        return [Rejection(full, FULL)]


ROOM = Plugin(
    "Room", needs_pods=True, filter=lambda _state, _pod, at: FULL if len(at.pods) > 1 else None
)


@pytest.mark.parametrize("room", [ROOM, Room], ids=["the pods of the node", "a snapshot"])
def test_filters_see_the_candidates_without_their_victims(room: Any) -> None:
    there = [*on("good", "a", "b", "c"), *on("plain", "d", "e", "f")]
    wire = Wire(room, nodes=["good", "plain"], pods=there)
    # Two of three leave good, one leaves plain: only good has room for one more then.
    assert wire.preempt(pod(), {"good": ["a", "c"], "plain": ["e"]}).victims == {"good": ["a", "c"]}
    # The victims have not gone yet.
    assert wire.filter(pod()).kept == []


@pytest.mark.parametrize(("seconds_each", "offered"), [(0.0, 4), (0.5, 3), (1.0, 1), (2.0, 0)])
def test_candidates_whose_turn_comes_too_late_are_not_offered(
    seconds_each: float, offered: int
) -> None:
    class Looks(Room):
        def filter_nodes(self, state: Any, *_: Any) -> list[Rejection]:
            self.handle.pods(state)
            wire.clock.now_s += seconds_each
            return []

    names = ["a", "b", "c", "d"]
    wire = Wire(Looks, nodes=names, settings={"extender.httpTimeout": "4s"})
    said = wire.preempt(pod(), {name: [f"u-{name}"] for name in names})
    assert list(said.victims) == names[:offered]


# A group of two pods, which kube-scheduler evicts together, and a pod of its own.
GROUP, ALONE = [*on("good", "g1"), *on("other", "g2")], on("plain", "u1")
GROUPS = {"extender.preemptGroups": True}


def asked(wire: Wire, victims: Mapping[str, Any], of: Any = ...) -> Answer:
    body = whole_preempt_request(pod() if of is ... else of, victims)
    return wire.post("/preempt", body)


def abstains(said: Answer) -> bool:
    """Any status but 200 makes kube-scheduler go on with its own candidates."""
    return said.status == 501 and "some victims are on other nodes" in said.error


@pytest.mark.parametrize("candidates", [["good"], ["good", "other"]])
def test_preempt_abstains_where_every_candidate_passes_and_victims_are_on_other_nodes(
    candidates: list[str],
) -> None:
    wire = Wire(needs(), nodes=NODES, settings=GROUPS)
    assert abstains(asked(wire, dict.fromkeys(candidates, GROUP)))
    assert wire.metric("kubextend_verb_requests_total", verb="preempt", result="ok") == 1


@pytest.mark.parametrize(
    ("proposed", "victims"),
    [
        ({"good": on("good", "g1"), "other": on("other", "g2")}, {"good": ["g1"], "other": ["g2"]}),
        # kube-scheduler would refuse any other answer, and evict pods of the failed candidate.
        ({"good": GROUP, "plain": ALONE}, {"good": ["g1"]}),
        ({"good": GROUP, "other": on("other", "u2"), "plain": ALONE}, {"other": ["u2"]}),
    ],
    ids=["all are on their candidates", "a candidate fails", "a part of a group would be lost"],
)
def test_preempt_names_victims_on_their_candidates_alone(
    proposed: Mapping[str, Any], victims: Any
) -> None:
    wire = Wire(needs(), nodes=NODES, settings=GROUPS)
    assert asked(wire, proposed).victims == victims


def test_victims_whose_nodes_the_request_does_not_say_are_named() -> None:
    wire = Wire(needs(), nodes=NODES, settings=GROUPS)
    assert wire.preempt(pod(), {"good": ["g1", "g2"]}).victims == {"good": ["g1", "g2"]}


@pytest.mark.parametrize(
    ("plugin", "of", "synced"),
    [
        (needs(), ..., False),
        (BREAKS, ..., True),
        (needs(), None, True),
        (needs("nowhere"), ..., True),
    ],
    ids=["nodes are not listed", "a filter fails", "no pod", "all are rejected"],
)
def test_preempt_never_abstains_where_not_every_candidate_was_judged_to_pass(
    plugin: Plugin, of: Any, synced: bool
) -> None:
    wire = Wire(plugin, nodes=NODES, settings=GROUPS)
    wire.nodes.synced = synced
    assert asked(wire, {"good": GROUP}, of).body == EMPTY


def test_preempt_abstains_for_a_pod_that_is_passed_through() -> None:
    wire = Wire(needs(), nodes=NODES, settings=GROUPS | {"passThrough": ["other"]})
    assert abstains(asked(wire, {"good": GROUP, "plain": ALONE}, pod(scheduler_name="other")))


def test_without_preempt_groups_only_candidates_with_all_their_victims_are_offered() -> None:
    wire = Wire(needs(), nodes=NODES, settings={"passThrough": ["other"]})
    for of in (pod(), pod(scheduler_name="other")):
        proposed = {"good": GROUP, "other": on("other", "u2")}
        assert asked(wire, proposed, of).victims == {"other": ["u2"]}
        assert asked(wire, {"good": GROUP}, of).body == EMPTY
