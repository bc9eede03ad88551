"""Which extenders run, in which order, and what is made of their times."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from figures import FASTER
from pairing import Block, Pairing
from report import Record, Row
from scheduler.stage import SCHEDULER_NAME, Extender, Stage

__all__ = ["BYTES", "GO", "NATIVE", "Round", "extenders", "records", "round_of"]

NONE, PASS, BYTES, GO = "no extender", "pass-through", "Go from bytes", "Go extender"
NATIVE, PYTHON = "kubextend", "kubextend, Python"
_HERE = Path(__file__).parent
_AIMS = {
    True: {(NATIVE, BYTES): 0.95, (NATIVE, GO): 1.3},
    False: {(NATIVE, GO): 2.0},
}

Round = dict[str, list[float]]
"""Seconds a pod of every extender, there and back."""


@dataclass(frozen=True)
class Rounds:
    """Rounds over the same extenders.

    Attributes:
        nodes: of the cluster.
        names: names of nodes were sent, else whole nodes.
        rounds: one after the other.
    """

    nodes: int
    names: bool
    rounds: Sequence[Round]

    @property
    def suite(self) -> str:
        """As the report calls it."""
        return f"scheduler-{'names' if self.names else 'full'}-{self.nodes}"


def extenders(stage: Stage, *, names: bool) -> list[Extender]:
    """All that are compared, started."""
    servers = stage.servers
    node_list = stage.node_list if names else None
    kubeconfig = stage.kubeconfig if names else None
    profile = {"schedulerName": SCHEDULER_NAME}
    python = servers.kubextend(
        kubeconfig,
        profile
        | {"plugins": {"multiPoint": {"enabled": [{"name": "PerNode"}]}}, "pluginConfig": []},
        out_of_tree=["plugin:PerNode"],
        python_path=_HERE,
    )
    return [
        Extender(NONE, decides=False),
        Extender(PASS, servers.go_bytes("-pass"), names, decides=False),
        Extender(BYTES, servers.go_bytes("-good", stage.good_names), names),
        Extender(GO, servers.go_extender(node_list), names),
        Extender(NATIVE, servers.kubextend(kubeconfig, profile)[0], names),
        Extender(PYTHON, python[0], names),
    ]


def round_of(stage: Stage, compared: Sequence[Extender], pods: Callable[[Extender], int]) -> Round:
    """Each extender once in this order, then once in the other."""
    there = {e.name: stage.seconds_a_pod(e, pods(e)) for e in compared}
    back = {e.name: stage.seconds_a_pod(e, pods(e)) for e in reversed(compared)}
    return {name: [there[name], back[name]] for name in there}


def records(done: Rounds) -> list[Record]:
    """Rows of kubextend beside every other one, and of the others beside no extender."""
    pairs = [(ours, floor) for ours in (NATIVE, PYTHON) for floor in (GO, BYTES, PASS, NONE)]
    pairs += [(theirs, NONE) for theirs in (PASS, BYTES, GO)]
    return [_row(done, ours, floor).as_json() for ours, floor in pairs]


def _row(done: Rounds, ours: str, floor: str) -> Row:
    pairing = Pairing([Block(each[ours], each[floor]) for each in done.rounds])
    aim = _AIMS[done.names].get((ours, floor))
    return Row(done.suite, done.nodes, ours, floor, 0, pairing, FASTER, aim)
