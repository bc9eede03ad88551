import json
import logging
from typing import Any

import pytest
from verb_world import (
    RDMA,
    Breaks,
    Needs,
    Scores,
    Watched,
    counted,
    full_request,
    names_request,
    node,
    pod,
    verbs_of,
)

from kubextend import core
from kubextend.errors import WireError
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.status import Status
from kubextend.profile import Profile, Profiles
from kubextend.verbs import Verbs
from make_verbs import make_verbs

NODES = [node("good", RDMA), node("plain")]


def scores(verbs: Verbs, body: bytes) -> dict[str, int]:
    """Host to score; every host once."""
    listed = json.loads(verbs.prioritize(body))
    hosts = {entry["Host"]: entry["Score"] for entry in listed}
    assert len(hosts) == len(listed)
    return hosts


# The answer is round(sum(weight * score) / 10), halves away from zero.
ADDITIVE = [
    ([(100, 1)], 10),
    ([(50, 1)], 5),
    ([(5, 1)], 1),
    ([(4, 1)], 0),
    ([(100, 3)], 30),
    ([(100, 1), (50, 2)], 20),
    ([(7, 1), (8, 1)], 2),
]


@pytest.mark.parametrize(("parts", "expected"), ADDITIVE)
def test_weighted_scores_add_up_to_points_of_ten(
    parts: list[tuple[int, int]], expected: int
) -> None:
    verbs = verbs_of(scores=[(Scores(score), weight) for score, weight in parts])
    assert scores(verbs, full_request(NODES)) == {"good": expected, "plain": 0}


def test_strict10_stays_within_ten_whatever_the_weights() -> None:
    verbs = verbs_of(scores=[(Scores(100), 7), (Scores(100), 5)], score_scale="strict10")
    assert scores(verbs, full_request(NODES)) == {"good": 10, "plain": 0}


def test_names_mode_scores_what_is_watched() -> None:
    watched = Watched().listing(*NODES)
    verbs = verbs_of(scores=[(Scores(100), 1)], watched=watched)
    names = ["plain", "unknown", "good"]
    assert scores(verbs, names_request(names)) == {"plain": 0, "unknown": 0, "good": 10}


NOTHING_TO_SAY = [
    ([], full_request(NODES), "ok"),
    ([(Scores(9), 1)], full_request(NODES, pod(scheduler="other")), "unknown_scheduler"),
]


@pytest.mark.parametrize(("plugins", "body", "result"), NOTHING_TO_SAY)
def test_where_there_is_nothing_to_say_the_list_is_empty(
    plugins: list[tuple[Scores, int]], body: bytes, result: str
) -> None:
    verbs = verbs_of(scores=plugins)
    assert verbs.prioritize(body) == b"[]"
    labels = {"verb": "prioritize", "result": result}
    assert counted(verbs, "kubextend_verb_requests_total", **labels) == 1


UNDECIDABLE = [
    ("both null", None, b'{"Pod":{},"Nodes":null,"NodeNames":null}'),
    ("no pod", None, names_request(["a"], None)),
    ("no cache", None, names_request(["a"])),
    ("not synced", Watched(synced=False), names_request(["a"])),
]


@pytest.mark.parametrize(("why", "watched", "body"), UNDECIDABLE)
def test_what_cannot_be_decided_adds_nothing_and_counts_as_an_error(
    why: str, watched: Watched | None, body: bytes
) -> None:
    del why
    verbs = verbs_of(scores=[(Scores(100), 1)], watched=watched)
    assert verbs.prioritize(body) == b"[]"
    assert counted(verbs, "kubextend_verb_requests_total", verb="prioritize", result="error") == 1


def test_a_failing_plugin_is_left_out_named_counted_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    verbs = verbs_of(scores=[(Scores(100), 1), (Breaks(), 5), (Scores(50), 2)])
    with caplog.at_level(logging.ERROR, "kubextend"):
        assert scores(verbs, full_request(NODES)) == {"good": 20, "plain": 0}
    assert '"Breaks"' in caplog.text
    failures = counted(
        verbs, "kubextend_plugin_failures_total", plugin="Breaks", extension_point="Score"
    )
    assert failures == 1


@pytest.mark.parametrize("score", [-1, 101, 10**30])
def test_a_plugin_that_leaves_its_range_is_left_out(score: int) -> None:
    wild = Scores(score, name="Wild")
    verbs = verbs_of(scores=[(wild, 1), (Scores(100), 1)])
    assert scores(verbs, full_request(NODES)) == {"good": 10, "plain": 0}
    failures = counted(
        verbs, "kubextend_plugin_failures_total", plugin="Wild", extension_point="Score"
    )
    assert failures == 1


def test_where_every_plugin_fails_the_list_is_empty() -> None:
    verbs = verbs_of(scores=[(Breaks(), 1)])
    assert verbs.prioritize(full_request(NODES)) == b"[]"
    assert counted(verbs, "kubextend_verb_requests_total", verb="prioritize", result="error") == 1


def test_what_cannot_be_read_raises() -> None:
    with pytest.raises(WireError):
        verbs_of().prioritize(b"{")


class Prepares:
    """Its Score needs what its PreFilter wrote."""

    name = "Prepares"

    def pre_filter(self, state: CycleState, _pod: core.Pod, _nodes: core.Nodes) -> None:
        state.write("points", 70)

    def score(self, state: CycleState, _pod: core.Pod, _node: core.NodeInfo) -> int:
        points = state.read("points")
        assert isinstance(points, int)
        return points


class BreaksBefore:
    name = "BreaksBefore"

    def pre_filter(self, _state: CycleState, _pod: core.Pod, _nodes: core.Nodes) -> None:
        raise RuntimeError


def test_a_lost_attempt_is_made_anew_past_a_pre_filter_that_may_be_ignored() -> None:
    prepares = Prepares()
    profile = Profile(
        "default-scheduler",
        pre_filter=[BreaksBefore(), prepares],
        score=[(prepares, 1)],
        ignored=frozenset({"BreaksBefore"}),
    )
    verbs = make_verbs(Profiles.of([profile]))
    assert scores(verbs, full_request(NODES)) == {"good": 7, "plain": 7}


class SkipsOnce(Scores):
    """Its PreScore takes it out of the first call of an attempt, and of no other."""

    skips = True

    def pre_score(self, *_: Any) -> Status | None:
        skips, self.skips = self.skips, False
        return Status.skip() if skips else None


def test_a_pre_score_that_skips_takes_its_score_out_of_that_call_alone() -> None:
    plugin = SkipsOnce(100)
    profile = Profile(
        "default-scheduler", filter=[Needs("")], pre_score=[plugin], score=[(plugin, 1)]
    )
    verbs = make_verbs(Profiles.of([profile]))
    verbs.filter(full_request(NODES))
    assert scores(verbs, full_request(NODES)) == {}
    assert scores(verbs, full_request(NODES)) == {"good": 10, "plain": 0}


def test_where_the_only_plugin_fails_in_pre_score_the_call_counts_as_an_error() -> None:
    plugin = Scores(100)
    plugin.pre_score = Breaks().score_nodes  # type: ignore[attr-defined]
    profile = Profile("default-scheduler", pre_score=[plugin], score=[(plugin, 1)])  # type: ignore[list-item]
    verbs = make_verbs(Profiles.of([profile]))
    assert verbs.prioritize(full_request(NODES)) == b"[]"
    assert counted(verbs, "kubextend_verb_requests_total", verb="prioritize", result="error") == 1


def test_an_attempt_whose_filter_failed_is_not_the_one_that_is_scored() -> None:
    asked: list[int] = []

    class Once(Prepares):
        def pre_filter(self, state: CycleState, _pod: core.Pod, _nodes: core.Nodes) -> None:
            asked.append(1)
            state.write("points", 10 * len(asked))

    plugin = Once()
    profile = Profile(
        "default-scheduler", pre_filter=[plugin], filter=[Breaks()], score=[(plugin, 1)]
    )
    verbs = make_verbs(Profiles.of([profile]))
    assert json.loads(verbs.filter(full_request(NODES)))["Error"]
    assert scores(verbs, full_request(NODES)) == {"good": 2, "plain": 2}


def test_a_plugin_whose_pre_score_failed_is_not_asked_for_its_score() -> None:
    unprepared, other = Scores(100, name="Unprepared"), Scores(50)
    unprepared.pre_score = Breaks().score_nodes  # type: ignore[attr-defined]
    profile = Profile(
        "default-scheduler",
        pre_score=[unprepared],  # type: ignore[list-item]
        score=[(unprepared, 1), (other, 1)],
    )
    verbs = make_verbs(Profiles.of([profile]))
    assert scores(verbs, full_request(NODES)) == {"good": 5, "plain": 0}


def test_an_attempt_that_is_scored_is_still_there_afterwards() -> None:
    asked: list[int] = []

    class Asked(Prepares):
        def pre_filter(self, state: CycleState, _pod: core.Pod, _nodes: core.Nodes) -> None:
            asked.append(1)
            state.write("points", 70)

    plugin = Asked()
    profile = Profile("default-scheduler", pre_filter=[plugin], score=[(plugin, 1)])
    verbs = make_verbs(Profiles.of([profile]))
    verbs.filter(full_request(NODES))
    for _ in range(2):
        assert scores(verbs, full_request(NODES)) == {"good": 7, "plain": 7}
    assert len(asked) == 1
