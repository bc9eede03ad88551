"""What is read from requests, and the writers of answers."""

import array
import json

import pytest
from tests.doors import core_objects as world

from kubextend import core

THREE = [world.node(name) for name in "abc"]


@pytest.mark.parametrize("length", [0, 2, 4])
def test_a_mask_of_another_length_is_refused(length: int) -> None:
    args = core.read_args(world.full(THREE))
    mask = core.Mask([True] * length)
    message = f"a mask of {length} nodes where there are 3"
    with pytest.raises(ValueError, match=message):
        args.filter_result(mask, "no")
    with pytest.raises(ValueError, match=message):
        args.filter_answer([(mask, "no", True)])


MASK = core.Mask([True])


@pytest.mark.parametrize(
    "entries", [None, 7, [7], [(MASK, "no")], [([True], "no", True)], [(MASK, 1, True)]]
)
def test_entries_of_another_shape_are_refused(entries: object) -> None:
    # A tuple of another length is a ValueError, as when Python unpacks it.
    with pytest.raises((TypeError, ValueError)):
        core.read_args(world.names(["a"])).filter_answer(entries)


def test_scores_are_sequences_or_buffers_of_int64() -> None:
    expected = (1, -2, 1 << 40)
    packed, spread = array.array("q", expected), array.array("q", [1, 0, -2, 0, 1 << 40])
    for scores in ([*expected], expected, packed, memoryview(packed), memoryview(spread)[::2]):
        answer = json.loads(core.read_args(world.full(THREE)).prioritize_result(scores))
        assert [each["Host"] for each in answer] == ["a", "b", "c"]
        assert tuple(each["Score"] for each in answer) == expected


@pytest.mark.parametrize("scores", [[], [1, 2], [1, 2, 3, 4], array.array("q", [1])])
def test_a_score_too_many_or_too_few_is_a_value_error(scores: list[int]) -> None:
    with pytest.raises(ValueError, match=f"{len(scores)} scores for 3 nodes"):
        core.read_args(world.full(THREE)).prioritize_result(scores)


@pytest.mark.parametrize(
    ("scores", "error"),
    [
        ([1, 2, None], TypeError),
        ([1, 2, float("nan")], TypeError),
        ([1, 2, "3"], TypeError),
        ([1, 2, 10**30], OverflowError),
        ("123", TypeError),
        (None, TypeError),
        ({0: 1, 1: 2, 2: 3}, TypeError),
        (array.array("d", [1, 2, 3]), TypeError),
    ],
)
def test_what_is_not_an_int64_is_no_score(scores: object, error: type[Exception]) -> None:
    with pytest.raises(error):
        core.read_args(world.full(THREE)).prioritize_result(scores)


TWICE = "byte 32: Nodes.items[0]: given twice, so that the nodes could not be sent back as they"
TWICE += " came in"


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"", "byte 0: the body ends too early"),
        (b"[]", "byte 0: expected an object, found a list"),
        (b'{"NodeNames":[1]}', "byte 14: NodeNames[0]: expected a string, found a number"),
        (
            b'{"Pod":{"metadata":{"labels":{"a":{}}}}}',
            "byte 34: Pod.metadata.labels: expected a string, found an object",
        ),
        (b'{"a":"\xff"}', "byte 6: not UTF-8"),
        (b"{}{}", "byte 2: unexpected data behind the end of the JSON value"),
        (b'{"Nodes":{"items":[{}],"items":[{}]}}', TWICE),
    ],
)
def test_a_body_that_cannot_be_read_is_a_wire_error_that_says_where(
    body: bytes, sentence: str
) -> None:
    with pytest.raises(core.WireError) as caught:
        core.read_args(body)
    assert str(caught.value) == sentence
    assert isinstance(caught.value, core.KubextendError)
    assert type(caught.value).__module__ == "kubextend.errors"


@pytest.mark.parametrize("body", [None, "{}", memoryview(b"{}"), [123, 125]])
def test_a_body_is_bytes(body: object) -> None:
    with pytest.raises(TypeError):
        core.read_args(body)


WHOLE = {"Pods": [{"metadata": {"uid": "u1"}}, None, {"metadata": {}}], "NumPDBViolations": 3}
META = {"Pods": [{"UID": "u1"}, None, {}], "NumPDBViolations": 3}


@pytest.mark.parametrize(
    "body",
    [
        {"NodeNameToVictims": {"b": WHOLE, "a": {}, "gone": None}},
        {"NodeNameToMetaVictims": {"b": META, "a": {"Pods": None}, "gone": None}},
        {"NodeNameToMetaVictims": {"b": META, "a": {}}, "NodeNameToVictims": {"other": {}}},
        {"nodenametometavictims": {"b": META, "a": {}}},
    ],
)
def test_both_forms_of_victims_give_the_same_candidates_and_answer(body: world.Json) -> None:
    args = core.read_preemption_args(world.compact({"Pod": world.pod("p"), **body}))
    assert args.nodes.names == ["a", "b"]
    assert args.victims == [([], 0), (["u1", ""], 3)]
    assert args.pod.name == "p"
    left = {"Pods": [{"UID": "u1"}, {"UID": ""}], "NumPDBViolations": 3}
    answer = json.loads(args.result(core.Mask([False, True])))
    assert answer == {"NodeNameToMetaVictims": {"b": left}}
    assert args.result(core.Mask([False, False])) == b'{"NodeNameToMetaVictims":{}}'


def test_a_preemption_that_cannot_be_read_is_a_wire_error_that_says_where() -> None:
    with pytest.raises(core.WireError) as caught:
        core.read_preemption_args(b'{"NodeNameToMetaVictims":{"a":{"NumPDBViolations":1.5}}}')
    where = "byte 50: NodeNameToMetaVictims.NumPDBViolations"
    assert str(caught.value) == f"{where}: expected an integer of 64 bits"
