"""Works that another program times: it is given orders, one at a time, and reports the seconds."""

import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import orjson

__all__ = ["PROGRAMS", "RemoteWork", "Stopwatch"]

PROGRAMS = Path(__file__).parents[1] / "build" / "benches"


class Stopwatch:
    """A program of ``benches/`` that keeps the time of what it is told to call."""

    def __init__(self, name: str) -> None:
        self._process = subprocess.Popen(  # noqa: S603  built from this folder
            [PROGRAMS / name], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def timed(self, **order: Any) -> list[float]:
        """Seconds of every call.

        Raises: RuntimeError: a call failed, or answered what was not expected.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        given = {
            key: str(value) if isinstance(value, Path) else value for key, value in order.items()
        }
        self._process.stdin.write(orjson.dumps(given) + b"\n")
        self._process.stdin.flush()
        report = orjson.loads(self._process.stdout.readline())
        if report["error"]:
            raise RuntimeError(report["error"])
        seconds: list[float] = report["seconds"]
        return seconds

    def close(self) -> None:
        """The program ends."""
        self._process.kill()
        self._process.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True)
class RemoteWork:
    """Something that a stopwatch times.

    Attributes:
        name: as the report calls it.
        stopwatch: who times it.
        order: what is called.
    """

    name: str
    stopwatch: Stopwatch
    order: dict[str, Any]

    def turn(self, calls: int) -> list[float]:
        """Seconds of so many calls."""
        return self.stopwatch.timed(**self.order, calls=calls)

    def answer(self, into: Path) -> bytes:
        """What a call answers."""
        self.stopwatch.timed(**self.order, calls=1, answer_to=into)
        return into.read_bytes()

    def expecting(self, answer: Path) -> "RemoteWork":
        """The same, where every call must answer what the file holds."""
        return replace(self, order={**self.order, "expected": answer})
