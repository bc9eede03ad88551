"""``normalize`` and ``weigh``: kube-scheduler's arithmetic on lists and on buffers."""

import array
from typing import Any

import pytest

from kubextend import core

MAX = (1 << 63) - 1


@pytest.mark.parametrize(
    ("scores", "maximum", "reverse", "expected"),
    [
        ([], 100, False, []),
        ([0, 0], 100, False, [0, 0]),
        ([0, 0], 100, True, [100, 100]),
        ([1, 2, 3], 100, False, [33, 66, 100]),
        ([1, 2, 3], 100, True, [67, 34, 0]),
        ([5], 10, False, [10]),
        ([200, 100], 100, False, [100, 50]),
    ],
)
def test_normalize_is_default_normalize_score(
    scores: list[int], maximum: int, reverse: bool, expected: list[int]
) -> None:
    assert core.normalize(scores, maximum, reverse) == expected
    assert core.normalize(scores, maximum=maximum, reverse=reverse) == expected
    view = core.normalize(array.array("q", scores), maximum, reverse)
    assert isinstance(view, memoryview)
    assert (view.format, view.readonly, list(view)) == ("q", True, expected)


def test_what_is_given_is_not_changed() -> None:
    as_list, as_array = [1, 2], array.array("q", [1, 2])
    core.normalize(as_list)
    core.normalize(as_array)
    assert (as_list, list(as_array)) == ([1, 2], [1, 2])


@pytest.mark.parametrize(
    "cut",
    [slice(None), slice(1, None), slice(-1), slice(None, None, -1), slice(1, None, 2), slice(0, 0)],
)
@pytest.mark.parametrize("held_by", ["view", "bytes", "bytearray", "array"])
def test_scores_are_those_that_a_view_shows(held_by: str, cut: slice) -> None:
    scores = array.array("q", [3, 100, 7, 0, 50])
    view = {
        "view": core.checked_scores(scores),
        "bytes": memoryview(scores.tobytes()).cast("q"),
        "bytearray": memoryview(bytearray(scores.tobytes())).cast("q"),
        "array": memoryview(scores),
    }[held_by][cut]
    shown = scores.tolist()[cut]
    assert list(core.normalize(view)) == core.normalize(shown)
    assert list(core.weigh([(view, 3)])) == [(3 * score + 5) // 10 for score in shown]
    assert list(core.checked_scores(view)) == shown


def test_checked_scores_do_not_follow_what_they_were_read_from() -> None:
    scores = array.array("q", [3, 100])
    checked = core.checked_scores(scores)
    scores[0] = 4
    assert list(checked) == [3, 100]
    assert checked.readonly


@pytest.mark.parametrize("scores", [[], [0], [255, 0, 100], list(range(256)) * 20])
def test_small_scores_take_a_byte_each(scores: list[int]) -> None:
    view = core.checked_scores(scores, 0, 255)
    narrow = core.narrowed(view)
    assert isinstance(narrow, bytes)
    assert list(narrow) == scores
    assert list(core.narrowed(view[::-1])) == scores[::-1]


@pytest.mark.parametrize(
    "scores",
    [
        memoryview(array.array("q", [0, 256])),
        memoryview(array.array("q", [-1, 5])),
        memoryview(array.array("q", [1 << 62])),
        memoryview(array.array("d", [0.5])),
        memoryview(array.array("q", [1, 2, 3, 4])).cast("B").cast("q", (2, 2)),
        [1, 2],
        array.array("q", [1, 2]),
        ["1"],
    ],
)
def test_all_other_scores_stay_as_they_are(scores: Any) -> None:
    assert core.narrowed(scores) is scores


def test_narrowed_scores_do_not_follow_what_they_were_read_from() -> None:
    scores = array.array("q", [3, 100])
    narrow = core.narrowed(memoryview(scores))
    scores[0] = 4
    assert list(narrow) == [3, 100]


def test_a_view_that_was_released_holds_no_scores() -> None:
    view = core.checked_scores([1, 2])
    view.release()
    with pytest.raises((TypeError, ValueError)):
        core.normalize(view)


@pytest.mark.parametrize(
    "scores", [None, 7, "12", b"12", bytearray(b"12"), ["1"], [1.5], [None], {1: 2}]
)
def test_what_is_not_scores_is_a_type_error(scores: object) -> None:
    with pytest.raises(TypeError):
        core.normalize(scores)  # type: ignore[call-overload]
    with pytest.raises(TypeError):
        core.weigh([(scores, 1)])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("parts", "scale", "expected"),
    [
        ([([100, 50, 0], 1)], "additive", [10, 5, 0]),
        ([([100, 50, 0], 3), ([10, 0, 100], 1)], "additive", [31, 15, 10]),
        ([([5, 4, 15, 25], 1)], "additive", [1, 0, 2, 3]),
        ([([100, 50, 0], 1)], "strict10", [10, 5, 0]),
        ([([], 1)], "additive", []),
    ],
)
def test_weigh_adds_weighted_scores_and_scales_them(
    parts: list[tuple[list[int], int]], scale: str, expected: list[int]
) -> None:
    view = core.weigh(parts, scale)  # type: ignore[arg-type]
    assert isinstance(view, memoryview)
    assert (view.format, list(view)) == ("q", expected)
    buffers = [(array.array("q", scores), weight) for scores, weight in parts]
    assert list(core.weigh(buffers, scale)) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize("scale", ["additive", "strict10"])
def test_strict10_stays_within_ten_and_nothing_overflows(scale: str) -> None:
    huge = [MAX, -MAX - 1, 0]
    scores = list(core.weigh([(huge, MAX), (huge, MAX)], scale))  # type: ignore[arg-type]
    assert len(scores) == 3
    if scale == "strict10":
        assert all(0 <= score <= 10 for score in scores)


@pytest.mark.parametrize(
    ("parts", "scale", "error", "sentence"),
    [
        ([], "additive", ValueError, "no scores to weigh"),
        ([([1], 1), ([1, 2], 1)], "additive", ValueError, "parts of unequal length"),
        (
            [([1], 1)],
            "linear",
            ValueError,
            "scale must be 'additive' or 'strict10', not \"linear\"",
        ),
        ([([1], 0.5)], "additive", TypeError, ""),
        ([([1], 1 << 63)], "additive", OverflowError, ""),
        ([([1 << 63], 1)], "additive", OverflowError, ""),
    ],
)
def test_parts_that_cannot_be_weighed_are_refused(
    parts: list[tuple[list[int], int]], scale: str, error: type[Exception], sentence: str
) -> None:
    with pytest.raises(error) as caught:
        core.weigh(parts, scale)  # type: ignore[arg-type]
    assert sentence in str(caught.value)
