import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.doors.prometheus import AT, answer, series

from kubextend.prometheus import NodeLabel, PrometheusError, read_vector

INSTANCE = NodeLabel("instance")


@pytest.mark.parametrize(
    ("result", "by_node", "dropped"),
    [
        ([], {}, {}),
        ([series("1.5", instance="a:9100")], {"a": 1.5}, {}),
        ([series("-1e3", instance="a"), series("2", instance="b")], {"a": -1000.0, "b": 2.0}, {}),
        *(([series(x, instance="a")], {}, {"not_finite": 1}) for x in ("NaN", "-Inf", "1e999")),
        ([series("1", node="a")], {}, {"no_node": 1}),
        ([series("1", instance=":9100")], {}, {"no_node": 1}),
        ([series("1", instance="a:1"), series("2", instance="a:2")], {}, {"duplicate": 2}),
        ([series("1", instance="a")] * 3, {}, {"duplicate": 3}),
        ([series(x, instance="a") for x in ("1", "NaN")], {}, {"duplicate": 2}),
        ([series(x, instance="a") for x in ("NaN", "1")], {}, {"not_finite": 1, "duplicate": 1}),
        ([series(1.5, instance="a")], {}, {"malformed": 1}),
        ([series("fast", instance="a")], {}, {"malformed": 1}),
        ([{"metric": {"instance": "a"}, "histogram": [AT, {}]}], {}, {"malformed": 1}),
        ([{"metric": {"instance": "a"}, "value": "1"}], {}, {"malformed": 1}),
        ([{"metric": {"instance": "a"}, "value": None}], {}, {"malformed": 1}),
        ([{"metric": ["instance"], "value": [AT, "1"]}], {}, {"malformed": 1}),
        ([{"value": [AT, "1"]}], {}, {"malformed": 1}),
        ([{"metric": {"instance": 7}, "value": [AT, "1"]}], {}, {"no_node": 1}),
        ([series("1", instance="a"), None, 1, "a", []], {"a": 1.0}, {"malformed": 4}),
    ],
)
def test_a_series_that_cannot_be_believed_is_left_out_and_counted(
    result: list[object], by_node: dict[str, float], dropped: dict[str, int]
) -> None:
    vector = read_vector(answer(*result), INSTANCE)
    assert vector.by_node == by_node
    assert vector.dropped == dropped


@pytest.mark.parametrize(
    ("pattern", "value", "node"),
    [
        (None, "worker-1.example.com", "worker-1.example.com"),
        (r"(.+)\.example\.com", "worker-1.example.com:9100", "worker-1"),
        (r"(.+)\.example\.com", "worker-1.elsewhere.com", None),
        (r"(.+)\.example\.com", "worker-1.example.com.evil", None),
        (r"node/(.*)", "node/", None),
        (r"a|b(.)", "a", None),
    ],
)
def test_a_pattern_takes_the_name_out_of_the_whole_label(
    pattern: str | None, value: str, node: str | None
) -> None:
    assert NodeLabel("instance", pattern).node_of({"instance": value}) == node


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b"", "no JSON"),
        (b"<html><body>Bad gateway</body></html>", "no JSON"),
        (answer(series("1", instance="a"))[:-1], "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"\xff", "no JSON"),
        (b"null", "not that of Prometheus"),
        (b"[]", "not that of Prometheus"),
        (b'{"status":"success"}', "not that of Prometheus"),
        (b'{"status":"success","data":[]}', "not that of Prometheus"),
        (b'{"status":"error","error":"query timed out"}', "query timed out"),
        (b'{"status":"success","data":{"resultType":"matrix","result":[]}}', "yields a matrix"),
        (b'{"status":"success","data":{"resultType":"vector","result":{}}}', "yields a vector"),
        (b"[" + b"{}," * 500_000, "more than 1000000 JSON values"),
    ],
)
def test_a_body_that_is_no_instant_vector_is_an_error_that_says_so(
    body: bytes, complaint: str
) -> None:
    with pytest.raises(PrometheusError, match=complaint):
        read_vector(body, INSTANCE)


def test_the_answer_tells_when_it_was_evaluated() -> None:
    body = answer(series("1", at=AT, instance="a"), series("1", at=AT + 1.5, instance="b"))
    assert read_vector(body, INSTANCE).evaluated_at == AT + 1.5
    assert read_vector(answer(), INSTANCE).evaluated_at is None


_LEAVES = st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
_ANY = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
_NUMBERS = st.sampled_from(["1", "-2.5", "NaN", "+Inf", "-Inf", "1e308", "x", ""])
_SERIES = st.builds(lambda of, x: series(x, instance=of), st.sampled_from("abc"), _NUMBERS)


def is_number(entry: object) -> bool:
    if not isinstance(entry, dict) or "instance" not in (entry.get("metric") or ()):
        return False
    try:
        float(entry["value"][1])
    except ValueError:
        return False
    return True


@given(st.lists(_SERIES | _ANY, max_size=20))
def test_only_finite_numbers_of_nodes_that_came_once_are_left(result: list[object]) -> None:
    vector = read_vector(answer(*result), INSTANCE)
    named = [entry["metric"]["instance"] for entry in result if is_number(entry)]
    for node, value in vector.by_node.items():
        assert math.isfinite(value)
        assert named.count(node) == 1
    assert sum(vector.dropped.values()) + len(vector.by_node) == len(result)
