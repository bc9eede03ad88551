"""The interface of a plugin: the framework's methods in snake case.

A plugin is any object with a ``name``, and extends the points whose methods it defines. A plugin
need not inherit anything: the protocols here are for type checkers and for readers.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Protocol, TypeAlias, TypeVar

from kubextend import core
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.status import Status

__all__ = [
    "METHODS_OF_POINT",
    "BindPlugin",
    "FilterPlugin",
    "NormalizeScorePlugin",
    "PerNodeFilterPlugin",
    "PerNodeScorePlugin",
    "PermitPlugin",
    "Plugin",
    "PostBindPlugin",
    "PostFilterPlugin",
    "PreBindPlugin",
    "PreEnqueuePlugin",
    "PreFilterPlugin",
    "PreFilterResult",
    "PreScorePlugin",
    "QueueSortPlugin",
    "QueuedPodInfo",
    "Rejection",
    "ReservePlugin",
    "ScorePlugin",
    "Scores",
    "in_core",
    "runs_in_core",
]

METHODS_OF_POINT: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "preEnqueue": ("pre_enqueue",),
        "queueSort": ("less",),
        "preFilter": ("pre_filter",),
        "filter": ("filter_nodes", "filter"),
        "postFilter": ("post_filter",),
        "preScore": ("pre_score",),
        "score": ("score_nodes", "score"),
        "reserve": ("reserve", "unreserve"),
        "permit": ("permit",),
        "preBind": ("pre_bind",),
        "bind": ("bind",),
        "postBind": ("post_bind",),
    }
)
"""Methods by extension point, as a configuration spells it; any of the methods extends the point.

``normalize_score`` belongs to ``score``.
"""

Scores: TypeAlias = memoryview | Sequence[int]
"""Scores: int64, shape ``(len(nodes),)``, in the order of the nodes."""

MaybeStatus: TypeAlias = Status | None
"""A Status; None means success."""


_Method = TypeVar("_Method", bound=Callable[..., object])


def in_core(method: _Method) -> _Method:
    """Mark a method that calls the core, and no code of its own that could hang."""
    method.in_core = True  # type: ignore[attr-defined]
    return method


def runs_in_core(plugin: object, *methods: str) -> bool:
    """Return whether every one of these methods that the plugin has is marked by ``in_core``."""
    found = [getattr(plugin, method, None) for method in methods]
    return all(getattr(method, "in_core", False) for method in found if method is not None)


@dataclass(frozen=True, slots=True)
class Rejection:
    """Some nodes, and why they are rejected.

    Attributes:
        nodes: one bit for each node that the plugin was asked about.
        status: the status of each rejected node.
    """

    nodes: core.Mask
    status: Status


@dataclass(frozen=True, slots=True)
class PreFilterResult:
    """The nodes to which PreFilter narrows the attempt.

    Attributes:
        node_names: only these nodes are looked at; None for all.
    """

    node_names: frozenset[str] | None = None

    def merged(self, other: "PreFilterResult") -> "PreFilterResult":
        """Return the nodes that both results leave."""
        if self.node_names is None:
            return other
        if other.node_names is None:
            return self
        return PreFilterResult(self.node_names & other.node_names)


PreFilterAnswer: TypeAlias = Status | PreFilterResult | tuple[PreFilterResult, Status] | None


class Plugin(Protocol):
    """An object with a name."""

    name: str


@dataclass(frozen=True, slots=True)
class QueuedPodInfo:
    """A pod that waits in the queue.

    Attributes:
        pod: the pod as the API shows it now.
        timestamp: when the pod entered the queue, which is when it was created: whole seconds since
            the epoch, as in the API.
    """

    pod: core.Pod
    timestamp: float


class PreEnqueuePlugin(Plugin, Protocol):
    """Decides whether a pod may be released from the queue yet."""

    def pre_enqueue(self, pod: core.Pod) -> MaybeStatus:
        """Return success, or a rejection, which holds the pod back until the next question."""


class QueueSortPlugin(Plugin, Protocol):
    """Orders the queue."""

    def less(self, a: QueuedPodInfo, b: QueuedPodInfo) -> bool:
        """Return whether ``a`` goes before ``b``, a strict weak order: False both ways if equal."""


class PreFilterPlugin(Plugin, Protocol):
    """Judges the pod once, before its nodes."""

    def pre_filter(self, state: CycleState, pod: core.Pod, nodes: core.Nodes) -> PreFilterAnswer:
        """Return success, a narrower set of nodes, Skip for its own Filter, or a rejection."""


class FilterPlugin(Plugin, Protocol):
    """Rejects nodes for a pod, all nodes in one call."""

    def filter_nodes(
        self, state: CycleState, pod: core.Pod, nodes: core.Nodes
    ) -> Sequence[Rejection]:
        """Return the rejected nodes; the first entry that names a node gives its status."""


class PerNodeFilterPlugin(Plugin, Protocol):
    """Decides whether a pod may run on one node."""

    def filter(self, state: CycleState, pod: core.Pod, node: core.NodeInfo) -> MaybeStatus:
        """Return success, or a rejection."""


class PostFilterPlugin(Plugin, Protocol):
    """Learns that no node is left for a pod."""

    def post_filter(
        self, state: CycleState, pod: core.Pod, rejections: Sequence[Rejection]
    ) -> MaybeStatus:
        """Act through the Handle, if the plugin wants to; kubextend logs the returned status."""


class PreScorePlugin(Plugin, Protocol):
    """Sees the nodes that are left, before they are scored."""

    def pre_score(self, state: CycleState, pod: core.Pod, nodes: core.Nodes) -> MaybeStatus:
        """Return success, or Skip for the plugin's own Score."""


class ScorePlugin(Plugin, Protocol):
    """Scores all nodes in one call."""

    def score_nodes(self, state: CycleState, pod: core.Pod, nodes: core.Nodes) -> Scores:
        """Return one score a node: 0..100, or any number if ``normalize_score`` brings it there."""


class PerNodeScorePlugin(Plugin, Protocol):
    """Scores one node."""

    def score(self, state: CycleState, pod: core.Pod, node: core.NodeInfo) -> int:
        """Return a score: 0..100, or any number if ``normalize_score`` brings it there."""


class NormalizeScorePlugin(Plugin, Protocol):
    """A score plugin that brings its scores into 0..100 afterwards."""

    def normalize_score(self, state: CycleState, pod: core.Pod, scores: Scores) -> Scores:
        """Return the scores, brought into 0..100."""


class ReservePlugin(Plugin, Protocol):
    """Reserves something for a pod on the chosen node."""

    def reserve(
        self, state: CycleState, pod: core.Pod, node_name: str
    ) -> MaybeStatus | Awaitable[MaybeStatus]:
        """Reserve, and return success, or a rejection, which ends the attempt."""

    def unreserve(self, state: CycleState, pod: core.Pod, node_name: str) -> Awaitable[None] | None:
        """Give up the reservation; called also without an earlier ``reserve``, maybe twice."""


class PermitPlugin(Plugin, Protocol):
    """Lets a pod go on, rejects it, or holds it."""

    def permit(
        self, state: CycleState, pod: core.Pod, node_name: str
    ) -> MaybeStatus | tuple[Status, float] | Awaitable[MaybeStatus | tuple[Status, float]]:
        """Return success, a rejection, or ``(Status.wait(), seconds)``."""


class PreBindPlugin(Plugin, Protocol):
    """Does what must be done before the pod is bound."""

    def pre_bind(
        self, state: CycleState, pod: core.Pod, node_name: str
    ) -> MaybeStatus | Awaitable[MaybeStatus]:
        """Prepare the bind, and return success, or a rejection, which ends the attempt."""


class BindPlugin(Plugin, Protocol):
    """Binds the pod."""

    def bind(
        self, state: CycleState, pod: core.Pod, node_name: str
    ) -> MaybeStatus | Awaitable[MaybeStatus]:
        """Bind the pod and return success; Skip leaves the bind to the next plugin."""


class PostBindPlugin(Plugin, Protocol):
    """Learns that the pod is bound."""

    def post_bind(self, state: CycleState, pod: core.Pod, node_name: str) -> Awaitable[None] | None:
        """Note that the pod is bound; the attempt does not depend on this call."""
