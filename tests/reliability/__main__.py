"""Runs the rows of the table of faults, and writes the report: ``make reliability``.

Results are kept in build/reliability/results.json, so that rows can be run one by one, and the
report has what came of the last run of each. A row that never ran in this checkout keeps its line
of docs/reliability.md. Exit code: 0 where no row that ran is red.
"""

import argparse
import json
import os
import sys
from typing import Final

from .report import Result, markdown, misses, verdict
from .running import OUTPUT, Outcome, program, python_tests, rust_tests
from .table import ROOT, Row, rows

_RESULTS: Final = OUTPUT / "results.json"
_REPORT: Final = OUTPUT / "reliability.md"
_KEPT: Final = ROOT / "docs" / "reliability.md"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", help="ids of rows to run; none: every row")
    parser.add_argument("--keep", action="store_true", help="write docs/reliability.md too")
    parser.add_argument("--only-report", action="store_true", help="run nothing")
    options = parser.parse_args()
    table = rows()
    wanted = [row for row in table if row.id in options.rows or not options.rows]
    if unknown := set(options.rows) - {row.id for row in table}:
        parser.error(f"no such row: {', '.join(sorted(unknown))}")
    OUTPUT.mkdir(parents=True, exist_ok=True)
    red = False
    if not options.only_report:
        red = _run([row for row in wanted if not row.absent])
    text = markdown(table, _kept(), os.cpu_count() or 1, _KEPT.read_text())
    _REPORT.write_text(text)
    if options.keep:
        _KEPT.write_text(text)
    return 1 if red else 0


def _kept() -> dict[str, Result]:
    """Return the results of earlier runs by row."""
    if not _RESULTS.exists():
        return {}
    return {row: Result.read(kept) for row, kept in json.loads(_RESULTS.read_text()).items()}


def _keep(row: Row, result: Result) -> None:
    """Add the result of a row to the kept ones, among which another run may have put its own."""
    kept = {key: each.kept() for key, each in (_kept() | {row.id: result}).items()}
    _RESULTS.write_text(json.dumps(kept, indent=1))


def _run(wanted: list[Row]) -> bool:
    """Run rows: all tests at once, then one program after the other; return whether any is red."""
    load = os.getloadavg()[0]
    of_tests = python_tests(test for row in wanted for test in row.tests)
    of_tests |= rust_tests(test for row in wanted for test in row.rust)
    red = False
    for row in wanted:
        outcome = Outcome()
        for test in (*row.tests, *row.rust):
            outcome.add(of_tests[test])
        if row.command:
            load = os.getloadavg()[0]
            outcome.add(program(row.command))
        result = Result(outcome, load)
        _keep(row, result)
        red |= bool(misses(row, outcome))
        sys.stdout.write(f"{row.id}: {verdict(row, result)}\n")
        sys.stdout.flush()
    return red


if __name__ == "__main__":
    sys.exit(main())
