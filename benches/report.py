"""Reports all comparisons: as one table, and as a JSON file for each suite."""

import os
import platform
import shutil
import statistics
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias

import orjson

from figures import Figure
from pairing import Pairing, p99

__all__ = ["KEPT", "RESULTS", "Reading", "Record", "Row", "machine", "table", "write"]

Record: TypeAlias = dict[str, Any]
"""The JSON object of one row, or of the machine, in a file of results."""

RESULTS = Path(__file__).parents[1] / "build/benches/results"
KEPT = Path(__file__).parent / "results"
_DISTRIBUTIONS = ("kubextend", "orjson", "starlette", "uvicorn", "uvloop", "pytest-benchmark")
# With fewer calls the report has no 99th percentile.
_CALLS_FOR_P99 = 100
_HEADS = (
    "through",
    "nodes",
    "work",
    "p50 ms",
    "p99 ms",
    "floor",
    "p50 ms",
    "ours is",
    "range",
    "blocks",
    "aim",
    "floor moved",
)
_LEFT = frozenset(("through", "work", "floor"))
_LEGEND = """
ours is: median over blocks (floor, ours, ours, floor), each of which compares its own medians;
  lowest and highest block beside it
orjson.loads: only builds the document; no filter, no answer; the garbage collector runs, as in any
  program, but has nothing but that document to look through
freeing what a call returned is timed on neither side
aim: for the median
! and (): no five blocks in a row over which the floor moved by less than 10 %, so the row does not
  count: make the machine quiet and run again
""".strip().splitlines()


@dataclass(frozen=True)
class Row:
    """A row of the report: one work compared with one floor.

    Attributes:
        suite: the layer that was called.
        nodes: how many nodes the request had.
        work: the name of the work that was timed.
        floor: the name of the work that was the reference.
        body_bytes: the size of the request's body.
        pairing: the times of both works.
        figure: the figure that compares the times.
        aim: the value that the figure should reach; None: no aim.
    """

    suite: str
    nodes: int
    work: str
    floor: str
    body_bytes: int
    pairing: Pairing
    figure: Figure
    aim: float | None = None

    def as_json(self) -> Record:
        """For the table and for benches/results."""
        values = [self.figure.of_block(block) for block in self.pairing.blocks]
        return _record(self.nodes, self.work, self.figure, self.aim, values) | {
            "floor": self.floor,
            "body_bytes": self.body_bytes,
            "ours_s": _summary(self.pairing.ours_s),
            "floor_s": _summary(self.pairing.floor_s),
            "floor_spread": self.pairing.floor_spread,
            "steady": self.pairing.steady,
        }


@dataclass(frozen=True)
class Reading:
    """A row of the report without a floor, or whose values are not times.

    Attributes:
        suite: the layer that was measured.
        nodes: how many nodes the measurement was about.
        work: what was done.
        values: the measured values, one for each run.
        figure: the unit and the direction of the values.
        aim: the value that their median should reach; None: no aim.
    """

    suite: str
    nodes: int
    work: str
    values: Sequence[float]
    figure: Figure
    aim: float | None = None

    def as_json(self) -> Record:
        """For the table and for benches/results."""
        return _record(self.nodes, self.work, self.figure, self.aim, self.values)


def _record(
    nodes: int, work: str, figure: Figure, aim: float | None, values: Sequence[float]
) -> Record:
    median = statistics.median(values)
    return {
        "nodes": nodes,
        "work": work,
        "ours_is": {
            "shown": figure.shown(median),
            "unit": figure.unit.strip(),
            "median": median,
            "min": min(values),
            "max": max(values),
            "blocks": list(values),
        },
        "aim": aim,
        "aim_is_least": figure.at_least,
        "aim_met": aim is None or figure.meets(median, aim),
        "steady": True,
    }


def table(records: Mapping[str, Sequence[Record]]) -> Iterator[str]:
    """Yield the lines of the table of all suites."""
    rows = [_cells(suite, record) for suite, of_suite in records.items() for record in of_suite]
    lines = [_HEADS, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        columns = zip(_HEADS, line, widths, strict=True)
        yield "  ".join(_padded(*column) for column in columns).rstrip()
    yield ""
    yield from _LEGEND


def _cells(suite: str, record: Record) -> tuple[str, ...]:
    ours, floor, given = record.get("ours_s", {}), record.get("floor_s", {}), record["ours_is"]
    return (
        suite,
        f"{record['nodes']:,}",
        record["work"],
        _ms(ours.get("p50")),
        _ms(ours.get("p99")),
        record.get("floor", ""),
        _ms(floor.get("p50")),
        given["shown"],
        f"{given['min']:.3g}..{given['max']:.3g}",
        str(len(given["blocks"])),
        _verdict(record),
        _moved(record),
    )


def _verdict(record: Record) -> str:
    if record["aim"] is None:
        return ""
    verdict = "met" if record["aim_met"] else "SHORT"
    sign = ">=" if record["aim_is_least"] else "<="
    return f"{sign} {record['aim']:.3g} {verdict if record['steady'] else f'({verdict})'}"


def _moved(record: Record) -> str:
    if "floor_spread" not in record:
        return ""
    return f"{record['floor_spread']:.0%}{'' if record['steady'] else ' !'}"


def machine() -> Record:
    """Return the machine and the versions of the programs with which the figures are measured."""
    return {
        "cpu": _cpu(),
        "cpus": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "go": _go_version(),
        **{name: version(name) for name in _DISTRIBUTIONS},
    }


def _go_version() -> str:
    """Return the version of the Go toolchain that built the programs; "none" without Go."""
    path = shutil.which("go")
    said = subprocess.check_output([path, "env", "GOVERSION"]) if path else b"none"  # noqa: S603
    return said.decode().strip().removeprefix("go")


def write(suite: str, records: Sequence[Record], measured_on: Record, *, whole: bool) -> Path:
    """Write one suite's results to its file, and return the file's path.

    Args:
        suite: the name of the suite.
        records: the rows.
        measured_on: the machine.
        whole: whether to replace all rows of the file; False: only rows of the same works.
    """
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{suite}.json"
    measured = datetime.now(UTC).isoformat(timespec="seconds")
    rows = {} if whole or not path.exists() else _by_what(orjson.loads(path.read_bytes())["rows"])
    rows |= _by_what([{**record, "measured": measured} for record in records])
    result = {"suite": suite, "machine": measured_on, "rows": [*rows.values()]}
    path.write_bytes(orjson.dumps(result, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    return path


def _by_what(records: Sequence[Record]) -> dict[tuple[object, ...], Record]:
    return {(record["nodes"], record["work"], record.get("floor")): record for record in records}


def _padded(head: str, text: str, width: int) -> str:
    return text.ljust(width) if head in _LEFT else text.rjust(width)


def _summary(times_s: Sequence[float]) -> Record:
    enough = len(times_s) >= _CALLS_FOR_P99
    return {
        "p50": statistics.median(times_s),
        "p99": p99(times_s) if enough else None,
        "min": min(times_s),
        "max": max(times_s),
        "calls": len(times_s),
    }


def _ms(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1e3:.3g}"


def _cpu() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor() or "unknown")


def main() -> None:
    """Write the table of what the last runs of all suites have written into results/summary.txt."""
    written = [orjson.loads(path.read_bytes()) for path in sorted(RESULTS.glob("*.json"))]
    lines = [*table({result["suite"]: result["rows"] for result in written})]
    machines = dict.fromkeys(described(result["machine"]) for result in written)
    (KEPT / "summary.txt").write_text("\n".join([*lines, *machines, ""]))


def described(measured_on: Record) -> str:
    """Return the description of the machine on one line."""
    return ", ".join(f"{key} {value}" for key, value in measured_on.items())


if __name__ == "__main__":
    main()
