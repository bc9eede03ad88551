"""Runs the comparison at the two sizes and in both modes, and writes what came of it.

python -m scheduler [SUITE ...], such as scheduler-names-1000; all of them without a name.
"""

import sys
import tempfile
from collections.abc import Collection, Iterable
from itertools import islice
from pathlib import Path

import report
from pairing import Block, Pairing
from scheduler.comparison import Run, block, comparisons, extenders, record
from scheduler.stage import Stage
from servers import Servers

# A block takes from twenty seconds to minutes.
_MOST_BLOCKS = 11
# Pods for a few seconds: many short turns tell more than few long ones where the machine drifts.
_RUNS = (
    Run(1_000, names=True, pods=800, pods_of_slow=800),
    Run(1_000, names=False, pods=60, pods_of_slow=20),
    Run(5_000, names=True, pods=200, pods_of_slow=200),
    Run(5_000, names=False, pods=15, pods_of_slow=5),
)


def compare(stage: Stage, run: Run) -> list[report.Record]:
    """The rows of one size and mode, after a first block that does not count."""
    started = extenders(stage, run)
    rows = []
    for compared in comparisons():
        block(stage, run, started, compared)
        blocks: list[Block] = []
        while len(blocks) < _MOST_BLOCKS and not Pairing(blocks).stood_still:
            blocks.append(block(stage, run, started, compared))
        rows.append(record(run, compared, blocks))
        # The next one takes minutes.
        _say(islice(report.table({run.suite: rows[-1:]}), 2))
    return rows


def _say(lines: Iterable[str]) -> None:
    sys.stdout.write("\n".join([*lines, ""]))
    sys.stdout.flush()


def main(suites: Collection[str]) -> None:
    """Prints one table and writes a file of results for each size and mode."""
    runs = {run.suite: run for run in _RUNS}
    if unknown := set(suites) - runs.keys():
        sys.exit(f"no such suite: {', '.join(sorted(unknown))}; there are {', '.join(runs)}")
    machine = report.machine()
    written: dict[str, list[report.Record]] = {}
    for run in (runs[suite] for suite in suites or runs):
        with tempfile.TemporaryDirectory() as folder, Servers.in_folder(Path(folder)) as servers:
            rows = compare(Stage(servers, run.nodes), run)
        written[run.suite] = rows
        report.write(run.suite, rows, machine, whole=True)
    _say([*report.table(written), report.described(machine)])


if __name__ == "__main__":
    main(sys.argv[1:])
