"""Runs the comparison at the two sizes and in both modes, and writes what came of it."""

import sys
import tempfile
from pathlib import Path

import report
from scheduler.comparison import Run, block, comparisons, extenders, record
from scheduler.stage import Stage
from servers import Servers

_BLOCKS = 7
# Pods for a few seconds: many short turns tell more than few long ones where the machine drifts.
_RUNS = (
    Run(1_000, names=True, pods=400, pods_of_slow=400),
    Run(1_000, names=False, pods=40, pods_of_slow=15),
    Run(5_000, names=True, pods=120, pods_of_slow=120),
    Run(5_000, names=False, pods=10, pods_of_slow=4),
)


def compare(stage: Stage, run: Run) -> list[report.Record]:
    """The rows of one size and mode, after a first block that does not count."""
    started = extenders(stage, run)
    rows = []
    for compared in comparisons():
        block(stage, run, started, compared)
        blocks = [block(stage, run, started, compared) for _ in range(_BLOCKS)]
        rows.append(record(run, compared, blocks))
    return rows


def main() -> None:
    """Prints one table and writes a file of results for each size and mode."""
    machine = report.machine()
    written: dict[str, list[report.Record]] = {}
    for run in _RUNS:
        with tempfile.TemporaryDirectory() as folder, Servers.in_folder(Path(folder)) as servers:
            rows = compare(Stage(servers, run.nodes), run)
        written[run.suite] = rows
        report.write(run.suite, rows, machine, whole=True)
    sys.stdout.write("\n".join([*report.table(written), report.described(machine), ""]))


if __name__ == "__main__":
    main()
