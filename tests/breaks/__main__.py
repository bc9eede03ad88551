"""Apply each break to a copy of the project, run tests, and report the breaks that no test notices.

The nearest tests of a break run first, then all others. The program prints a line for each break,
and writes the same lines to ``build/breaks/report.txt``. Exit code 0: tests notice every break.
Exit code 1: they do not, or a break no longer fits the code, or tests fail before anything is
broken. A run that does not end within its time is no notice: a slow machine ends no run either.
"""

import argparse
import os
import queue
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .reader import ROOT, Break, read_lists, why_unfit
from .scratch import Scratch

FOLDER = ROOT / "build/breaks"
# The tests that run if the nearest tests notice nothing: all of `make test`, the quickest first.
_WIDER, _E2E = ["tests", "--ignore=tests/e2e"], ["tests/e2e"]
_PYTEST = ["-q", "--exitfirst", "--no-header", "-p", "no:randomly", "-p", "no:cacheprovider"]
_NEAREST_S, _WIDER_S = 300, 3600
_PYTEST_RED = {1, 2}  # tests failed; a module that cannot be imported interrupts the collection
_HUNG = 124
_ENDLESS = "does not end"


class Judge:
    """Runs tests against a broken copy of the project."""

    def __init__(self, scratch: Scratch, stages: list[list[str]]) -> None:
        self._scratch = scratch
        self._stages = stages

    def try_break(self, broken: Break) -> tuple[Break, str, float]:
        """Break the copy, run tests, and undo the break; return who noticed it, and the seconds."""
        began = time.monotonic()
        path = self._scratch.root / broken.file
        whole = path.read_text()
        path.write_text(whole.replace(broken.before, broken.after))
        try:
            noticed_by = next(filter(None, self._answers(broken)), "")
        finally:
            path.write_text(whole)
            self._scratch.restore_extension()
        return broken, noticed_by, time.monotonic() - began

    def _answers(self, broken: Break) -> Iterator[str]:
        """Run the nearest tests, then the others; yield for each run the test that fails, or ""."""
        yield from map(self.cargo, broken.cargo_arguments)
        if broken.is_rust and not broken.pytest_paths:
            yield self.cargo([])
        if broken.is_rust:
            yield "" if self._scratch.build_extension() else "the compiler"
        if broken.pytest_paths:
            yield self.pytest(broken.pytest_paths, _NEAREST_S)
        for stage in self._stages:
            yield self.pytest(stage, _WIDER_S)

    def red_unbroken(self, breaks: list[Break]) -> str:
        """Return which of the nearest tests fails while nothing is broken; empty: none does."""
        paths = sorted({path for each in breaks for path in each.pytest_paths})
        by_cargo = self.cargo([]) if any(each.is_rust for each in breaks) else ""
        return by_cargo or (self.pytest(paths, _WIDER_S) if paths else "")

    def cargo(self, arguments: list[str]) -> str:
        """Return which of the core's tests fails, if any."""
        command = ["cargo", "test", "--locked", "--quiet", "-p", "kubextend-core", *arguments]
        code, printed = _run(command, self._scratch.root, _WIDER_S, CARGO_PROFILE_DEV_DEBUG="0")
        failed = re.search(r"^test (\S+) \.\.\. FAILED|^---- (\S+) stdout", printed, re.MULTILINE)
        if failed:
            return f"cargo test {failed[1] or failed[2]}"
        if code == _HUNG:
            return f"cargo test {_ENDLESS}"
        return f"cargo test, exit code {code}" if code else ""

    def pytest(self, paths: list[str], within_s: float) -> str:
        """Return which test under these paths fails, if any.

        Raises: RuntimeError: Pytest ran no test, or could not start.
        """
        command = [str(self._scratch.python), "-m", "pytest", *_PYTEST, *paths]
        code, printed = _run(command, self._scratch.root, within_s)
        if code == 0:
            return ""
        if failed := re.search(r"^(?:FAILED|ERROR) (\S+)", printed, re.MULTILINE):
            return failed[1]
        if code == _HUNG:
            return f"{paths[0]} {_ENDLESS}"
        if code in _PYTEST_RED or code < 0:
            return f"{paths[0]}, exit code {code}"
        message = f"pytest {paths} ended with exit code {code}:\n{printed}"
        raise RuntimeError(message)


def _run(command: list[str], folder: Path, within_s: float, **environment: str) -> tuple[int, str]:
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=within_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return _HUNG, ""
    return done.returncode, done.stdout


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.breaks", description=__doc__)
    parser.add_argument("ids", nargs="*", help="only the breaks whose id begins so")
    parser.add_argument("--jobs", type=int, default=2, help="copies that are broken side by side")
    without = "leave out the tests on a real control plane, and the breaks that only they notice"
    parser.add_argument("--no-e2e", action="store_true", help=without)
    return parser.parse_args()


def _findings(
    breaks: list[Break], jobs: int, stages: list[list[str]]
) -> Iterator[tuple[Break, str, float]]:
    """Try breaks side by side, each in one of ``jobs`` copies; yield the findings in their order.

    Raises: SystemExit: Tests fail before anything is broken.
    """
    judges: queue.SimpleQueue[Judge] = queue.SimpleQueue()
    for number in range(jobs):
        judge = Judge(Scratch(FOLDER / f"copy-{number}"), stages)
        judges.put(judge)
    if by := judge.red_unbroken(breaks):
        sys.exit(f"Red before anything is broken: {by}")

    def try_one(broken: Break) -> tuple[Break, str, float]:
        judge = judges.get()
        try:
            return judge.try_break(broken)
        finally:
            judges.put(judge)

    with ThreadPoolExecutor(jobs) as threads:
        yield from threads.map(try_one, breaks)


def main() -> int:
    """Run from the command line."""
    given = _arguments()
    chosen = [each for each in read_lists() if each.name.startswith(tuple(given.ids) or "")]
    chosen = [each for each in chosen if not (given.no_e2e and each.needs_cluster)]
    unfit = {each.name: why for each in chosen if (why := why_unfit(each))}
    breaks = [each for each in chosen if each.name not in unfit]
    FOLDER.mkdir(parents=True, exist_ok=True)
    unnoticed = 0
    with (FOLDER / "report.txt").open("w") as report:

        def tell(line: str) -> None:
            for out in (sys.stdout, report):
                print(line, file=out, flush=True)

        for name, why in unfit.items():
            tell(f"{name} | DOES NOT FIT: {why}")
        jobs = max(1, min(given.jobs, len(breaks)))
        for broken, by, seconds in _findings(
            breaks, jobs, [_WIDER] if given.no_e2e else [_WIDER, _E2E]
        ):
            unnoticed += not by or by.endswith(_ENDLESS)
            tell(f"{broken.name} | {broken.holds} | {by or 'NOBODY'} | {seconds:.0f} s")
        tell(f"{len(breaks)} breaks, {unnoticed} unnoticed; {len(unfit)} do not fit the code")
    return int(unnoticed > 0 or bool(unfit))


if __name__ == "__main__":
    sys.exit(main())
