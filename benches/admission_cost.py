"""Measures what compiled rules cost kube-apiserver: CPU time for the creation of a pod.

python -m admission_cost, with benches and the project on PYTHONPATH. A turn creates pods of each
kind without policies, with them, and without them again; the row has the median of the turns and
the lowest and the highest one. CPU time varies less with what else the machine does than time does.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.admission_rules import (
    PODS,
    affinity_or_refusal,
    bare_pod,
    configuration,
    installed,
    profile,
)
from tests.e2e.controlplane import ControlPlane
from tests.e2e.kubeapi import Object
from tests.e2e.program_plane import program_plane
from tests.e2e.workbench import until

_SCHEDULER, _OTHER = "cost", "cost-other"
_RULES = (1, 10, 50)
_IDLE_S = 10.0


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


class _Bench:
    """Creates pods on one control plane, and reads how much CPU time kube-apiserver took.

    Args:
        plane: the control plane.
        folder: where configurations are written.
        pods: how many pods each measurement creates.
    """

    def __init__(self, plane: ControlPlane, folder: Path, pods: int) -> None:
        self._plane = plane
        self._folder = folder
        self._pods = pods
        name = f"kube-apiserver-{plane.port}"
        self._server = next(p for p in plane.bench.programs if p.name == name)

    def cpu_ms(self, case: _Case, count: int) -> float:
        """Return the CPU milliseconds of kube-apiserver for the creation of a pod of a case."""
        pods = [bare_pod(case.scheduler, case.labels(count)) for _ in range(self._pods)]
        before_s = self._server.processor_s()
        self._plane.api.create_all(PODS, pods)
        took_s = self._server.processor_s() - before_s
        self._plane.api.delete_pods("default")
        return took_s * 1000 / self._pods

    def idle_ms(self) -> float:
        """Return the CPU milliseconds that kube-apiserver takes in a second without requests."""
        before_s = self._server.processor_s()
        time.sleep(_IDLE_S)
        return (self._server.processor_s() - before_s) * 1000 / _IDLE_S

    def ratios(self, cases: Sequence[_Case], count: int) -> Iterator[tuple[_Case, float, float]]:
        """Yield for each case of one form of rules: the CPU ms with the rules, and without."""
        before = [self.cpu_ms(case, count) for case in cases]
        with self._in_force(cases[0], count):
            ours = [self.cpu_ms(case, count) for case in cases]
        after = [self.cpu_ms(case, count) for case in cases]
        for case, with_rules, *without in zip(cases, ours, before, after, strict=True):
            yield case, with_rules, statistics.mean(without)

    @contextmanager
    def _in_force(self, case: _Case, count: int) -> Iterator[None]:
        """Put the rules of a case in force for a block, and wait until they are gone again."""
        config = configuration(
            self._folder / "rules.yaml", [profile(_SCHEDULER, case.rules(count))]
        )
        concerned = bare_pod(_SCHEDULER, {f"rule-{n}": "5" for n in range(count)})
        if case.selector.startswith("!"):
            concerned = bare_pod(_SCHEDULER)
        api = self._plane.api
        with installed(self._plane, config):
            terms = _terms(affinity_or_refusal(api, concerned))
            assert len(terms) == count, f"{count} rules, and the pod has {terms}"
            yield
        until(lambda: affinity_or_refusal(api, concerned) == {}, "the rules are gone")


def _terms(affinity: Object | None) -> list[Object]:
    required = (affinity or {})["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return list(required["nodeSelectorTerms"][0]["matchExpressions"])


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    """Print a row for each number of rules and each kind of pod."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--pods", type=int, default=600)
    given = parser.parse_args()
    with program_plane() as plane, tempfile.TemporaryDirectory() as name:
        bench = _Bench(plane, Path(name), given.pods)
        for case in _CASES:
            bench.cpu_ms(case, max(_RULES))
        _say(f"idle: {bench.idle_ms():.0f} CPU ms a second")
        _say("rules | pods | CPU ms a pod without rules | with | ratio (lowest..highest)")
        found: dict[tuple[int, _Case], list[tuple[float, float]]] = {}
        forms = [
            [c for c in _CASES if c.selector == form]
            for form in dict.fromkeys(case.selector for case in _CASES)
        ]
        for _ in range(given.turns):
            for count in _RULES:
                for cases in forms:
                    for case, ours, without in bench.ratios(cases, count):
                        found.setdefault((count, case), []).append((ours, without))
        for (count, case), pairs in sorted(found.items(), key=lambda f: _CASES.index(f[0][1])):
            ratios = sorted(ours / without for ours, without in pairs)
            with_rules, without = (statistics.median(side) for side in zip(*pairs, strict=True))
            spread = f"{statistics.median(ratios):.2f} ({ratios[0]:.2f}..{ratios[-1]:.2f})"
            _say(f"{count} | {case.said} | {without:.2f} | {with_rules:.2f} | {spread}")


if __name__ == "__main__":
    main()
