"""What a plugin looks like to the profile that runs it: the framework's methods in snake case.

A plugin is any object with a ``name``; it extends the points whose methods it defines. Nothing has
to be inherited. The protocols below are for type checkers and for reading.
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
"""Extension points as a configuration spells them; a plugin that has any of the methods extends it.

``normalize_score`` belongs to ``score``.
"""

Scores: TypeAlias = memoryview | Sequence[int]
"""int64, shape ``(len(nodes),)``, in the nodes' order."""

MaybeStatus: TypeAlias = Status | None
"""None is success."""


_Method = TypeVar("_Method", bound=Callable[..., object])


def in_core(method: _Method) -> _Method:
    """The method, marked as one that calls the core and no code of its own that could hang."""
    method.in_core = True  # type: ignore[attr-defined]
    return method


def runs_in_core(plugin: object, *methods: str) -> bool:
    """Whether those of the methods that the plugin has are all marked so."""
    found = [getattr(plugin, method, None) for method in methods]
    return all(getattr(method, "in_core", False) for method in found if method is not None)


@dataclass(frozen=True, slots=True)
class Rejection:
    """Some nodes, and why they are rejected.

    Attributes:
        nodes: aligned with the nodes that the plugin was asked about.
        status: the same for each of them.
    """

    nodes: core.Mask
    status: Status


@dataclass(frozen=True, slots=True)
class PreFilterResult:
    """What PreFilter narrows the attempt to.

    Attributes:
        node_names: only these nodes are looked at; None for all.
    """

    node_names: frozenset[str] | None = None

    def merged(self, other: "PreFilterResult") -> "PreFilterResult":
        """Only the nodes that both leave."""
        if self.node_names is None:
            return other
        if other.node_names is None:
            return self
        return PreFilterResult(self.node_names & other.node_names)


PreFilterAnswer: TypeAlias = Status | PreFilterResult | tuple[PreFilterResult, Status] | None


class Plugin(Protocol):
    """Anything with a name."""

    name: str


@dataclass(frozen=True, slots=True)
class QueuedPodInfo:
    """A pod that waits in the queue.

    Attributes:
        pod: as the API shows it now.
        timestamp: when it entered the queue, which is when it was created: seconds since the epoch,
            whole ones, as the API has it.
    """

    pod: core.Pod
    timestamp: float


class PreEnqueuePlugin(Plugin, Protocol):
    """Says whether a pod may be released from the queue yet."""

    def pre_enqueue(self, pod: core.Pod) -> MaybeStatus:
        """Success, or a rejection, which holds the pod back until it is asked about again."""


class QueueSortPlugin(Plugin, Protocol):
    """Orders the queue."""

    def less(self, a: QueuedPodInfo, b: QueuedPodInfo) -> bool:
        """Whether ``a`` goes before ``b``: a strict weak order, so False both ways for equals."""


class PreFilterPlugin(Plugin, Protocol):
    """Looks at the pod once, before its nodes."""

    def pre_filter(self, state: CycleState, pod: core.Pod, nodes: core.Nodes) -> PreFilterAnswer:
        """Success, a narrower set of nodes, Skip for its own Filter, or a rejection."""


class FilterPlugin(Plugin, Protocol):
    """Says of all nodes at once where a pod may not run."""

    def filter_nodes(
        self, state: CycleState, pod: core.Pod, nodes: core.Nodes
    ) -> Sequence[Rejection]:
        """The rejected nodes; the first entry that names a node gives its status."""


class PerNodeFilterPlugin(Plugin, Protocol):
    """Says of one node whether a pod may run there."""

    def filter(self, state: CycleState, pod: core.Pod, node: core.NodeInfo) -> MaybeStatus:
        """Success, or a rejection."""


class PostFilterPlugin(Plugin, Protocol):
    """Is told that no node is left."""

    def post_filter(
        self, state: CycleState, pod: core.Pod, rejections: Sequence[Rejection]
    ) -> MaybeStatus:
        """May act through the Handle; what it says is logged."""


class PreScorePlugin(Plugin, Protocol):
    """Looks at the nodes that are left, before they are scored."""

    def pre_score(self, state: CycleState, pod: core.Pod, nodes: core.Nodes) -> MaybeStatus:
        """Success, or Skip for its own Score."""


class ScorePlugin(Plugin, Protocol):
    """Says of all nodes at once how good they are."""

    def score_nodes(self, state: CycleState, pod: core.Pod, nodes: core.Nodes) -> Scores:
        """One number a node; 0..100 unless ``normalize_score`` brings it there."""


class PerNodeScorePlugin(Plugin, Protocol):
    """Says of one node how good it is."""

    def score(self, state: CycleState, pod: core.Pod, node: core.NodeInfo) -> int:
        """0..100 unless ``normalize_score`` brings it there."""


class NormalizeScorePlugin(Plugin, Protocol):
    """A score plugin whose numbers are brought into 0..100 afterwards."""

    def normalize_score(self, state: CycleState, pod: core.Pod, scores: Scores) -> Scores:
        """The same numbers within 0..100."""


class ReservePlugin(Plugin, Protocol):
    """Keeps something for a pod on the node that was chosen."""

    def reserve(
        self, state: CycleState, pod: core.Pod, node_name: str
    ) -> MaybeStatus | Awaitable[MaybeStatus]:
        """Success, or a rejection, which ends the attempt."""

    def unreserve(self, state: CycleState, pod: core.Pod, node_name: str) -> Awaitable[None] | None:
        """Gives it up; called also where reserve was not, and possibly twice."""


class PermitPlugin(Plugin, Protocol):
    """Lets a pod go on, stops it, or holds it."""

    def permit(
        self, state: CycleState, pod: core.Pod, node_name: str
    ) -> MaybeStatus | tuple[Status, float] | Awaitable[MaybeStatus | tuple[Status, float]]:
        """Success, a rejection, or ``(Status.wait(), seconds)``."""


class PreBindPlugin(Plugin, Protocol):
    """Does what must be done before the pod is bound."""

    def pre_bind(
        self, state: CycleState, pod: core.Pod, node_name: str
    ) -> MaybeStatus | Awaitable[MaybeStatus]:
        """Success, or a rejection, which ends the attempt."""


class BindPlugin(Plugin, Protocol):
    """Binds the pod."""

    def bind(
        self, state: CycleState, pod: core.Pod, node_name: str
    ) -> MaybeStatus | Awaitable[MaybeStatus]:
        """Success: it is bound; Skip: the next plugin may."""


class PostBindPlugin(Plugin, Protocol):
    """Is told that the pod is bound."""

    def post_bind(self, state: CycleState, pod: core.Pod, node_name: str) -> Awaitable[None] | None:
        """For information."""
