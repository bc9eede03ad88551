"""The interfaces of plugins: the methods of kube-scheduler's framework in snake case.

A plugin is any object with a ``name``. A plugin extends the extension points whose methods it
defines. No plugin needs to inherit from the protocols here: they serve type checkers and readers.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeAlias, TypeVar

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
"""Extension point, as spelled in a configuration -> names of its methods.

A plugin that has one of the methods extends the point. ``normalize_score`` belongs to ``score``.
"""


class _Int64Array(Protocol):
    """A buffer of int64 that can be read as a sequence, such as an array of NumPy.

    NumPy's types have ``__buffer__`` only from Python 3.12 on.
    """

    def tolist(self) -> Any: ...

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> int: ...

    def __iter__(self) -> Iterator[int]: ...


Scores: TypeAlias = Sequence[int] | _Int64Array
"""Scores of nodes: one int, or int64 of a buffer such as a NumPy array, for each node in order."""

MaybeStatus: TypeAlias = Status | None
"""A Status; None means success."""


_Method = TypeVar("_Method", bound=Callable[..., object])


def in_core(method: _Method) -> _Method:
    """Mark a plugin's method as one that only calls the Rust core; return the method.

    A marked method runs no Python code that may hang, so a request that needs only marked methods
    may run without a thread and a time limit.
    """
    method.in_core = True  # type: ignore[attr-defined]
    return method


def runs_in_core(plugin: object, *methods: str) -> bool:
    """Return whether the decorator ``in_core`` marks every named method that the plugin has."""
    found = [getattr(plugin, method, None) for method in methods]
    return all(getattr(method, "in_core", False) for method in found if method is not None)


@dataclass(frozen=True, slots=True)
class Rejection:
    """A set of nodes that a Filter plugin rejects with one status.

    Attributes:
        nodes: one bit for each node of the call, in order; a set bit rejects the node.
        status: the status of every rejected node, with the reason.
        plugin: the name of the plugin that rejects; kubextend sets it, and plugins need not.
        details: index of a node -> the node's own detail; empty where all have that of ``status``.
    """

    nodes: core.Mask
    status: Status
    plugin: str = field(default="", compare=False)
    details: Mapping[int, str] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class PreFilterResult:
    """The nodes to which a PreFilter plugin limits the filtering of a pod.

    Attributes:
        node_names: the names of the nodes to filter; None for all nodes.
    """

    node_names: frozenset[str] | None = None

    def merged(self, other: "PreFilterResult") -> "PreFilterResult":
        """Return the nodes that both this result and another plugin's result let pass."""
        if self.node_names is None:
            return other
        if other.node_names is None:
            return self
        return PreFilterResult(self.node_names & other.node_names)


PreFilterAnswer: TypeAlias = Status | PreFilterResult | tuple[PreFilterResult, Status] | None


class Plugin(Protocol):
    """The base of every plugin interface: an object with a name.

    Attributes:
        name: the name of the plugin in a configuration.
    """

    name: str


@dataclass(frozen=True, slots=True)
class QueuedPodInfo:
    """A pod that waits in kubextend's scheduling queue, as QueueSort plugins see the pod.

    Attributes:
        pod: the pod as the API shows it now.
        timestamp: the time of the pod's creation, when the pod entered the queue, in whole
            seconds of Unix time.
    """

    pod: core.Pod
    timestamp: float


class PreEnqueuePlugin(Plugin, Protocol):
    """Decides whether kubextend's scheduling queue may release a pod to kube-scheduler yet."""

    def pre_enqueue(self, pod: core.Pod) -> MaybeStatus:
        """Return success to let the queue release the pod, or a rejection to hold the pod back.

        The queue calls this method again later for a pod that is held back.
        """


class QueueSortPlugin(Plugin, Protocol):
    """Orders the pods in kubextend's scheduling queue."""

    def less(self, a: QueuedPodInfo, b: QueuedPodInfo) -> bool:
        """Return whether pod ``a`` comes before pod ``b`` in the queue.

        The order must be a strict weak order: for equal pods, False for (a, b) and for (b, a).
        """


class PreFilterPlugin(Plugin, Protocol):
    """Checks a pod once, before its nodes are filtered."""

    def pre_filter(self, state: CycleState, pod: core.Pod, nodes: core.Nodes) -> PreFilterAnswer:
        """Return success, a limit on the nodes to filter, Skip, or a rejection on all nodes.

        Success is None or ``Status.success()``; a ``PreFilterResult`` limits the nodes to filter.
        After Skip, kubextend does not run this plugin's Filter.
        """


class FilterPlugin(Plugin, Protocol):
    """Rejects nodes for a pod, all nodes in one call."""

    def filter_nodes(
        self, state: CycleState, pod: core.Pod, nodes: core.Nodes
    ) -> Sequence[Rejection]:
        """Return the nodes that the plugin rejects, as sets of nodes with one status for each set.

        If several sets contain a node, the status of the first set counts.
        """


class PerNodeFilterPlugin(Plugin, Protocol):
    """Decides whether a pod may run on one node."""

    def filter(self, state: CycleState, pod: core.Pod, node: core.NodeInfo) -> MaybeStatus:
        """Return success, such as None, if the pod may run on the node, else a rejecting Status."""


class PostFilterPlugin(Plugin, Protocol):
    """Runs after the filters have rejected every node for a pod."""

    def post_filter(
        self, state: CycleState, pod: core.Pod, rejections: Sequence[Rejection]
    ) -> MaybeStatus:
        """React to a pod that fits on no node, for example by calling ``Handle.activate``.

        ``rejections`` says which nodes were rejected and why. kubextend logs the returned status,
        which changes nothing else.
        """


class PreScorePlugin(Plugin, Protocol):
    """Prepares the scoring of the nodes that passed the filters."""

    def pre_score(self, state: CycleState, pod: core.Pod, nodes: core.Nodes) -> MaybeStatus:
        """Return success, or Skip so that kubextend does not run this plugin's Score."""


class ScorePlugin(Plugin, Protocol):
    """Scores the nodes for a pod, all nodes in one call."""

    def score_nodes(self, state: CycleState, pod: core.Pod, nodes: core.Nodes) -> Scores:
        """Return one score for each node, in the order of ``nodes``.

        A score is 0 to 100, or any int64 if the plugin's ``normalize_score`` scales it to 0 to 100.
        """


class PerNodeScorePlugin(Plugin, Protocol):
    """Scores one node for a pod."""

    def score(self, state: CycleState, pod: core.Pod, node: core.NodeInfo) -> int:
        """Return the score of one node.

        A score is 0 to 100, or any int64 if the plugin's ``normalize_score`` scales it to 0 to 100.
        """


class NormalizeScorePlugin(Plugin, Protocol):
    """A Score plugin that scales its scores of all nodes to 0 to 100."""

    def normalize_score(self, state: CycleState, pod: core.Pod, scores: Scores) -> Scores:
        """Return the scores of all nodes scaled to 0 to 100, in the order of ``scores``."""


class ReservePlugin(Plugin, Protocol):
    """Reserves resources for a pod on the node that kube-scheduler chose."""

    def reserve(
        self, state: CycleState, pod: core.Pod, node_name: str
    ) -> MaybeStatus | Awaitable[MaybeStatus]:
        """Reserve resources for the pod and return success, or reject the pod on this node.

        A rejection ends the attempt to schedule the pod.
        """

    def unreserve(self, state: CycleState, pod: core.Pod, node_name: str) -> Awaitable[None] | None:
        """Give up what this plugin reserved for the pod, if anything.

        kubextend may call this method without an earlier ``reserve``, and more than once.
        """


class PermitPlugin(Plugin, Protocol):
    """Decides before a pod is bound whether to allow it, reject it, or hold it for some time."""

    def permit(
        self, state: CycleState, pod: core.Pod, node_name: str
    ) -> MaybeStatus | tuple[Status, float] | Awaitable[MaybeStatus | tuple[Status, float]]:
        """Return success, a rejection, or ``(Status.wait(), seconds)`` to hold the pod so long.

        A pod that is not allowed within the seconds is rejected.
        """


class PreBindPlugin(Plugin, Protocol):
    """Does work that must be done before a pod is bound, such as attaching a volume."""

    def pre_bind(
        self, state: CycleState, pod: core.Pod, node_name: str
    ) -> MaybeStatus | Awaitable[MaybeStatus]:
        """Prepare the pod's binding and return success, or reject the pod on this node.

        A rejection ends the attempt to schedule the pod.
        """


class BindPlugin(Plugin, Protocol):
    """Binds a pod to its node."""

    def bind(
        self, state: CycleState, pod: core.Pod, node_name: str
    ) -> MaybeStatus | Awaitable[MaybeStatus]:
        """Bind the pod to the node and return success; Skip leaves that to the next Bind plugin."""


class PostBindPlugin(Plugin, Protocol):
    """Runs after a pod was bound."""

    def post_bind(self, state: CycleState, pod: core.Pod, node_name: str) -> Awaitable[None] | None:
        """React to a pod that was bound; a failure of this method does not undo the binding."""
