"""A ``Mask`` is a list of booleans, whatever its length."""

from hypothesis import given
from hypothesis import strategies as st

from kubextend import core

BITS = st.lists(st.booleans(), max_size=200)
PAIRS = st.lists(st.tuples(st.booleans(), st.booleans()), max_size=200)


@given(PAIRS)
def test_mask_algebra_is_that_of_lists(pairs: list[tuple[bool, bool]]) -> None:
    left, right = [a for a, _ in pairs], [b for _, b in pairs]
    one, other = core.Mask(left), core.Mask(right)
    assert list(one & other) == [a and b for a, b in pairs]
    assert list(one | other) == [a or b for a, b in pairs]
    assert list(one ^ other) == [a != b for a, b in pairs]
    assert list(~one) == [not a for a in left]
    assert (one == other) is (left == right)
    assert ~(one & other) == ~one | ~other
    assert one ^ one == core.Mask([False] * len(left))


@given(BITS)
def test_every_question_has_the_answer_of_the_list(bits: list[bool]) -> None:
    mask = core.Mask(bits)
    assert list(mask) == bits
    assert (len(mask), mask.count(), mask.any(), mask.all()) == (
        len(bits),
        sum(bits),
        any(bits),
        all(bits),
    )
    assert mask.indices() == [i for i, bit in enumerate(bits) if bit]
    assert mask.indices(2) == mask.indices()[:2]
    positions = range(-len(bits), len(bits))
    assert [mask[i] for i in positions] == [bits[i] for i in positions]
