"""The prioritize verb: points of ten for nodes, and an empty list where there is nothing to say."""

from itertools import count
from typing import Any

import pytest
from tests.doors.wire import (
    Plugin,
    Wire,
    answers,
    names_request,
    needs,
    node,
    pod,
    raises,
    scores,
    whole_request,
)

from kubextend import Status
from kubextend.framework import CycleState

NODES = [node("good"), node("plain")]
BROKEN = raises(RuntimeError("0x7f3a"))


def failures(wire: Wire, name: str, point: str = "Score") -> float:
    labels = {"plugin": name, "extension_point": point}
    return wire.metric("kubextend_plugin_failures_total", **labels)


# The answer is round(sum(weight * score) / 10), halves away from zero.
@pytest.mark.parametrize(
    ("parts", "points"),
    [
        ([(100, 1)], 10),
        ([(50, 1)], 5),
        ([(5, 1)], 1),
        ([(4, 1)], 0),
        ([(100, 3)], 30),
        ([(100, 1), (50, 2)], 20),
        ([(7, 1), (8, 1)], 2),
    ],
)
def test_weighted_scores_add_up_to_points_of_ten(parts: list[tuple[int, int]], points: int) -> None:
    plugins = [scores(f"S{number}", good=score) for number, (score, _) in enumerate(parts)]
    weights = {f"S{number}": weight for number, (_, weight) in enumerate(parts)}
    said = Wire(*plugins, weights=weights).prioritize(pod(), whole=NODES)
    assert said.json == [{"Host": "good", "Score": points}, {"Host": "plain", "Score": 0}]


def test_strict10_stays_within_ten_whatever_the_weights() -> None:
    plugins, weights = [scores("A", good=100), scores("B", good=100)], {"A": 7, "B": 5}
    wire = Wire(*plugins, weights=weights, settings={"scoreScale": "strict10"})
    assert wire.prioritize(pod(), whole=NODES).scores == {"good": 10, "plain": 0}


def test_names_that_the_watch_has_not_brought_are_scored_too() -> None:
    wire = Wire(scores(good=100), nodes=NODES)
    said = wire.prioritize(pod(), ["plain", "unknown", "good"])
    assert said.scores == {"plain": 0, "unknown": 0, "good": 10}


@pytest.mark.parametrize(
    ("body", "result"),
    [
        (whole_request(pod(scheduler_name="typo"), NODES), "unknown_scheduler"),
        (whole_request(pod(scheduler_name="other"), NODES), "ok"),
        (b'{"Pod":{},"Nodes":null,"NodeNames":null}', "error"),
        (names_request(None, ["good"]), "error"),
        (names_request(pod(), ["good"]), "error"),
    ],
    ids=["unknown scheduler", "passed through", "no nodes", "no pod", "nodes are not listed"],
)
def test_where_there_is_nothing_to_say_the_list_is_empty(body: bytes, result: str) -> None:
    wire = Wire(scores(good=100), nodes=NODES, settings={"passThrough": ["other"]})
    wire.nodes.synced = False
    assert wire.post("/prioritize", body).body == b"[]"
    assert wire.metric("kubextend_verb_requests_total", verb="prioritize", result=result) == 1


WILD: dict[str, Any] = {
    "raises Exception": raises(RuntimeError("0x7f3a")),
    "raises as a panic of the core does": raises(BaseException("panic")),
    "answers None": answers(None),
    "answers too few": answers([1]),
    "answers too many": answers([1, 2, 3]),
    "answers bytes": answers(b"\x01\x02"),
    "answers NaN": answers([float("nan"), 1]),
    "answers numbers with a point": answers([1.5, 2.5]),
    "answers 10^30": answers([10**30, 1]),
    "answers 101": answers([101, 1]),
    "answers -1": answers([-1, 1]),
}


@pytest.mark.parametrize("wild", WILD)
def test_a_plugin_that_fails_is_left_out_named_and_counted_and_the_others_count(
    wild: str, caplog: pytest.LogCaptureFixture
) -> None:
    plugins = [scores("A", good=100), Plugin("Wild", score_nodes=WILD[wild]), scores("B", good=50)]
    wire = Wire(*plugins, weights={"Wild": 5, "B": 2})
    assert wire.prioritize(pod(), whole=NODES).scores == {"good": 20, "plain": 0}
    assert failures(wire, "Wild") == 1
    assert 'Wild" Score plugin' in caplog.text


@pytest.mark.parametrize("methods", [{"score": BROKEN}, {"pre_score": BROKEN, "score": answers(9)}])
def test_where_every_plugin_fails_the_list_is_empty(methods: dict[str, Any]) -> None:
    wire = Wire(Plugin(**methods))
    assert wire.prioritize(pod(), whole=NODES).body == b"[]"
    assert wire.metric("kubextend_verb_requests_total", verb="prioritize", result="error") == 1


def test_a_plugin_whose_pre_score_failed_is_not_asked_for_its_score() -> None:
    unprepared = Plugin("Unprepared", pre_score=BROKEN, score=answers(100))
    wire = Wire(unprepared, scores(good=50))
    assert wire.prioritize(pod(), whole=NODES).scores == {"good": 5, "plain": 0}
    assert failures(wire, "Unprepared", "PreScore") == 1


def test_a_pre_score_that_skips_takes_its_score_out_of_that_call_alone() -> None:
    skips = [Status.skip()]
    once = Plugin(pre_score=lambda *_: skips.pop() if skips else None, score=answers(100))
    wire = Wire(needs("!x"), once)
    wire.filter(pod(), whole=NODES)
    assert wire.prioritize(pod(), whole=NODES).scores == {}
    assert wire.prioritize(pod(), whole=NODES).scores == {"good": 10, "plain": 10}


def prepares() -> Plugin:
    """Return a plugin whose score is ten times the number of its PreFilter calls."""
    points = count(10, 10)
    return Plugin(
        "Prepares",
        pre_filter=lambda state, *_: state.write("points", next(points)),
        score=lambda state, *_: state.read("points"),
    )


def test_prioritize_scores_what_filter_prepared_however_often_it_is_called() -> None:
    wire = Wire(prepares())
    wire.filter(pod(), whole=NODES)
    for _ in range(2):
        assert wire.prioritize(pod(), whole=NODES).scores == {"good": 1, "plain": 1}


def test_prioritize_prepares_an_attempt_that_filter_failed_in_or_that_is_lost() -> None:
    wire = Wire(prepares(), Plugin("Breaks", filter=BROKEN))
    assert wire.filter(pod(), whole=NODES).error
    assert wire.prioritize(pod(), whole=NODES).scores == {"good": 2, "plain": 2}


def test_prioritize_prepares_a_lost_attempt_past_a_pre_filter_that_may_be_ignored() -> None:
    wire = Wire(Plugin("Breaks", pre_filter=BROKEN), prepares(), ignored=["Breaks"])
    assert wire.prioritize(pod(), whole=NODES).scores == {"good": 1, "plain": 1}


def test_each_call_begins_an_attempt_where_the_profile_has_no_filter() -> None:
    found: list[bool] = []

    def prepare(state: CycleState, *_: object) -> None:
        try:
            found.append(bool(state.read("points")))
        except KeyError:
            found.append(False)
        state.write("points", 50)

    wire = Wire(Plugin(pre_score=prepare, score=lambda state, *_: state.read("points")))
    for _ in range(2):
        assert wire.prioritize(pod(), whole=NODES).scores == {"good": 5, "plain": 5}
    # What a plugin found out in an earlier attempt may be wrong by now.
    assert found == [False, False]
