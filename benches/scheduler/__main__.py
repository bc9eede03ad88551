"""Runs the comparison at the two sizes and in both modes, and writes what came of it."""

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import report
from scheduler.rounds import GO, Round, Rounds, extenders, records, round_of
from scheduler.stage import Extender, Stage
from servers import Servers

_ROUNDS = 5
_SIZES = (1_000, 5_000)
# Enough for ten seconds or so.
_PODS = {(1_000, True): 700, (5_000, True): 150, (1_000, False): 30, (5_000, False): 10}
_PODS_OF_GO = {(1_000, False): 10, (5_000, False): 4}


def pods_of(nodes: int, *, names: bool) -> Callable[[Extender], int]:
    """How many pods an extender is given."""
    usual = _PODS[nodes, names]

    def pods(extender: Extender) -> int:
        if extender.url is None:
            return _PODS[nodes, True]
        return _PODS_OF_GO.get((nodes, names), usual) if extender.name == GO else usual

    return pods


def compare(stage: Stage, nodes: int, *, names: bool) -> Rounds:
    """The rounds of one size and mode, after a first one that does not count."""
    compared = extenders(stage, names=names)
    pods = pods_of(nodes, names=names)
    round_of(stage, compared, pods)
    rounds: list[Round] = [round_of(stage, compared, pods) for _ in range(_ROUNDS)]
    return Rounds(nodes, names, rounds)


def main() -> None:
    """Prints one table and writes a file of results for each size and mode."""
    machine = report.machine()
    written: dict[str, list[report.Record]] = {}
    for nodes in _SIZES:
        with tempfile.TemporaryDirectory() as folder, Servers.in_folder(Path(folder)) as servers:
            stage = Stage(servers, nodes)
            for names in (True, False):
                done = compare(stage, nodes, names=names)
                written[done.suite] = records(done)
                report.write(done.suite, written[done.suite], machine, whole=True)
    sys.stdout.write("\n".join([*report.table(written), report.described(machine), ""]))


if __name__ == "__main__":
    main()
