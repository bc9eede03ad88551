"""One table of ratios for each suite, and the same as JSON."""

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

from pairing import Pairing

__all__ = ["Row", "machine", "table", "write"]

_DISTRIBUTIONS = ("kubextend", "orjson", "pytest-benchmark")
# A floor that moves more than this within one run says nothing.
_MOST_SPREAD = 0.10
# With fewer calls there is no ninety-ninth percentile.
_CALLS_FOR_P99 = 100
_HEADS = (
    "nodes",
    "work",
    "p50 ms",
    "p99 ms",
    "floor",
    "p50 ms",
    "times faster",
    "range",
    "blocks",
    "aim",
    "floor moved",
)
_LEFT = frozenset(("work", "floor"))
_LEGEND = """
times faster: median of paired blocks (floor, ours, ours, floor), lowest and highest block beside it
orjson.loads: only builds the document; no filter, no answer; the garbage collector runs, as in any
  program, but has nothing but that document to look through
freeing what a call returned is timed on neither side
aim: for the median
! and (): the floor moved by more than 10 %, so the ratio does not count: make the machine quiet and
  run again
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
        aim: how many times faster it is meant to be at least.
    """

    suite: str
    nodes: int
    work: str
    floor: str
    body_bytes: int
    pairing: Pairing
    aim: float | None = None

    @property
    def ratio(self) -> float:
        """How many times faster than the floor."""
        return statistics.median(self.pairing.ratios)

    @property
    def steady(self) -> bool:
        """Whether the floor stood still enough for the ratio to count."""
        return self.pairing.floor_spread <= _MOST_SPREAD

    def as_json(self) -> dict[str, Any]:
        """For benches/results."""
        return {
            "nodes": self.nodes,
            "work": self.work,
            "floor": self.floor,
            "body_bytes": self.body_bytes,
            "ours_s": _summary(self.pairing.ours_s),
            "floor_s": _summary(self.pairing.floor_s),
            "times_faster": {
                "median": self.ratio,
                "min": min(self.pairing.ratios),
                "max": max(self.pairing.ratios),
                "blocks": self.pairing.ratios,
            },
            "aim": self.aim,
            "aim_met": self.aim is None or self.ratio >= self.aim,
            "floor_spread": self.pairing.floor_spread,
            "steady": self.steady,
        }

    def cells(self) -> tuple[str, ...]:
        """For the table."""
        ours, floor = _summary(self.pairing.ours_s), _summary(self.pairing.floor_s)
        ratios = self.pairing.ratios
        return (
            f"{self.nodes:,}",
            self.work,
            _ms(ours["p50"]),
            _ms(ours["p99"]),
            self.floor,
            _ms(floor["p50"]),
            f"{self.ratio:.2f}x",
            f"{min(ratios):.2f}..{max(ratios):.2f}",
            str(len(ratios)),
            self._verdict(),
            f"{self.pairing.floor_spread:.0%}{'' if self.steady else ' !'}",
        )

    def _verdict(self) -> str:
        if self.aim is None:
            return ""
        verdict = "met" if self.ratio >= self.aim else "SHORT"
        return f">= {self.aim:.3g}x {verdict if self.steady else f'({verdict})'}"


def table(rows: Sequence[Row]) -> Iterator[str]:
    """The lines of the table of one suite."""
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
