import json
from dataclasses import dataclass
from typing import Any

import pytest
from verb_world import (
    RDMA,
    Breaks,
    Clock,
    Needs,
    RejectsNamed,
    Watched,
    counted,
    full_preempt_request,
    full_request,
    names_request,
    node,
    pod,
    preempt_request,
    verbs_of,
    watch_event,
)

from kubextend import core
from kubextend.errors import WireError
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.handle import ClusterPorts, Handle
from kubextend.framework.plugin import Rejection
from kubextend.framework.status import Status
from kubextend.profile import PluginLimits, Profile, Profiles, WaitingPods
from kubextend.verbs import Verbs
from make_verbs import make_verbs

EMPTY = b'{"NodeNameToMetaVictims":{}}'
VICTIMS = {"good": ["u1", "u2"], "plain": ["u3"], "unknown": ["u4"]}


def kept(verbs: Verbs, body: bytes) -> dict[str, Any]:
    result = json.loads(verbs.preempt(body))
    assert list(result) == ["NodeNameToMetaVictims"]
    candidates: dict[str, Any] = result["NodeNameToMetaVictims"]
    return candidates


def victims(*uids: str) -> dict[str, Any]:
    return {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": 1}


def watched() -> Watched:
    return Watched().listing(node("good", RDMA), node("plain"))


def test_candidates_that_the_filters_reject_or_nobody_knows_are_dropped() -> None:
    verbs = verbs_of([Needs()], watched=watched())
    assert kept(verbs, preempt_request(VICTIMS)) == {"good": victims("u1", "u2")}


def test_an_unknown_candidate_is_dropped_even_where_the_filter_would_pass_it() -> None:
    verbs = verbs_of([RejectsNamed(["good"])], watched=watched())
    assert kept(verbs, preempt_request(VICTIMS)) == {"plain": victims("u3")}


def test_full_mode_answers_with_uids_of_nodes_that_earlier_requests_brought() -> None:
    verbs = verbs_of([Needs()])
    verbs.filter(full_request([node("good", RDMA), node("plain")]))
    assert kept(verbs, full_preempt_request(VICTIMS)) == {"good": victims("u1", "u2")}


@pytest.mark.parametrize(
    ("filters", "of"), [([Needs()], pod(scheduler="other")), ([], pod()), ([], pod("x"))]
)
def test_every_candidate_stays_where_no_filter_is_for_the_pod(
    filters: list[Needs], of: object
) -> None:
    expected = {name: victims(*uids) for name, uids in VICTIMS.items()}
    for source in (None, watched(), Watched(synced=False)):
        assert kept(verbs_of(filters, watched=source), preempt_request(VICTIMS, of)) == expected


EMPTY_MAPS = [
    ("not synced", [Needs()], Watched(synced=False), preempt_request(VICTIMS)),
    ("nothing known", [Needs()], None, preempt_request(VICTIMS)),
    ("nothing known, full", [Needs()], None, full_preempt_request(VICTIMS)),
    ("a filter fails", [Breaks()], watched(), preempt_request(VICTIMS)),
    ("no pod", [Needs()], watched(), preempt_request(VICTIMS, None)),
    ("both maps null", [Needs()], watched(), b'{"Pod":{"metadata":{}}}'),
    ("null", [Needs()], watched(), b"null"),
    ("all rejected", [Needs("other")], watched(), preempt_request(VICTIMS)),
]


@pytest.mark.parametrize(("why", "filters", "source", "body"), EMPTY_MAPS)
def test_the_map_is_empty_and_never_null_where_nothing_may_be_evicted(
    why: str, filters: list[Any], source: Watched | None, body: bytes
) -> None:
    del why
    assert verbs_of(filters, watched=source).preempt(body) == EMPTY


def test_nobody_is_evicted_though_the_failing_filter_may_be_ignored() -> None:
    ignored = frozenset({"Breaks"})
    profile = Profile("default-scheduler", filter=[Breaks(), Needs()], ignored=ignored)
    verbs = make_verbs(Profiles.of([profile]), watched=watched())
    assert verbs.preempt(preempt_request(VICTIMS)) == EMPTY


def test_a_failing_filter_is_counted() -> None:
    verbs = verbs_of([Breaks()], watched=watched())
    verbs.preempt(preempt_request(VICTIMS))
    failures = counted(
        verbs, "kubextend_plugin_failures_total", plugin="Breaks", extension_point="Filter"
    )
    assert failures == 1


class Room:
    """Two pods a node at most; counted by the per-node view, or by the Handle."""

    name = "Room"
    needs_pods = True

    def __init__(self, handle: Handle | None) -> None:
        if handle is None:
            self.filter = lambda _state, _pod, info: FULL if len(info.pods) > 1 else None
        else:
            self.filter_nodes = lambda state, _pod, nodes: [
                Rejection(core.Mask([n > 1 for n in counted_by(handle, state, nodes)]), FULL)
            ]


FULL = Status.unschedulable("no room")


def counted_by(handle: Handle, state: CycleState, nodes: core.Nodes) -> list[int]:
    snapshot = handle.pods(state)
    assert snapshot is not None
    return list(snapshot.requested(nodes, "pods"))


@dataclass
class Pods:
    store: core.PodStore
    synced: bool = True


def on_node(name: str, where: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "ml", "uid": f"uid-of-{name}"}
    return {"metadata": metadata, "spec": {"nodeName": where}}


@pytest.mark.parametrize("grain", ["per node", "at once"])
def test_filters_see_the_candidates_without_their_victims(grain: str) -> None:
    placed = {"good": ["a", "b", "c"], "plain": ["d", "e", "f"]}
    store = core.PodStore()
    for where, there in placed.items():
        for name in there:
            store.apply(watch_event("ADDED", on_node(name, where)))
    handle = Handle(WaitingPods(), ClusterPorts(pods=Pods(store)))
    room: Any = Room(None if grain == "per node" else handle)
    profile = Profile("default-scheduler", filter=[room], pods=store.snapshot)
    verbs = make_verbs(Profiles.of([profile]), watched=watched())
    # Two of three leave good, one leaves plain: only good has room for one more then.
    gone = {"good": ["uid-of-a", "uid-of-c"], "plain": ["uid-of-e"]}
    assert kept(verbs, preempt_request(gone)) == {"good": victims("uid-of-a", "uid-of-c")}
    assert len(store.snapshot()) == 6
    full = {"NodeNames": None, "Error": ""}
    asked = json.loads(verbs.filter(names_request(["good", "plain"])))
    assert {key: asked[key] or full[key] for key in full} == full


@pytest.mark.parametrize(("seconds_each", "offered"), [(0.0, 4), (0.5, 3), (1.0, 1), (2.0, 0)])
def test_candidates_whose_turn_comes_too_late_are_not_offered(
    seconds_each: float, offered: int
) -> None:
    class Looks:
        name = "Looks"

        def filter_nodes(self, state: CycleState, *_: Any) -> list[Rejection]:
            handle.pods(state)
            clock.now_s += seconds_each
            return []

    clock, store = Clock(), core.PodStore()
    handle = Handle(WaitingPods(), ClusterPorts(pods=Pods(store)))
    names = ["a", "b", "c", "d"]
    profile = Profile("default-scheduler", filter=[Looks()], pods=store.snapshot)
    nodes = Watched().listing(*map(node, names))
    verbs = make_verbs(
        Profiles.of([profile]), watched=nodes, http_timeout_s=4.0, limits=PluginLimits(clock)
    )
    answer = verbs.preempt(preempt_request({name: [f"u-{name}"] for name in names}))
    assert list(json.loads(bytes(answer))["NodeNameToMetaVictims"]) == names[:offered]


@pytest.mark.parametrize("body", [b"", b"[]", b'{"NodeNameToMetaVictims":3}'])
def test_what_cannot_be_read_raises(body: bytes) -> None:
    with pytest.raises(WireError):
        verbs_of([Needs()]).preempt(body)


def test_the_candidates_are_counted() -> None:
    verbs = verbs_of([Needs()], watched=watched())
    verbs.preempt(preempt_request(VICTIMS))
    assert counted(verbs, "kubextend_verb_nodes_count", verb="preempt") == 1
    assert counted(verbs, "kubextend_verb_nodes_sum", verb="preempt") == len(VICTIMS)
