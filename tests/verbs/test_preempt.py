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


# A group of two pods, which kube-scheduler evicts together, and a pod of its own.
GROUP, ALONE = [*on("good", "g1"), *on("other", "g2")], on("plain", "u1")
GROUPS = {"extender.preemptGroups": True}


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
    """Nor does preempt abstain, though victims are on other nodes."""
    for ignored in ([], [plugin.name]):
        wire = Wire(plugin, nodes=NODES, ignored=ignored, settings=GROUPS)
        wire.nodes.synced = synced
        assert wire.post("/preempt", preempt_request(of, VICTIMS)).body == EMPTY
        assert asked(wire, {"good": GROUP}, of).body == EMPTY
    labels = {"plugin": "Breaks", "extension_point": "Filter"}
    assert wire.metric("kubextend_plugin_failures_total", **labels) == 2 * (plugin is BREAKS)


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


@pytest.mark.parametrize(("seconds_each", "offered"), [(0.0, 4), (0.5, 3), (1.0, 1), (2.0, 0)])
def test_candidates_whose_turn_comes_too_late_are_not_offered(
    seconds_each: float, offered: int
) -> None:
    class Looks:
        name = "Looks"
        needs_pods = True

        def __init__(self, handle: Handle) -> None:
            self.handle = handle

        def filter_nodes(self, state: Any, *_: Any) -> list[Rejection]:
            self.handle.pods(state)
            wire.clock.now_s += seconds_each
            return []

    names = ["a", "b", "c", "d"]
    wire = Wire(Looks, nodes=names, settings={"extender.httpTimeout": "4s"})
    said = wire.preempt(pod(), {name: [f"u-{name}"] for name in names})
    assert list(said.victims) == names[:offered]


def asked(wire: Wire, victims: Mapping[str, Any], of: Any = P) -> Answer:
    return wire.post("/preempt", whole_preempt_request(of, victims))


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


def test_preempt_abstains_for_a_pod_that_is_passed_through() -> None:
    wire = Wire(needs(), nodes=NODES, settings=GROUPS | {"passThrough": ["other"]})
    assert abstains(asked(wire, {"good": GROUP, "plain": ALONE}, pod(scheduler_name="other")))


def test_without_preempt_groups_only_candidates_with_all_their_victims_are_offered() -> None:
    wire = Wire(needs(), nodes=NODES, settings={"passThrough": ["other"]})
    for of in (pod(), pod(scheduler_name="other")):
        proposed = {"good": GROUP, "other": on("other", "u2")}
        assert asked(wire, proposed, of).victims == {"other": ["u2"]}
        assert asked(wire, {"good": GROUP}, of).body == EMPTY
