import json
from typing import Any

import pytest
from verb_world import (
    RDMA,
    Breaks,
    Clock,
    Needs,
    Pods,
    RejectsNamed,
    Watched,
    counted,
    full_preempt_request,
    full_request,
    group_preempt_request,
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
from kubextend.verbs.answer import ABSTAINS
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
    ("filters", "of"), [([Needs()], pod(scheduler="passed-through")), ([], pod()), ([], pod("x"))]
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
    handle = Handle(WaitingPods(), ClusterPorts(pods=Pods(store=store)))
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
    handle = Handle(WaitingPods(), ClusterPorts(pods=Pods(store=store)))
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


# A group of two pods, which kube-scheduler evicts together, and a pod of its own.
GROUP = {"g1": "good", "g2": "other"}
ALONE = {"u1": "plain"}


def abstains(verbs: Verbs, body: bytes) -> bool:
    return verbs.preempt(body) == ABSTAINS.body


def in_a_group() -> Watched:
    return Watched().listing(node("good", RDMA), node("other", RDMA), node("plain"))


def group_verbs(filters: list[Any], source: Watched | None = ..., *, groups: bool = True) -> Verbs:  # type: ignore[assignment]
    watched = in_a_group() if source is ... else source
    return verbs_of(filters, watched=watched, preempt_groups=groups)


@pytest.mark.parametrize("candidates", [["good"], ["good", "other"]])
def test_preempt_abstains_where_every_candidate_passes_and_victims_are_on_other_nodes(
    candidates: list[str],
) -> None:
    body = group_preempt_request(dict.fromkeys(candidates, GROUP))
    assert abstains(group_verbs([Needs()]), body)


def test_victims_on_their_candidates_are_named_where_every_candidate_passes() -> None:
    body = group_preempt_request({"good": {"g1": "good"}, "other": {"g2": "other"}})
    verbs = group_verbs([Needs()])
    assert kept(verbs, body) == {"good": victims("g1"), "other": victims("g2")}


def test_where_a_candidate_fails_only_victims_on_the_candidates_are_named() -> None:
    """kube-scheduler would refuse any other answer, and evict pods of the candidate that failed."""
    verbs = group_verbs([Needs()])
    body = group_preempt_request({"good": GROUP, "plain": ALONE})
    assert kept(verbs, body) == {"good": victims("g1")}


def test_a_candidate_with_all_its_victims_goes_before_one_that_would_lose_a_part_of_a_group() -> (
    None
):
    body = group_preempt_request({"good": GROUP, "other": {"u2": "other"}, "plain": ALONE})
    verbs = group_verbs([Needs()])
    assert kept(verbs, body) == {"other": victims("u2")}


NEVER_ABSTAINS = [
    ("not synced", [Needs()], Watched(synced=False), pod()),
    ("nothing known", [Needs()], None, pod()),
    ("a filter fails", [Breaks()], in_a_group(), pod()),
    ("no pod", [Needs()], in_a_group(), None),
    ("all rejected", [Needs("other")], in_a_group(), pod()),
]


@pytest.mark.parametrize(("why", "filters", "source", "of"), NEVER_ABSTAINS)
def test_preempt_never_abstains_where_not_every_candidate_was_judged_to_pass(
    why: str, filters: list[Any], source: Watched | None, of: object
) -> None:
    del why
    body = group_preempt_request({"good": GROUP}, of)
    assert group_verbs(filters, source).preempt(body) == EMPTY


@pytest.mark.parametrize(
    ("filters", "of"), [([Needs()], pod(scheduler="passed-through")), ([], pod())]
)
def test_preempt_abstains_for_a_pod_that_no_filter_is_for(filters: list[Needs], of: object) -> None:
    body = group_preempt_request({"good": GROUP, "plain": ALONE}, of)
    verbs = group_verbs(filters)
    assert abstains(verbs, body)
    assert counted(verbs, "kubextend_verb_requests_total", verb="preempt", result="ok") == 1


def test_victims_whose_nodes_the_request_does_not_say_are_named() -> None:
    body = preempt_request({"good": ["g1", "g2"]})
    assert kept(group_verbs([Needs()]), body) == {"good": victims("g1", "g2")}


def test_without_preempt_groups_only_candidates_with_all_their_victims_are_offered() -> None:
    body = group_preempt_request({"good": GROUP, "other": {"u2": "other"}})
    for filters in ([Needs()], []):
        verbs = group_verbs(filters, groups=False)
        assert kept(verbs, body) == {"other": victims("u2")}
        assert verbs.preempt(group_preempt_request({"good": GROUP})) == EMPTY
