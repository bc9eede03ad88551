"""A kube-scheduler of 1.37 that places pod groups, and plugins with room for so many pods a node.

It calls filter for each member in turn, then bind for each, or begins again.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from tests.doors.wire import Plugin, Wire, grouped, pod, uid_of

from kubextend import Status, core

FULL = "the node is full"


class Room(Plugin):
    """A filter that lets so many pods onto each node, one by default."""

    def __init__(self, places: dict[str, int] | None = None) -> None:
        self.places = dict(places or {})
        super().__init__("Room", needs_pods=True, filter=self.judge)

    def judge(self, _state: object, _pod: core.Pod, at: core.NodeInfo) -> Status | None:
        full = len(at.pods) >= self.places.get(at.name, 1)
        return Status.unschedulable(FULL) if full else None


class Scheduler:
    """Groups of pods on a wire with a ``Room`` by default, and what is asked about them."""

    def __init__(self, *plugins: Any, nodes: Sequence[str] = (), **parts: Any) -> None:
        self.nodes = list(nodes or (f"n{number}" for number in range(5)))
        self.wire = Wire(*(plugins or [Room()]), nodes=self.nodes, **parts)
        self.pods: dict[str, dict[str, Any]] = {}

    def create(
        self, names: Iterable[str], group: str = "g", *, shown: bool = True, **fields: Any
    ) -> list[str]:
        """Create members of a group; without a group, lone pods."""
        made = list(names)
        for name in made:
            of = pod(name, **fields)
            self.pods[name] = grouped(of, group) if group else of
            if shown:
                self.wire.pods.show(self.pods[name])
        return made

    def filter(self, name: str, nodes: Sequence[str] | None = None) -> list[str]:
        """Call filter for a pod; return the kept nodes."""
        said = self.wire.filter(self.pods[name], self.nodes if nodes is None else nodes)
        assert not said.error
        return said.kept

    def passes(self, names: Iterable[str]) -> dict[str, str]:
        """Call filter for members in turn, until one finds no node; return the nodes."""
        found: dict[str, str] = {}
        for name in names:
            kept = self.filter(name)
            if not kept:
                break
            found[name] = kept[0]
        return found

    def bind(self, name: str, to: str) -> str:
        """Call bind for a pod; return the Error once kube-scheduler hears it."""
        call = self.wire.begin_bind(self.pods[name], to)
        while not call.done:
            self.wire.skip(0.5)
        return call.answer().error

    def place(self, names: Sequence[str], min_count: int) -> dict[str, str]:
        """Try a group once; return the nodes of the members that were bound."""
        found = self.passes(names)
        if len(found) < min_count:
            return {}
        return {name: to for name, to in found.items() if not self.bind(name, to)}

    def delete(self, name: str) -> None:
        self.wire.gone_pod(self.pods.pop(name))

    def show_bound(self, name: str, to: str) -> None:
        self.wire.show_bound(self.pods[name], to)

    def bound(self) -> dict[str, str]:
        """Return the node of each bound pod, by name."""
        by_uid = {uid_of(of): name for name, of in self.pods.items()}
        return {by_uid[uid]: to for uid, to in self.wire.binder.bound.items()}


def members(number: int, prefix: str = "m") -> list[str]:
    return [f"{prefix}{each}" for each in range(number)]
