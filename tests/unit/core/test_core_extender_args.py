"""``read_args`` and ``ExtenderArgs``: what is read, and the three writers of its answer."""

import array
import json

import core_world as world
import pytest

from kubextend import core

THREE = [world.node(name) for name in "abc"]
NULLS = {
    "Nodes": None,
    "NodeNames": None,
    "FailedNodes": None,
    "FailedAndUnresolvableNodes": None,
    "Error": "",
}


def test_full_mode_keeps_the_bytes_of_each_kept_node() -> None:
    spaced = (
        b'{"Nodes":{"items":[ {"metadata": {"name":"a" }, "x":1e400 } ,{"metadata":{"name":"b"}}]}}'
    )
    args = core.read_args(spaced)
    assert not args.names_mode
    answer = args.filter_result(core.Mask([True, False]), "no")
    assert b'"items":[{"metadata": {"name":"a" }, "x":1e400 }]' in answer
    assert b'"FailedAndUnresolvableNodes":{"b":"no"}' in answer


def test_names_mode_answers_with_names() -> None:
    args = core.read_args(world.names(["a", "b", "a"]))
    assert args.names_mode
    answer = json.loads(
        args.filter_result(core.Mask([True, False, True]), "no", unresolvable=False)
    )
    assert answer == {**NULLS, "NodeNames": ["a", "a"], "FailedNodes": {"b": "no"}}


@pytest.mark.parametrize("body", [b"{}", b"null", b'{"Nodes":null,"NodeNames":null}'])
def test_a_request_without_nodes_has_none_and_answers_nulls(body: bytes) -> None:
    args = core.read_args(body)
    assert args.nodes is None
    assert json.loads(args.filter_answer([])) == NULLS
    assert args.prioritize_result([]) == b"[]"


def test_the_first_entry_that_names_a_node_decides_its_reason_and_kind() -> None:
    args = core.read_args(world.full(THREE))
    answer = json.loads(
        args.filter_answer(
            [
                (core.Mask([False, True, False]), "first", False),
                (core.Mask([True, True, False]), "second", True),
            ]
        )
    )
    assert answer["FailedNodes"] == {"b": "first"}
    assert answer["FailedAndUnresolvableNodes"] == {"a": "second"}
    assert [item["metadata"]["name"] for item in answer["Nodes"]["items"]] == ["c"]


@pytest.mark.parametrize("length", [0, 2, 4])
def test_a_mask_of_another_length_is_refused(length: int) -> None:
    args = core.read_args(world.full(THREE))
    mask = core.Mask([True] * length)
    message = f"a mask of {length} nodes where there are 3"
    with pytest.raises(ValueError, match=message):
        args.filter_result(mask, "no")
    with pytest.raises(ValueError, match=message):
        args.filter_answer([(mask, "no", True)])


@pytest.mark.parametrize(
    "entries",
    [
        None,
        7,
        [7],
        [(core.Mask([True]), "no")],
        [([True], "no", True)],
        [(core.Mask([True]), 1, True)],
    ],
)
def test_entries_of_another_shape_are_refused(entries: object) -> None:
    # A tuple of another length is a ValueError, as when Python unpacks it.
    with pytest.raises((TypeError, ValueError)):
        core.read_args(world.names(["a"])).filter_answer(entries)  # type: ignore[arg-type]


def test_a_reason_that_is_no_text_is_refused() -> None:
    args = core.read_args(world.names(["a"]))
    with pytest.raises(UnicodeEncodeError):
        args.filter_result(core.Mask([False]), "\ud800")
    with pytest.raises(TypeError):
        args.filter_result(core.Mask([False]), None)  # type: ignore[arg-type]


@pytest.mark.parametrize("reason", ["", '"', "\\", "\0\x1f\n", "\u2028\u2029", "<&>", "漢😀\x7f"])
def test_reasons_come_back_as_they_were_given(reason: str) -> None:
    args = core.read_args(world.names(["a"]))
    answer = json.loads(args.filter_result(core.Mask([False]), reason))
    assert answer["FailedAndUnresolvableNodes"] == {"a": reason}


@pytest.mark.parametrize(
    "scores",
    [
        [1, -2, 1 << 40],
        (1, -2, 1 << 40),
        array.array("q", [1, -2, 1 << 40]),
        memoryview(array.array("q", [1, -2, 1 << 40])),
        memoryview(array.array("q", [1, 0, -2, 0, 1 << 40]))[::2],
    ],
)
def test_scores_are_sequences_or_buffers_of_int64(scores: list[int]) -> None:
    answer = core.read_args(world.full(THREE)).prioritize_result(scores)
    assert json.loads(answer) == [
        {"Host": "a", "Score": 1},
        {"Host": "b", "Score": -2},
        {"Host": "c", "Score": 1 << 40},
    ]


@pytest.mark.parametrize("scores", [[], [1, 2], [1, 2, 3, 4], array.array("q", [1])])
def test_a_score_too_many_or_too_few_is_a_value_error(scores: list[int]) -> None:
    with pytest.raises(ValueError, match=f"{len(scores)} scores for 3 nodes"):
        core.read_args(world.full(THREE)).prioritize_result(scores)


@pytest.mark.parametrize(
    ("scores", "error"),
    [
        ([1, 2, None], TypeError),
        ([1, 2, 0.5], TypeError),
        ([1, 2, float("nan")], TypeError),
        ([1, 2, "3"], TypeError),
        ([1, 2, 10**30], OverflowError),
        ("123", TypeError),
        (None, TypeError),
        (7, TypeError),
        ({0: 1, 1: 2, 2: 3}, TypeError),
        (array.array("d", [1, 2, 3]), TypeError),
    ],
)
def test_what_is_not_an_int64_is_no_score(scores: object, error: type[Exception]) -> None:
    with pytest.raises(error):
        core.read_args(world.full(THREE)).prioritize_result(scores)  # type: ignore[arg-type]


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
        (
            b'{"Nodes":{"items":[{}],"items":[{}]}}',
            (
                "byte 32: Nodes.items[0]: given twice, "
                "so that the nodes could not be sent back as they came in"
            ),
        ),
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


@pytest.mark.parametrize("body", [None, "{}", 7, memoryview(b"{}"), [123, 125]])
def test_a_body_is_bytes(body: object) -> None:
    with pytest.raises(TypeError):
        core.read_args(body)  # type: ignore[arg-type]


def test_stores_are_node_stores_and_watched_is_named() -> None:
    with pytest.raises(TypeError):
        core.read_args(b"{}", 7)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        core.read_args(b"{}", None, core.NodeStore())  # type: ignore[misc]
    with pytest.raises(TypeError):
        core.ExtenderArgs()
