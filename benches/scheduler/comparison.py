"""Who runs beside whom under kube-scheduler, and what is made of the times."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from figures import FASTER
from pairing import Block, Pairing
from report import Record, Row
from scheduler.stage import SCHEDULER_NAME, Extender, Stage

__all__ = ["Comparison", "Run", "block", "comparisons", "extenders", "record"]

NONE, PASS, BYTES, GO = "no extender", "pass-through", "Go from bytes", "Go extender"
NATIVE, PYTHON = "kubextend", "kubextend, Python"
_HERE = Path(__file__).parent
_PER_NODE = {"plugins": {"multiPoint": {"enabled": [{"name": "PerNode"}]}}, "pluginConfig": []}
_AIMS = {
    (True, NATIVE, BYTES): 0.95,
    (True, NATIVE, GO): 1.3,
    (False, NATIVE, GO): 2.0,
}


@dataclass(frozen=True)
class Comparison:
    """Two extenders."""

    ours: str
    floor: str


@dataclass(frozen=True)
class Run:
    """One size and mode.

    Attributes:
        nodes: of the cluster.
        names: names of nodes are sent, else whole nodes.
        pods_alone: how many are scheduled each time without an extender.
        pods: the same with one.
        pods_of_slow: the same of an extender that decodes whole nodes.
    """

    nodes: int
    names: bool
    pods_alone: int
    pods: int
    pods_of_slow: int

    @property
    def suite(self) -> str:
        """As the report calls it."""
        return f"scheduler-{'names' if self.names else 'full'}-{self.nodes}"

    def pods_for(self, name: str) -> int:
        """How many pods an extender is given."""
        return {NONE: self.pods_alone, GO: self.pods_of_slow}.get(name, self.pods)

    def aim(self, compared: Comparison) -> float | None:
        """How many times faster ours is meant to be, if there is something to be said."""
        return _AIMS.get((self.names, compared.ours, compared.floor))


def comparisons() -> Iterator[Comparison]:
    """What is compared; kubextend is never compared with more than one at a time."""
    yield Comparison(NATIVE, BYTES)
    yield Comparison(NATIVE, GO)
    yield Comparison(PYTHON, NATIVE)
    yield Comparison(NATIVE, PASS)
    yield Comparison(NATIVE, NONE)


def extenders(stage: Stage, run: Run) -> Mapping[str, Extender]:
    """All that are compared, started, by their names."""
    servers, names = stage.servers, run.names
    kubeconfig = stage.kubeconfig if names else None
    profile = {"schedulerName": SCHEDULER_NAME}
    python = servers.kubextend(
        kubeconfig,
        profile
        | {"plugins": {"multiPoint": {"enabled": [{"name": "PerNode"}]}}, "pluginConfig": []},
        out_of_tree=["plugin:PerNode"],
        python_path=_HERE,
    )
    go_extender = servers.go_extender(stage.node_list if names else None)
    started = [
        Extender(NONE, decides=False),
        Extender(PASS, servers.go_bytes("-pass"), names, decides=False),
        Extender(BYTES, servers.go_bytes("-good", stage.good_names), names),
        Extender(GO, go_extender, names),
        Extender(NATIVE, servers.kubextend(kubeconfig, profile)[0], names),
        Extender(PYTHON, python[0], names),
    ]
    return {extender.name: extender for extender in started}


def block(stage: Stage, run: Run, started: Mapping[str, Extender], compared: Comparison) -> Block:
    """Seconds a pod of the floor, ours, ours, the floor."""

    def turn(name: str) -> float:
        took_s = stage.seconds_a_pod(started[name], run.pods_for(name))
        # The table comes after many minutes.
        sys.stderr.write(f"{run.suite}: {name}, {took_s * 1e3:.2f} ms a pod\n")
        return took_s

    before = turn(compared.floor)
    between = [turn(compared.ours), turn(compared.ours)]
    return Block(between, [before, turn(compared.floor)])


def record(run: Run, compared: Comparison, blocks: Sequence[Block]) -> Record:
    """The row of a comparison; a time is that of one pod."""
    pairing = Pairing(blocks).steadiest
    names = (compared.ours, compared.floor)
    return Row(run.suite, run.nodes, *names, 0, pairing, FASTER, run.aim(compared)).as_json()
