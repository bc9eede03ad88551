"""Measures how the core's time grows from 100 to 15,000 nodes, beside comparing and copying."""

import statistics
from collections.abc import Callable

import pytest

from figures import MILLISECONDS, Figure
from nodes import Cluster
from pairing import Pairing, paired
from report import Reading, Row
from test_core import FULL_COLD, FULL_WARM, NAMES_WATCHED
from works import FULL, NAMES, SIZES_OF_GROWTH, memory

_AIM = 1.3
_CALLS = 5


def test_known_nodes_grow_as_a_memory_compare_does(
    clusters: Callable[[int], Cluster], add: Callable[..., None]
) -> None:
    smallest = 0.0
    for size in SIZES_OF_GROWTH:
        body = FULL.body(clusters(size))
        work = FULL_WARM.work(clusters(size), body)
        assert work.expected is not None
        pairing = paired(work, memory(body, work.expected))
        smallest = smallest or statistics.median(_times_as_long(pairing))
        figure = _growth(1 / smallest, beside_floor=True)
        floor = "compare body, copy answer"
        add(Row("growth", size, "full, warm", floor, len(body), pairing, figure, _AIM))


@pytest.mark.parametrize("size", SIZES_OF_GROWTH)
def test_how_new_nodes_grow(
    size: int, clusters: Callable[[int], Cluster], add: Callable[..., None]
) -> None:
    body = FULL.body(clusters(size))
    times_ms = [time_s * 1e3 for time_s in FULL_COLD.work(clusters(size), body).turn(_CALLS)]
    add(Reading("growth", size, "full, cold", times_ms, MILLISECONDS))


def test_names_grow_as_their_length_does(
    clusters: Callable[[int], Cluster], add: Callable[..., None]
) -> None:
    a_byte_s = 0.0
    for size in SIZES_OF_GROWTH:
        body = NAMES.body(clusters(size))
        # The floor only tells whether the machine was quiet.
        pairing = paired(NAMES_WATCHED.work(clusters(size), body), memory(body, body))
        a_byte_s = a_byte_s or statistics.median(pairing.ours_s) / len(body)
        figure = _growth(1 / (a_byte_s * len(body)), beside_floor=False)
        add(Row("growth", size, "names", "length of the body", len(body), pairing, figure, _AIM))


def _times_as_long(pairing: Pairing) -> list[float]:
    return [ours_s / floor_s for ours_s, floor_s in (block.medians for block in pairing.blocks)]


def _growth(share: float, *, beside_floor: bool) -> Figure:
    """Return the figure of a time, or its ratio to the floor's, times ``share``.

    ``share`` is one over the reference value, so that the figure is the growth from there.
    """

    def of(ours_s: float, floor_s: float) -> float:
        return share * (ours_s / floor_s if beside_floor else ours_s)

    return Figure("x the growth", of, at_least=False)
