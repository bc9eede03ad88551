"""Fixtures of the benchmarks: clusters, programs that measure time, servers, and the report.

pytest-benchmark shows how long each work takes. The ratios come from works that are timed in turn
(``pairing``), because times that are measured a minute apart cannot be compared.
"""

import functools
import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import report
from figures import FASTER, Figure
from nodes import Cluster
from pairing import Timed, Work, as_bytes, paired
from remote import Stopwatch
from servers import Servers
from works import Mode

_USUAL, _LARGEST = 5_000, 15_000
_RECORDS: pytest.StashKey[dict[str, list[report.Record]]] = pytest.StashKey()
_MACHINE: pytest.StashKey[report.Record] = pytest.StashKey()
_DESELECTED: pytest.StashKey[bool] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--managed-fields",
        action="store_true",
        help="nodes with managedFields, 19 KB each instead of 16; writes no results",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_RECORDS] = {}
    config.stash[_MACHINE] = report.machine()
    config.stash[_DESELECTED] = False


def pytest_deselected(items: list[pytest.Item]) -> None:
    for item in items[:1]:
        item.config.stash[_DESELECTED] = True


@pytest.fixture(scope="session", autouse=True)
def _heap_of_a_small_program() -> Iterator[None]:
    """Exclude pytest's objects from garbage collections, which would slow down orjson.loads."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(scope="session")
def clusters(pytestconfig: pytest.Config) -> Callable[[int], Cluster]:
    """Return a function that gives the first ``size`` nodes of one large cluster."""
    managed_fields = bool(pytestconfig.getoption("--managed-fields"))

    @functools.cache
    def whole(size: int) -> Cluster:
        return Cluster.of(size, managed_fields=managed_fields)

    def first(size: int) -> Cluster:
        return whole(_USUAL if size <= _USUAL else _LARGEST).first(size)

    return first


@pytest.fixture
def go() -> Iterator[Stopwatch]:
    """Run the program that times the plain Go extender's code without a server."""
    with Stopwatch("inprocess") as go:
        yield go


@pytest.fixture
def client() -> Iterator[Stopwatch]:
    """Run the Go client that calls servers as kube-scheduler does, and times the calls."""
    with Stopwatch("http") as client:
        yield client


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    """Return what starts servers, which end with the test."""
    with Servers.in_folder(tmp_path / "servers") as servers:
        yield servers


@pytest.fixture
def absolute(
    benchmark: BenchmarkFixture, request: pytest.FixtureRequest
) -> Callable[[Work, Mode, int], None]:
    """Return a function that measures a work with pytest-benchmark, grouped by request."""
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
        assert work.expected is None or as_bytes(result) == work.expected

    return measure


@pytest.fixture
def add(request: pytest.FixtureRequest) -> Callable[[report.Row | report.Reading], None]:
    """Return a function that adds a row to the report."""
    records = request.config.stash[_RECORDS]

    def record(row: report.Row | report.Reading) -> None:
        records.setdefault(row.suite, []).append(row.as_json())

    return record


@pytest.fixture
def compare(request: pytest.FixtureRequest, add: Callable[..., None]) -> Callable[..., None]:
    """Return a function that times a work and its floor in turn, and adds a row to the report."""
    suite = _suite(request)

    def measure(  # noqa: PLR0913, PLR0917  what a row of the report says
        ours: Timed,
        floor: Timed,
        nodes: int,
        body_bytes: int,
        aim: float | None = None,
        figure: Figure = FASTER,
        calls: int | None = None,
    ) -> None:
        pairing = paired(ours, floor, calls)
        add(report.Row(suite, nodes, ours.name, floor.name, body_bytes, pairing, figure, aim))

    return measure


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
) -> None:
    records = config.stash[_RECORDS]
    if not records:
        return
    terminalreporter.section("ours beside its floors")
    for line in report.table(records):
        terminalreporter.line(line)
    terminalreporter.line(f"machine: {report.described(config.stash[_MACHINE])}")
    if exitstatus != pytest.ExitCode.OK or config.getoption("--managed-fields"):
        return
    for suite, of_suite in records.items():
        whole = not config.stash[_DESELECTED]
        path = report.write(suite, of_suite, config.stash[_MACHINE], whole=whole)
        terminalreporter.line(f"written to {path.relative_to(config.rootpath)}")


def _suite(request: pytest.FixtureRequest) -> str:
    return request.path.stem.removeprefix("test_")
