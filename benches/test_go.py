"""Measures the plain Go extender's code without a server, for the chart of time against nodes."""

from collections.abc import Callable
from pathlib import Path

import pytest

from asked import Asked
from figures import MILLISECONDS
from nodes import Cluster
from remote import Stopwatch
from report import Reading
from works import FULL, NAMES, SIZES_OF_GROWTH, Mode

_CALLS = {FULL.name: 3, NAMES.name: 20}


@pytest.mark.parametrize("mode", [FULL, NAMES], ids=lambda mode: mode.name)
@pytest.mark.parametrize("size", SIZES_OF_GROWTH)
def test_the_time_of_go(
    size: int,
    mode: Mode,
    clusters: Callable[[int], Cluster],
    go: Stopwatch,
    add: Callable[..., None],
    tmp_path: Path,
) -> None:
    work = Asked(clusters(size), mode, tmp_path).go_work(go)
    times_ms = [time_s * 1e3 for time_s in work.turn(_CALLS[mode.name])]
    add(Reading("go", size, mode.name, times_ms, MILLISECONDS))
