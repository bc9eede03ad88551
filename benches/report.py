"""One table of all that was compared, and the same as JSON, a file for each suite."""

import os
import platform
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import orjson

from figures import Figure
from pairing import Pairing

__all__ = ["Row", "machine", "table", "write"]

_DISTRIBUTIONS = ("kubextend", "orjson", "pytest-benchmark")
# With fewer calls there is no ninety-ninth percentile.
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
    """One work beside one floor.

    Attributes:
        suite: which layer was called.
        nodes: of the request.
        work: what was timed.
        floor: what it was timed beside.
        body_bytes: of the request.
        pairing: the times.
        figure: what is made of them.
        aim: what the figure is meant to be.
    """

    suite: str
    nodes: int
    work: str
    floor: str
    body_bytes: int
    pairing: Pairing
    figure: Figure
    aim: float | None = None

    @property
    def values(self) -> list[float]:
        """The figure of each block."""
        return [self.figure.of(*block.medians) for block in self.pairing.blocks]

    def as_json(self) -> dict[str, Any]:
        """For benches/results."""
        values = self.values
        return {
            "nodes": self.nodes,
            "work": self.work,
            "floor": self.floor,
            "body_bytes": self.body_bytes,
            "ours_s": _summary(self.pairing.ours_s),
            "floor_s": _summary(self.pairing.floor_s),
            "ours_is": {
                "unit": self.figure.unit.strip(),
                "median": statistics.median(values),
                "min": min(values),
                "max": max(values),
                "blocks": values,
            },
            "aim": self.aim,
            "aim_met": self._met,
            "floor_spread": self.pairing.floor_spread,
            "steady": self.pairing.steady,
        }

    def cells(self) -> tuple[str, ...]:
        """For the table."""
        ours, floor = _summary(self.pairing.ours_s), _summary(self.pairing.floor_s)
        values = self.values
        return (
            self.suite,
            f"{self.nodes:,}",
            self.work,
            _ms(ours["p50"]),
            _ms(ours["p99"]),
            self.floor,
            _ms(floor["p50"]),
            self.figure.shown(statistics.median(values)),
            f"{min(values):.3g}..{max(values):.3g}",
            str(len(values)),
            self._verdict(),
            f"{self.pairing.floor_spread:.0%}{'' if self.pairing.steady else ' !'}",
        )

    @property
    def _met(self) -> bool:
        return self.aim is None or self.figure.meets(statistics.median(self.values), self.aim)

    def _verdict(self) -> str:
        if self.aim is None:
            return ""
        verdict = "met" if self._met else "SHORT"
        sign = ">=" if self.figure.at_least else "<="
        return f"{sign} {self.aim:.3g} {verdict if self.pairing.steady else f'({verdict})'}"


def table(rows: Sequence[Row]) -> Iterator[str]:
    """The lines of the table."""
    lines = [_HEADS, *(row.cells() for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        columns = zip(_HEADS, line, widths, strict=True)
        yield "  ".join(_padded(*column) for column in columns).rstrip()
    yield ""
    yield from _LEGEND


def machine() -> dict[str, Any]:
    """What the figures are measured on, and how busy it is now."""
    return {
        "cpu": _cpu(),
        "cpus": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "load_1m": os.getloadavg()[0],
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        **{name: version(name) for name in _DISTRIBUTIONS},
    }


def write(folder: Path, suite: str, rows: Iterable[Row], measured_on: dict[str, Any]) -> Path:
    """The file of one suite's results, written anew."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{suite}.json"
    result = {
        "suite": suite,
        "measured": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": measured_on,
        "rows": [row.as_json() for row in rows],
    }
    path.write_bytes(orjson.dumps(result, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    return path


def _padded(head: str, text: str, width: int) -> str:
    return text.ljust(width) if head in _LEFT else text.rjust(width)


def _summary(times_s: Sequence[float]) -> dict[str, Any]:
    enough = len(times_s) >= _CALLS_FOR_P99
    return {
        "p50": statistics.median(times_s),
        "p99": statistics.quantiles(times_s, n=100)[98] if enough else None,
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
