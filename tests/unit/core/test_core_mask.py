"""``Mask``: one bit a node, behaving as the list of booleans it stands for."""

import pytest

from kubextend import core


def test_a_mask_is_made_from_any_iterable_of_truths() -> None:
    for bits in (
        [True, False],
        (1, 0),
        iter(["x", ""]),
        (i == 0 for i in range(2)),
        {"k": 1, "": 2},
    ):
        assert list(core.Mask(bits)) == [True, False]  # type: ignore[arg-type]
    assert list(core.Mask([])) == []


@pytest.mark.parametrize("bits", [None, 7, True])
def test_what_cannot_be_iterated_is_no_mask(bits: object) -> None:
    with pytest.raises(TypeError):
        core.Mask(bits)  # type: ignore[arg-type]


def test_an_error_on_the_way_is_passed_on() -> None:
    def failing() -> object:
        yield True
        message = "on the way"
        raise LookupError(message)

    with pytest.raises(LookupError, match="on the way"):
        core.Mask(failing())  # type: ignore[arg-type]


def test_counting_and_asking() -> None:
    mask = core.Mask([False, True, True])
    assert (len(mask), mask.count(), mask.any(), mask.all()) == (3, 2, True, False)
    assert mask.indices() == [1, 2]
    empty = core.Mask([])
    assert (len(empty), empty.count(), empty.any(), empty.all()) == (0, 0, False, True)
    assert repr(mask) == "<Mask: 2 of 3>"


def test_an_index_counts_from_either_end_and_ends_there() -> None:
    mask = core.Mask([False, True, False])
    assert [mask[i] for i in (0, 1, 2, -1, -2, -3)] == [False, True, False, False, True, False]
    for outside in (3, -4, 1 << 40, -(1 << 40)):
        with pytest.raises(IndexError, match="mask index out of range"):
            mask[outside]
    with pytest.raises(TypeError):
        mask["0"]  # type: ignore[index]


def test_masks_of_different_length_do_not_combine_and_are_not_equal() -> None:
    one, other = core.Mask([True]), core.Mask([True, False])
    for combine in (core.Mask.__and__, core.Mask.__or__, core.Mask.__xor__):
        with pytest.raises(ValueError, match="a mask of 2 nodes where there are 1"):
            combine(one, other)
    assert one != other
    assert core.Mask([]) != core.Mask([False])


def test_a_mask_is_equal_to_masks_only_combines_with_masks_only_and_has_no_hash() -> None:
    mask = core.Mask([True])
    assert mask != [True]
    assert mask == core.Mask([True])
    with pytest.raises(TypeError):
        mask & [True]  # type: ignore[operator]
    with pytest.raises(TypeError):
        hash(mask)
