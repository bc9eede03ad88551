"""Compares extenders under kube-scheduler at two sizes and in both modes, and writes the results.

python -m scheduler [--before PROGRAM] [SUITE ...], such as scheduler-names-1000; all of them
without a name. PROGRAM is the kubextend of another checkout, with which lean answers are compared.
"""

import argparse
import sys
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path

import report
from pairing import Block, Pairing
from scheduler.comparison import Comparison, Run, block, comparisons, extenders, record
from scheduler.stage import Extender, Stage
from servers import Servers

# A block takes a minute or two.
_MOST_BLOCKS = 8
_BLOCKS_WITHOUT_AIM = 2
# The pods a second vary by a tenth and more, so each turn takes many seconds.
_RUNS = (
    Run(1_000, names=True, pods_alone=1_600, pods=1_600, pods_of_slow=1_600),
    Run(1_000, names=False, pods_alone=1_600, pods=60, pods_of_slow=20),
    Run(5_000, names=True, pods_alone=400, pods=400, pods_of_slow=400),
    Run(5_000, names=False, pods_alone=400, pods=15, pods_of_slow=5),
    Run(1_000, names=True, pods_alone=0, pods=1_600, pods_of_slow=0, lean=True),
    Run(5_000, names=True, pods_alone=0, pods=400, pods_of_slow=0, lean=True),
)


def compare(stage: Stage, run: Run, before: Path | None) -> Iterator[report.Record]:
    """Yield the rows of one size and mode, after one turn of each extender that does not count."""
    started = extenders(stage, run, before)
    for extender in started.values():
        stage.seconds_a_pod(extender, run.pods_for(extender.name))
    for compared in comparisons(run, before):
        yield record(run, compared, _blocks(stage, run, started, compared))


def _blocks(
    stage: Stage, run: Run, started: Mapping[str, Extender], compared: Comparison
) -> list[Block]:
    """Time blocks until the floor is steady, at most six, or two if the comparison has no aim."""
    blocks: list[Block] = []
    most = _BLOCKS_WITHOUT_AIM if run.aim(compared) is None else _MOST_BLOCKS
    while len(blocks) < most and not Pairing(blocks).stood_still:
        blocks.append(block(stage, run, started, compared))
    return blocks


def _say(lines: Iterable[str]) -> None:
    sys.stdout.write("\n".join([*lines, ""]))
    sys.stdout.flush()


def main(suites: Collection[str], before: Path | None) -> None:
    """Print one table, and write a file of results for each size and mode."""
    runs = {run.suite: run for run in _RUNS}
    if unknown := set(suites) - runs.keys():
        sys.exit(f"no such suite: {', '.join(sorted(unknown))}; there are {', '.join(runs)}")
    machine = report.machine()
    written: dict[str, list[report.Record]] = {}
    for run in (runs[suite] for suite in suites or runs):
        with tempfile.TemporaryDirectory() as folder, Servers.in_folder(Path(folder)) as servers:
            written[run.suite] = []
            stage = Stage(servers, run.nodes, rejected=6 if run.lean else 1)
            for row in compare(stage, run, before):
                written[run.suite].append(row)
                # The next one takes minutes.
                report.write(run.suite, [row], machine, whole=False)
                _say(islice(report.table({run.suite: [row]}), 2))
    _say([*report.table(written), report.described(machine)])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--before", type=Path)
    parser.add_argument("suites", nargs="*")
    given = parser.parse_args()
    main(given.suites, given.before)
