"""Works that another program times: the program gets one order at a time and reports seconds."""

import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import orjson

__all__ = ["PROGRAMS", "RemoteWork", "Stopwatch"]

PROGRAMS = Path(__file__).parents[1] / "build" / "benches"


class Stopwatch:
    """A Go program of ``benches/`` that makes the calls of an order and times each."""

    def __init__(self, name: str) -> None:
        self._process = subprocess.Popen(  # noqa: S603  built from this folder
            [PROGRAMS / name], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def timed(self, **order: Any) -> list[float]:
        """Let the program make the calls of an order, and return the seconds of each call.

        Raises: RuntimeError: a call failed, or returned another answer than expected.
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
        """End the program."""
        self._process.kill()
        self._process.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True)
class RemoteWork:
    """A work that a ``Stopwatch`` program times.

    Attributes:
        name: the name of the work in the report.
        stopwatch: the program that makes and times the calls.
        order: the order that says what to call.
    """

    name: str
    stopwatch: Stopwatch
    order: dict[str, Any]

    def turn(self, calls: int) -> list[float]:
        """Make so many calls, and return the seconds of each."""
        return self.stopwatch.timed(**self.order, calls=calls)

    def answer(self, into: Path) -> bytes:
        """Make one call; write its answer to the file ``into``, and return the answer."""
        self.stopwatch.timed(**self.order, calls=1, answer_to=into)
        return into.read_bytes()

    def expecting(self, answer: Path) -> "RemoteWork":
        """Return this work with the check that every call answers what the file holds."""
        return replace(self, order={**self.order, "expected": answer})
