import json
from typing import Any

import pytest
from verb_world import (
    RDMA,
    Breaks,
    Needs,
    Watched,
    counted,
    full_preempt_request,
    full_request,
    node,
    pod,
    preempt_request,
    verbs_of,
)

from kubextend.errors import WireError
from kubextend.verbs import Verbs

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
    verbs = verbs_of([Needs("!rdma")], watched=watched())
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


def test_a_failing_filter_is_counted() -> None:
    verbs = verbs_of([Breaks()], watched=watched())
    verbs.preempt(preempt_request(VICTIMS))
    failures = counted(
        verbs, "kubextend_plugin_failures_total", plugin="Breaks", extension_point="Filter"
    )
    assert failures == 1


@pytest.mark.parametrize("body", [b"", b"[]", b'{"NodeNameToMetaVictims":3}'])
def test_what_cannot_be_read_raises(body: bytes) -> None:
    with pytest.raises(WireError):
        verbs_of([Needs()]).preempt(body)
