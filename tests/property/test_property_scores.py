"""``normalize`` and ``weigh`` against kube-scheduler's arithmetic in Python's exact integers."""

import array

from hypothesis import given
from hypothesis import strategies as st

from kubextend import core

MAX = (1 << 63) - 1
SCORE = st.integers(0, MAX) | st.integers(0, 100)
SCORES = st.lists(SCORE, max_size=60)
IN_RANGE = st.lists(st.integers(0, 100), min_size=1, max_size=40)


def default_normalize_score(scores: list[int], maximum: int, reverse: bool) -> list[int]:
    """The slow version of kubernetes v1.36 plugins/helper/normalize_score.go."""
    largest = max(scores, default=0)
    if largest == 0:
        return [maximum] * len(scores) if reverse else scores
    scaled = [divided(wrapped(maximum * score), largest) for score in scores]
    return [wrapped(maximum - score) for score in scaled] if reverse else scaled


def wrapped(value: int) -> int:
    """As Go's int64 keeps it."""
    return (value + MAX + 1) % (1 << 64) - MAX - 1


def divided(value: int, by: int) -> int:
    """Towards zero, as Go divides; by something above it."""
    return value // by if value >= 0 else -(-value // by)


@given(SCORES, st.sampled_from([1, 10, 100]), st.booleans())
def test_normalize_is_default_normalize_score(
    scores: list[int], maximum: int, reverse: bool
) -> None:
    normalized = core.normalize(scores, maximum, reverse)
    assert normalized == default_normalize_score(scores, maximum, reverse)
    # What does not wrap stays in the range.
    if all(maximum * score <= MAX for score in scores):
        assert all(0 <= score <= maximum for score in normalized)
    assert list(core.normalize(array.array("q", scores), maximum, reverse)) == normalized


@given(st.lists(st.integers(0, 1 << 50), max_size=60), st.booleans())
def test_normalize_is_monotone_and_does_not_depend_on_the_order(
    scores: list[int], reverse: bool
) -> None:
    normalized = core.normalize(scores, 100, reverse)
    of_score = dict(zip(scores, normalized, strict=True))
    by_rank = [of_score[score] for score in sorted(of_score)]
    assert by_rank == sorted(by_rank, reverse=reverse)
    assert core.normalize(scores[::-1], 100, reverse) == normalized[::-1]


@given(
    st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100)), min_size=1, max_size=40),
    st.tuples(st.integers(0, 100), st.integers(0, 100)),
)
def test_weigh_is_the_rounded_tenth_of_the_weighted_sum(
    rows: list[tuple[int, int]], weights: tuple[int, int]
) -> None:
    columns = [list(column) for column in zip(*rows, strict=True)]
    parts = list(zip(columns, weights, strict=True))
    sums = [sum(score * w for score, w in zip(row, weights, strict=True)) for row in rows]
    assert list(core.weigh(parts)) == [(total + 5) // 10 for total in sums]
    assert list(core.weigh(parts[::-1])) == list(core.weigh(parts))


@given(IN_RANGE, st.integers(1, 1000))
def test_strict10_is_within_ten_and_keeps_the_order(scores: list[int], weight: int) -> None:
    scaled = list(core.weigh([(scores, weight)], "strict10"))
    assert all(0 <= score <= 10 for score in scaled)
    pairs = sorted(zip(scores, scaled, strict=True))
    assert [score for _, score in pairs] == sorted(scaled)
