"""Masks as bytes."""

import pytest

from kubextend import core


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 64, 65])
def test_a_mask_is_what_it_was(length: int) -> None:
    mask = core.Mask([at % 3 == 0 for at in range(length)])
    packed = mask.pack()
    assert packed == sum(1 << at for at in range(0, length, 3)).to_bytes(-(-length // 8), "little")
    assert core.Mask.unpack(packed, length) == mask


def test_bytes_of_another_length_are_refused() -> None:
    with pytest.raises(ValueError, match="no mask of 3 nodes"):
        core.Mask.unpack(b"\xff", 3)
