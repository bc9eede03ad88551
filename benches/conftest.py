"""The clusters, the two kinds of stopwatch, and the report at the end.

pytest-benchmark shows how long each work takes; the ratios come from paired rounds (``pairing``),
because two groups that ran a minute apart cannot be compared.
"""

import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import report
from figures import FASTER, Figure
from nodes import Cluster
from pairing import Work, paired
from works import Mode

_RESULTS = Path(__file__).parent / "results"
_LARGEST = 5_000
_ROWS: pytest.StashKey[list[report.Row]] = pytest.StashKey()
_MACHINE: pytest.StashKey[dict[str, Any]] = pytest.StashKey()
_PARTIAL: pytest.StashKey[bool] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--managed-fields",
        action="store_true",
        help="nodes with managedFields, 19 KB each instead of 16; writes no results",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_ROWS] = []
    # Before anything runs: the load is then that of others.
    config.stash[_MACHINE] = report.machine()
    config.stash[_PARTIAL] = bool(config.getoption("--managed-fields"))


def pytest_deselected(items: list[pytest.Item]) -> None:
    for item in items[:1]:
        item.config.stash[_PARTIAL] = True


@pytest.fixture(scope="session", autouse=True)
def _heap_of_a_small_program() -> Iterator[None]:
    """What pytest keeps is left out of collections: orjson.loads would be slower for its sake."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(scope="session")
def clusters(pytestconfig: pytest.Config) -> Callable[[int], Cluster]:
    """The first so many nodes of one large cluster."""
    largest = Cluster.of(_LARGEST, managed_fields=pytestconfig.getoption("--managed-fields"))
    return largest.first


@pytest.fixture
def absolute(
    benchmark: BenchmarkFixture, request: pytest.FixtureRequest
) -> Callable[[Work, Mode, int], None]:
    """pytest-benchmark's figures of a work, in one group with all that reads the same request."""
    suite = _suite(request)

    def measure(work: Work, mode: Mode, size: int) -> None:
        benchmark.group = f"{mode.name} mode, {size:,} nodes"
        benchmark.name = work.name if work.expected is None else f"{suite}: {work.name}"

        def setup() -> tuple[tuple[Any], dict[str, Any]]:
            gc.collect()
            return (work.given(),), {}

        result = benchmark.pedantic(  # type: ignore[no-untyped-call]
            work.call, setup=setup, rounds=mode.calls(size)
        )
        assert work.expected is None or result == work.expected

    return measure


@pytest.fixture
def compare(request: pytest.FixtureRequest) -> Callable[..., None]:
    """A work beside a floor, from paired rounds; what comes of it goes into the report."""
    suite = _suite(request)

    def measure(  # noqa: PLR0913, PLR0917  what a row of the report says
        ours: Work,
        floor: Work,
        nodes: int,
        body_bytes: int,
        aim: float | None = None,
        figure: Figure = FASTER,
    ) -> None:
        pairing = paired(ours, floor)
        row = report.Row(suite, nodes, ours.name, floor.name, body_bytes, pairing, figure, aim)
        request.config.stash[_ROWS].append(row)

    return measure


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
) -> None:
    rows = config.stash[_ROWS]
    if not rows:
        return
    terminalreporter.section("ours beside its floors")
    for line in report.table(rows):
        terminalreporter.line(line)
    described = (f"{key} {value}" for key, value in config.stash[_MACHINE].items())
    terminalreporter.line(f"machine: {', '.join(described)}")
    if exitstatus != pytest.ExitCode.OK or config.stash[_PARTIAL]:
        return
    for suite, of_suite in _by_suite(rows):
        path = report.write(_RESULTS, suite, of_suite, config.stash[_MACHINE])
        terminalreporter.line(f"written to {path.relative_to(config.rootpath)}")


def _suite(request: pytest.FixtureRequest) -> str:
    return request.path.stem.removeprefix("test_")


def _by_suite(rows: list[report.Row]) -> Iterator[tuple[str, list[report.Row]]]:
    for suite in dict.fromkeys(row.suite for row in rows):
        yield suite, [row for row in rows if row.suite == suite]
