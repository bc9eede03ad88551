"""Draws a chart of time against number of nodes as SVG, with logarithmic axes."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

import orjson

from report import KEPT, RESULTS, Record

__all__ = ["Line", "log_log"]

_WIDTH, _HEIGHT = 860, 520
_LEFT, _RIGHT, _TOP, _BOTTOM = 90, 230, 56, 60
_NUMBER_WIDTH = 50
# Apart from one another for most kinds of colour blindness, and from black and white paper.
_OURS, _THEIRS, _LIMIT = "#0072b2", "#d55e00", "#767676"


@dataclass(frozen=True)
class Line:
    """One line of the chart: the times of one work.

    Attributes:
        name: the text at the end of the line.
        seconds: the time by the number of nodes.
        kind: ``ours``, ``theirs`` or ``limit``, which gives the colour.
        dashed: whether the line is dashed.
    """

    name: str
    seconds: Mapping[int, float]
    kind: str
    dashed: bool = False


@dataclass(frozen=True)
class _Scale:
    """A logarithmic scale that maps a range of numbers to a range of pixels."""

    least: float
    most: float
    start: float
    end: float

    def at(self, value: float) -> float:
        part = math.log(value / self.least) / math.log(self.most / self.least)
        return self.start + part * (self.end - self.start)


def log_log(title: str, lines: Sequence[Line]) -> str:
    """Return the chart of some lines as SVG."""
    sizes = sorted({size for line in lines for size in line.seconds})
    times_s = [time_s for line in lines for time_s in line.seconds.values()]
    x = _Scale(sizes[0], sizes[-1], _LEFT, _WIDTH - _RIGHT)
    y = _Scale(_power_below(min(times_s)), max(times_s) * 1.3, _HEIGHT - _BOTTOM, _TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}"',
        f'role="img" aria-label="{escape(title)}" font-family="sans-serif" font-size="13">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>',
        f'<text x="{_LEFT}" y="28" font-size="16" fill="#111111">{escape(title)}</text>',
        *_grid(sizes, x, y),
        *(_drawn(line, x, y) for line in lines),
        *_names(lines, y),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _grid(sizes: Sequence[int], x: _Scale, y: _Scale) -> Iterable[str]:
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    time_s = y.least
    while time_s < y.most:
        at = y.at(time_s)
        yield f'<path d="M{_LEFT} {at:.1f}H{right}" stroke="#dddddd"/>'
        yield _text(_LEFT - 8, at + 4, _time(time_s), "end")
        time_s *= 10
    written_to = right + 2.0 * _NUMBER_WIDTH
    # From the largest: where two numbers would touch, the smaller one goes without.
    for size in reversed(sizes):
        at = x.at(size)
        yield f'<path d="M{at:.1f} {_TOP}V{bottom}" stroke="#eeeeee"/>'
        if written_to - at > _NUMBER_WIDTH:
            yield _text(at, bottom + 18, f"{size:,}", "middle")
            written_to = at
    yield _text((_LEFT + right) / 2, bottom + 40, "nodes in the request", "middle")


def _drawn(line: Line, x: _Scale, y: _Scale) -> str:
    points = [(x.at(size), y.at(time_s)) for size, time_s in sorted(line.seconds.items())]
    path = " ".join(f"{across:.1f},{down:.1f}" for across, down in points)
    stroke = f'stroke="{_colour(line)}" stroke-width="2.5"'
    dashes = 'stroke-dasharray="7 4"' if line.dashed else ""
    return f'<polyline points="{path}" fill="none" {stroke} {dashes}/>'


def _names(lines: Sequence[Line], y: _Scale) -> Iterable[str]:
    """Yield the name of each line, at the end of the line or close by if names would overlap."""
    last = 0.0
    ends = [(y.at(line.seconds[max(line.seconds)]), line) for line in lines]
    for at, line in sorted(ends, key=lambda end: end[0]):
        last = max(at, last + 17)
        yield _text(_WIDTH - _RIGHT + 8, last + 4, line.name, "start", _colour(line))


def _text(x: float, y: float, text: str, anchor: str, colour: str = "#444444") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {place} fill="{colour}">{escape(text)}</text>'


def _colour(line: Line) -> str:
    return {"ours": _OURS, "theirs": _THEIRS}.get(line.kind, _LIMIT)


def _power_below(value: float) -> float:
    return float(10 ** math.floor(math.log10(value)))


def _time(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size * 0.999:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def main() -> None:
    """Draw the results of the last runs of ``test_growth.py`` and ``test_go.py``."""
    growth, go = (
        orjson.loads((RESULTS / f"{suite}.json").read_bytes())["rows"] for suite in ("growth", "go")
    )

    def paired(work: str) -> dict[int, float]:
        return {row["nodes"]: row["ours_s"]["p50"] for row in growth if row["work"] == work}

    def read(rows: Sequence[Record], work: str) -> dict[int, float]:
        found = [row for row in rows if row["work"] == work]
        return {row["nodes"]: row["ours_is"]["median"] / 1e3 for row in found}

    limit = {row["nodes"]: row["floor_s"]["p50"] for row in growth if row["work"] == "full, warm"}
    lines = [
        Line("Go extender, whole nodes", read(go, "full"), "theirs"),
        Line("Go extender, names", read(go, "names"), "theirs", dashed=True),
        Line("kubextend, nodes never seen", read(growth, "full, cold"), "ours"),
        Line("kubextend, nodes seen before", paired("full, warm"), "ours"),
        Line("memory compare and copy", limit, "limit"),
        Line("kubextend, names", paired("names"), "ours", dashed=True),
    ]
    title = "filter in process: request bytes to answer bytes"
    (KEPT / "growth.svg").write_text(log_log(title, lines))


if __name__ == "__main__":
    main()
