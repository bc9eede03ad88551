"""Measures what compiled rules cost kube-apiserver: CPU time for the creation of a pod.

python -m admission_cost, with benches and the project on PYTHONPATH. Two control planes create the
same pods by turns of 50 pods: one never has policies, the other one does. Each row is the median of
the ratios of several turns, with the lowest and the highest one. The first row has no policies on
either side: its ratio says how well the two sides can be compared.
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.admission_rules import (
    PODS,
    affinity_or_refusal,
    bare_pod,
    installed,
    profile,
)
from tests.e2e.controlplane import ControlPlane
from tests.e2e.kubeapi import Object
from tests.e2e.program_plane import program_plane
from tests.e2e.stack import configuration

_SCHEDULER, _OTHER = "cost", "cost-other"
_RULES = (1, 10, 50)
_BATCH = 50


@dataclass(frozen=True)
class _Case:
    """Rules of one form, and the kind of pods that are created beside them.

    Attributes:
        said: what the row says about the pods.
        selector: the selector of pods of rule ``{n}``.
        scheduler: the scheduler name of the pods.
        labelled: of how many rules the pods have the label: ``none``, ``one`` or ``every``.
    """

    said: str
    selector: str
    scheduler: str
    labelled: str

    def rules(self, count: int) -> list[Object]:
        return [
            {"podSelector": self.selector.format(n=n), "nodeSelector": f"node-{n}=yes"}
            for n in range(count)
        ]

    def labels(self, count: int) -> dict[str, str]:
        most = {"none": 0, "one": 1, "every": count}[self.labelled]
        return {f"rule-{n}": "5" for n in range(most)}


_CASES = (
    _Case("of no rule, selectors of labels", "rule-{n}", _SCHEDULER, "none"),
    _Case("of no rule, selectors with >", "rule-{n}>4", _SCHEDULER, "none"),
    _Case("of another scheduler, selectors with !", "!rule-{n}", _OTHER, "none"),
    _Case("of one rule", "rule-{n}", _SCHEDULER, "one"),
    _Case("of every rule", "rule-{n}", _SCHEDULER, "every"),
)


class _Side:
    """A control plane, and how much CPU time its kube-apiserver took to create pods.

    Attributes:
        plane: the control plane.
        cpu_s: CPU seconds for all pods so far.
    """

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.cpu_s = 0.0
        name = f"kube-apiserver-{plane.port}"
        self._server = next(p for p in plane.bench.programs if p.name == name)

    def create(self, pods: Sequence[Object]) -> None:
        """Create pods, count the CPU time, and delete the pods."""
        before_s = self._server.processor_s()
        self.plane.api.create_all(PODS, pods)
        self.cpu_s += self._server.processor_s() - before_s
        self.plane.api.delete_pods("default")


def _turn(without: _Side, with_rules: _Side, pods: Sequence[Object], batches: int) -> list[float]:
    """Return the CPU milliseconds for the creation of a pod: without rules, and with them."""
    before_s = [side.cpu_s for side in (without, with_rules)]
    for number in range(batches):
        # Neither side is always the first.
        for side in (without, with_rules) if number % 2 else (with_rules, without):
            side.create(pods)
    took_s = [side.cpu_s - b for side, b in zip((without, with_rules), before_s, strict=True)]
    return [each * 1000 / batches / len(pods) for each in took_s]


@contextmanager
def _in_force(plane: ControlPlane, folder: Path, case: _Case, count: int) -> Iterator[None]:
    """Put the rules of a case in force for a block."""
    config = configuration(folder / "rules.yaml", profile(_SCHEDULER, case.rules(count)))
    missing = case.selector.startswith("!")
    labels = {} if missing else {f"rule-{n}": "5" for n in range(count)}
    with installed(plane, config):
        affinity = affinity_or_refusal(plane.api, bare_pod(_SCHEDULER, labels))
        terms = _terms(affinity)
        assert len(terms) == count, f"{count} rules, and the pod has {terms}"
        yield


def _terms(affinity: Object | None) -> list[Object]:
    required = (affinity or {})["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return list(required["nodeSelectorTerms"][0]["matchExpressions"])


def _row(said: str, turns: Sequence[Sequence[float]]) -> None:
    ratios = sorted(ours / without for without, ours in turns)
    without, ours = (statistics.median(side) for side in zip(*turns, strict=True))
    spread = f"{statistics.median(ratios):.2f} ({ratios[0]:.2f}..{ratios[-1]:.2f})"
    sys.stdout.write(f"{said} | {without:.2f} | {ours:.2f} | {spread}\n")
    sys.stdout.flush()


def main() -> None:
    """Print a row for each number of rules and each kind of pod."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--batches", type=int, default=6)
    given = parser.parse_args()
    with (
        program_plane() as plane,
        program_plane() as other_plane,
        tempfile.TemporaryDirectory() as name,
    ):
        sides = _Side(plane), _Side(other_plane)
        sys.stdout.write("rules | pods | CPU ms a pod without rules | with | ratio\n")
        plain = [bare_pod(_SCHEDULER)] * _BATCH
        # The first pods cost more: kube-apiserver has just started.
        _turn(*sides, plain, 2 * given.batches)
        _row("0 | of no rule", [_turn(*sides, plain, given.batches) for _ in range(given.turns)])
        for case in _CASES:
            for count in _RULES:
                # Pods of 50 rules take so long that few of them are enough.
                batches = 1 if len(case.labels(count)) > _BATCH / 2 else given.batches
                pods = [bare_pod(case.scheduler, case.labels(count))] * _BATCH
                with _in_force(other_plane, Path(name), case, count):
                    turns = [_turn(*sides, pods, batches) for _ in range(given.turns)]
                _row(f"{count} | {case.said}", turns)


if __name__ == "__main__":
    main()
