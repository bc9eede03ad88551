"""Masks, selectors and scores: values that stand for one entry a node."""

import array

import pytest

from kubextend import core


def test_a_mask_is_made_from_any_iterable_of_truths_whose_error_is_passed_on() -> None:
    for bits in ([True, False], (1, 0), iter(["x", ""]), {"k": 1, "": 2}):
        assert list(core.Mask(bits)) == [True, False]
    with pytest.raises(ZeroDivisionError):
        core.Mask(1 // number for number in (1, 0))


def test_an_index_counts_from_either_end_and_ends_there() -> None:
    mask = core.Mask([False, True, False])
    assert [mask[i] for i in (0, 1, 2, -1, -2, -3)] == [False, True, False, False, True, False]
    for outside in (3, -4, 1 << 40, -(1 << 40)):
        with pytest.raises(IndexError, match="mask index out of range"):
            mask[outside]
    with pytest.raises(TypeError):
        mask["0"]


def test_a_mask_combines_with_masks_of_its_length_alone_and_has_no_hash() -> None:
    one, other = core.Mask([True]), core.Mask([True, False])
    for combine in (core.Mask.__and__, core.Mask.__or__, core.Mask.__xor__):
        with pytest.raises(ValueError, match="a mask of 2 nodes where there are 1"):
            combine(one, other)
    assert one == core.Mask([True])
    assert one != other
    assert one != [True]
    assert core.Mask([]) != core.Mask([False])
    with pytest.raises(TypeError):
        one & [True]
    with pytest.raises(TypeError):
        hash(one)


@pytest.mark.parametrize("text", ["a,", "a in", "a in (b", "=a", "a>b", "a>-5", "a b", "é=1"])
def test_what_is_not_a_selector_is_a_value_error_with_one_line(text: str) -> None:
    with pytest.raises(ValueError, match=r".+") as caught:
        core.Selector(text)
    assert "\n" not in str(caught.value)
    assert not isinstance(caught.value, core.KubextendError)


@pytest.mark.parametrize("labels", [None, [("zone", "a")], {"zone": 1}, {1: "a"}, "zone=a"])
def test_anything_but_a_mapping_of_strings_is_a_type_error(labels: object) -> None:
    with pytest.raises(TypeError):
        core.Selector("zone=a").matches(labels)


def test_equal_selectors_are_equal_hash_alike_and_print_in_canonical_form() -> None:
    one, other = core.Selector("b in (y,x) , a = 1"), core.Selector("a=1,b in (x,y)")
    assert one == other
    assert len({one, other}) == 1
    assert str(one) == "a=1,b in (x,y)"
    assert repr(one) == 'Selector("a=1,b in (x,y)")'
    assert one != core.Selector("a=2")
    assert one != "a=1,b in (x,y)"


@pytest.mark.parametrize(
    "cut", [slice(None), slice(1, None), slice(None, None, -1), slice(1, None, 2), slice(0, 0)]
)
def test_scores_are_those_that_a_view_shows(cut: slice) -> None:
    scores = array.array("q", [3, 100, 7, 0, 50])
    of_bytes = memoryview(scores.tobytes()).cast("q")
    for view in (core.checked_scores(scores), of_bytes, memoryview(scores)):
        shown = scores.tolist()[cut]
        assert list(core.normalize(view[cut])) == core.normalize(shown)
        assert list(core.weigh([(view[cut], 3)])) == [(3 * score + 5) // 10 for score in shown]
        assert list(core.checked_scores(view[cut])) == shown


def test_a_view_that_was_released_holds_no_scores() -> None:
    view = core.checked_scores([1, 2])
    view.release()
    with pytest.raises((TypeError, ValueError)):
        core.normalize(view)


@pytest.mark.parametrize("scores", [None, 7, "12", b"12", ["1"], [1.5], [None], {1: 2}])
def test_what_is_not_scores_is_a_type_error(scores: object) -> None:
    with pytest.raises(TypeError):
        core.normalize(scores)
    with pytest.raises(TypeError):
        core.weigh([(scores, 1)])


LINEAR = "scale must be 'additive' or 'strict10', not \"linear\""


@pytest.mark.parametrize(
    ("parts", "scale", "error", "sentence"),
    [
        ([], "additive", ValueError, "no scores to weigh"),
        ([([1], 1), ([1, 2], 1)], "additive", ValueError, "parts of unequal length"),
        ([([1], 1)], "linear", ValueError, LINEAR),
        ([([1], 0.5)], "additive", TypeError, None),
        ([([1], 1 << 63)], "additive", OverflowError, None),
        ([([1 << 63], 1)], "additive", OverflowError, None),
    ],
)
def test_parts_that_cannot_be_weighed_are_refused(
    parts: list[tuple[list[int], int]], scale: str, error: type[Exception], sentence: str | None
) -> None:
    with pytest.raises(error, match=sentence):
        core.weigh(parts, scale)
