"""Measures what compiled rules cost kube-apiserver: CPU time for the creation of a pod.

python -m admission_cost, with benches and the project on PYTHONPATH. Each row compares pods with
policies in force with the same pods without, created in turns; CPU time hardly varies with what
else the machine does.
"""

import os
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from tests.e2e.admission_rules import (
    PODS,
    bare_pod,
    configuration,
    installed,
    profile,
)
from tests.e2e.controlplane import ControlPlane
from tests.e2e.program_plane import program_plane

_SCHEDULER = "cost"
_PODS = 600
_ROUNDS = 3
_TICKS = os.sysconf("SC_CLK_TCK")


def _cpu_s(plane: ControlPlane) -> float:
    """Return the CPU seconds that kube-apiserver has used."""
    server = next(p for p in plane.bench.programs if p.name == f"kube-apiserver-{plane.port}")
    # The name of a program, the second field, may have blanks and ends with the last bracket.
    fields = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _cpu_ms_a_pod(plane: ControlPlane, labels: dict[str, str]) -> float:
    before = _cpu_s(plane)
    pods = [bare_pod(_SCHEDULER, labels) for _ in range(_PODS)]
    plane.api.create_all(PODS, pods)
    took = _cpu_s(plane) - before
    plane.api.delete_pods("default")
    return took * 1000 / _PODS


@contextmanager
def _rules(plane: ControlPlane, folder: Path, count: int) -> Iterator[None]:
    """Put rules in force, each for pods with a label of its own."""
    filters = [{"podSelector": f"rule-{n}", "nodeSelector": f"node-{n}=yes"} for n in range(count)]
    file = folder / f"{count}.yaml"
    if not count:
        with nullcontext():
            yield
        return
    config = configuration(file, [profile(_SCHEDULER, filters)])
    with installed(plane, config):
        yield


def main() -> None:
    """Print a row for each number of rules and each kind of pod."""
    with program_plane() as plane, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        kinds = {"of no rule": {}, "of one rule": {"rule-0": ""}}
        kinds["of every rule"] = {f"rule-{n}": "" for n in range(50)}
        for labels in kinds.values():
            _cpu_ms_a_pod(plane, labels)
        sys.stdout.write("rules, pods: CPU ms a pod with rules, without, ratio\n")
        for count in (1, 10, 50):
            found: dict[str, list[tuple[float, float]]] = {kind: [] for kind in kinds}
            for _ in range(_ROUNDS):
                without = {kind: _cpu_ms_a_pod(plane, kinds[kind]) for kind in kinds}
                with _rules(plane, folder, count):
                    for kind, labels in kinds.items():
                        found[kind].append((_cpu_ms_a_pod(plane, labels), without[kind]))
            for kind, pairs in found.items():
                ours, floor = (statistics.median(side) for side in zip(*pairs, strict=True))
                row = f"{count}, {kind}: {ours:.2f}, {floor:.2f}, {ours / floor:.2f}\n"
                sys.stdout.write(row)
                sys.stdout.flush()


if __name__ == "__main__":
    main()
