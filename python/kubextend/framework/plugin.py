"""What a plugin looks like to the profile that runs it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

from kubextend import core
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.status import Status

__all__ = ["FilterPlugin", "NormalizeScorePlugin", "Plugin", "Rejection", "ScorePlugin", "Scores"]

Scores: TypeAlias = memoryview | Sequence[int]
"""int64, shape ``(len(nodes),)``, in the nodes' order."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """Some nodes, and why they are rejected.

    Attributes:
        nodes: aligned with the nodes that the plugin was asked about.
        status: the same for each of them.
    """

    nodes: core.Mask
    status: Status


class Plugin(Protocol):
    """Anything with a name; it extends the points whose methods it defines."""

    name: str


@runtime_checkable
class FilterPlugin(Plugin, Protocol):
    """Says where a pod may not run."""

    def filter_nodes(
        self, state: CycleState, pod: core.Pod, nodes: core.Nodes
    ) -> Sequence[Rejection]:
        """The rejected nodes; the first entry that names a node gives its status."""


@runtime_checkable
class ScorePlugin(Plugin, Protocol):
    """Says how good each node is."""

    def score_nodes(self, state: CycleState, pod: core.Pod, nodes: core.Nodes) -> Scores:
        """One number a node; 0..100 unless ``normalize_score`` brings it there."""


@runtime_checkable
class NormalizeScorePlugin(ScorePlugin, Protocol):
    """A score plugin whose numbers are brought into 0..100 afterwards."""

    def normalize_score(self, state: CycleState, pod: core.Pod, scores: Scores) -> Scores:
        """The same numbers within 0..100."""
