"""The extenders that are compared under kube-scheduler, and the rows of the report."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.stack import configuration

from figures import FASTER
from pairing import Block, Pairing
from report import Record, Row
from scheduler.stage import SCHEDULER_NAME, Extender, Stage
from servers import BENCH_PROFILE

__all__ = ["Comparison", "Run", "block", "comparisons", "extenders", "record"]

NONE, PASS, BYTES, GO = "no extender", "pass-through", "Go from bytes", "Go extender"
NATIVE, PYTHON, COMPILED = "kubextend", "kubextend, Python", "compiled rules"
LEAN, BEFORE = "kubextend, lean", "kubextend before"
_HERE = Path(__file__).parent
_PER_NODE = {"plugins": {"multiPoint": {"enabled": [{"name": "PerNode"}]}}, "pluginConfig": []}
_AIMS = {
    (True, NATIVE, BYTES): 0.95,
    (True, NATIVE, GO): 1.3,
    (True, LEAN, NATIVE): 1.1,
    (True, LEAN, BEFORE): 1.1,
    (False, NATIVE, GO): 2.0,
}
# Beside no extender, by the number of nodes.
_AIMS_OF_COMPILED = {1_000: 0.95, 5_000: 0.9}


@dataclass(frozen=True)
class Comparison:
    """Two extenders to compare, by name: ours and the floor."""

    ours: str
    floor: str


@dataclass(frozen=True)
class Run:
    """The comparisons at one number of nodes and in one request mode.

    Attributes:
        nodes: how many nodes the cluster has.
        names: whether names of nodes are sent; False: whole nodes.
        pods_alone: how many pods are scheduled in a turn without an extender.
        pods: how many pods are scheduled in a turn with an extender.
        pods_of_slow: how many pods are scheduled in a turn with the plain Go extender, which
            decodes whole nodes.
        lean: whether 60 % of the nodes are rejected, and lean answers are compared with told ones.
    """

    nodes: int
    names: bool
    pods_alone: int
    pods: int
    pods_of_slow: int
    lean: bool = False

    @property
    def suite(self) -> str:
        """The name of the suite in the report, such as ``scheduler-names-1000``."""
        kind = "lean" if self.lean else "names" if self.names else "full"
        return f"scheduler-{kind}-{self.nodes}"

    def pods_for(self, name: str) -> int:
        """Return how many pods are scheduled in a turn with the extender of this name."""
        fewer_or_more = {NONE: self.pods_alone, COMPILED: self.pods_alone, GO: self.pods_of_slow}
        return fewer_or_more.get(name, self.pods)

    def aim(self, compared: Comparison) -> float | None:
        """Return how many times as fast as the floor ours should be; None: there is no aim."""
        if compared == Comparison(COMPILED, NONE):
            return _AIMS_OF_COMPILED.get(self.nodes)
        return _AIMS.get((self.names, compared.ours, compared.floor))


def comparisons(run: Run, before: Path | None) -> Iterator[Comparison]:
    """Yield the comparisons; each has kubextend and one other extender, or another kubextend."""
    if run.lean:
        floors = [BEFORE, NATIVE] if before else [NATIVE]
        yield from (Comparison(LEAN, floor) for floor in floors)
        return
    yield Comparison(NATIVE, BYTES)
    yield Comparison(NATIVE, GO)
    yield Comparison(PYTHON, NATIVE)
    yield Comparison(NATIVE, PASS)
    yield Comparison(NATIVE, NONE)
    yield Comparison(COMPILED, NONE)
    yield Comparison(COMPILED, NATIVE)


def extenders(stage: Stage, run: Run, before: Path | None) -> Mapping[str, Extender]:
    """Start all extenders that are compared, and return them by name."""
    servers, names = stage.servers, run.names

    def kubextend(name: str, more: Mapping[str, Any] | None = None, **options: Any) -> Extender:
        kubeconfig = stage.kubeconfig if names else None
        profile = {"schedulerName": SCHEDULER_NAME, **(more or {})}
        return Extender(name, servers.kubextend(kubeconfig, profile, **options)[0], names)

    if run.lean:
        lean = {"extender": {"lastFilter": True}}
        started = [kubextend(NATIVE), kubextend(LEAN, sections=lean)]
        started += [kubextend(BEFORE, serving=[before])] if before else []
    else:
        go_extender = servers.go_extender(stage.node_list if names else None)
        started = [
            Extender(NONE, decides=False),
            Extender(PASS, servers.go_bytes("-pass"), names, decides=False),
            Extender(BYTES, servers.go_bytes("-good", stage.good_names), names),
            Extender(GO, go_extender, names),
            kubextend(NATIVE),
            kubextend(PYTHON, _PER_NODE, out_of_tree=["plugin:PerNode"], python_path=_HERE),
            Extender(COMPILED, compiled=_compiled(servers.bench.folder)),
        ]
    return {extender.name: extender for extender in started}


def _compiled(folder: Path) -> Path:
    """Write a configuration with the rules of the other extenders, and return the file."""
    rules = BENCH_PROFILE | {"schedulerName": SCHEDULER_NAME}
    return configuration(folder / "compiled.json", rules)


def block(stage: Stage, run: Run, started: Mapping[str, Extender], compared: Comparison) -> Block:
    """Time one turn of the floor, two of ours and one of the floor, in seconds a pod."""

    def turn(name: str) -> float:
        took_s = stage.seconds_a_pod(started[name], run.pods_for(name))
        # The table comes after many minutes.
        sys.stderr.write(f"{run.suite}: {name}, {took_s * 1e3:.2f} ms a pod\n")
        return took_s

    before = turn(compared.floor)
    between = [turn(compared.ours), turn(compared.ours)]
    return Block(between, [before, turn(compared.floor)])


def record(run: Run, compared: Comparison, blocks: Sequence[Block]) -> Record:
    """Return the row of a comparison, whose times are seconds a pod."""
    pairing = Pairing(blocks).steadiest
    names = (compared.ours, compared.floor)
    return Row(run.suite, run.nodes, *names, 0, pairing, FASTER, run.aim(compared)).as_json()
