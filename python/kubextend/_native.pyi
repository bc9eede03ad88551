"""The Rust core as Python sees it.

Everything here releases the GIL while it reads, filters, scores or writes. A ``Mask`` and every
buffer is aligned with the ``Nodes`` it came from: position ``i`` speaks of ``nodes.names[i]``.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias, final, overload

from typing_extensions import Buffer

_Scores: TypeAlias = Sequence[int] | Buffer

__version__: str

class KubextendError(Exception):
    """The root of every error that kubextend raises on purpose."""

class WireError(KubextendError):
    """A body that cannot be read: says at which byte, in which field, and what was expected."""

class TruncatedPodError(KubextendError):
    """A part of a pod was asked for that was too large to keep."""

@final
class Selector:
    """A compiled label selector, in the grammar of Kubernetes' ``labels.Parse``.

    Raises: ValueError: the text is not a selector; the sentence is that of Kubernetes.
    Source: apimachinery v0.36 pkg/labels/selector.go
    """

    def __new__(cls, text: str) -> Selector: ...
    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether a set of labels satisfies every requirement."""
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

_Toleration: TypeAlias = tuple[str, str, str, str]
_Requirement: TypeAlias = tuple[str, str, list[str]]
_Term: TypeAlias = tuple[list[_Requirement], list[_Requirement]]

@final
class Container:
    """A container of a pod. Amounts are of cpu in milli, of the rest in units, rounded up."""

    @property
    def name(self) -> str: ...
    @property
    def requests(self) -> dict[str, int]: ...
    @property
    def limits(self) -> dict[str, int]: ...
    @property
    def sidecar(self) -> bool:
        """Whether its restartPolicy is Always: an init container that keeps running."""

@final
class Pod:
    """A pod as the API showed it. Nothing is copied into Python until it is asked for.

    Timestamps are the text that came. Amounts are of cpu in milli, of the rest in units, rounded
    up.

    A pod of a PodStore with a bound may be ``truncated``. What is not kept of it raises
    TruncatedPodError: tolerations, node_selector, required_terms and annotations, and the methods
    of Nodes that read them; labels and ``matches``; containers and init_containers; requests and
    overhead, and ``request`` of any but the usual resources. Of too many scheduling_gates the first
    16 are there.
    """

    @property
    def name(self) -> str: ...
    @property
    def namespace(self) -> str: ...
    @property
    def uid(self) -> str: ...
    @property
    def scheduler_name(self) -> str:
        """``spec.schedulerName``; ``default-scheduler`` where it is absent or empty."""
    @property
    def node_name(self) -> str: ...
    @property
    def priority(self) -> int | None: ...
    @property
    def labels(self) -> dict[str, str]: ...
    @property
    def annotations(self) -> dict[str, str]: ...
    @property
    def node_selector(self) -> dict[str, str]: ...
    @property
    def tolerations(self) -> list[_Toleration]:
        """``(key, operator, value, effect)`` of each toleration, absent ones empty."""
    @property
    def required_terms(self) -> list[_Term] | None:
        """Required node affinity: ``(matchExpressions, matchFields)`` of each ORed term."""
    @property
    def requests(self) -> dict[str, int]:
        """What the pod asks of its node.

        Containers and sidecars together, or the init container that needs more, what the pod as a
        whole asks for in its place, and overhead.

        Source: component-helpers v0.36 resource/helpers.go PodRequests
        """
    def request(self, resource: str) -> int:
        """``requests`` of one resource; 0 where it is not named."""
    @property
    def overhead(self) -> dict[str, int]: ...
    @property
    def containers(self) -> list[Container]: ...
    @property
    def init_containers(self) -> list[Container]: ...
    @property
    def scheduling_gates(self) -> list[str]:
        """The names of ``spec.schedulingGates``."""
    @property
    def phase(self) -> str: ...
    @property
    def qos_class(self) -> str:
        """``status.qosClass``; where the API set none, what Kubernetes makes of the spec.

        Source: kubernetes v1.36 pkg/apis/core/v1/helper/qos/qos.go ComputePodQOS
        """
    @property
    def scheduled_reason(self) -> str:
        """The reason of the condition PodScheduled; empty without one, and once it is bound."""
    @property
    def nominated_node_name(self) -> str: ...
    @property
    def generation(self) -> int:
        """``metadata.generation``: 1, and the changes of its spec; 0 where they are not counted."""
    @property
    def creation_timestamp(self) -> str: ...
    @property
    def deletion_timestamp(self) -> str | None: ...
    @property
    def start_time(self) -> str | None: ...
    @property
    def truncated(self) -> bool:
        """Whether some of its parts were too large to keep; reading those raises."""
    @property
    def held_bytes(self) -> int:
        """How much memory the pod takes, about: bytes."""
    def matches(self, selector: str | Selector) -> bool:
        """Whether the pod's labels satisfy a selector."""
    def pack(self) -> bytes:
        """The pod for another process of the same build."""
    @staticmethod
    def unpack(packed: bytes) -> Pod:
        """The pod that ``pack`` made these bytes of.

        Raises: ValueError: they are something else.
        """

@final
class Mask:
    """One bit for each node of a ``Nodes``.

    Args of ``&``, ``|`` and ``^``: another Mask of the same length (else ValueError).
    """

    def __new__(cls, bits: Iterable[bool]) -> Mask: ...
    def count(self) -> int:
        """How many bits are set."""
    def any(self) -> bool: ...
    def all(self) -> bool: ...
    def indices(self) -> list[int]:
        """The positions of the set bits, ascending."""
    def pack(self) -> bytes:
        """The bits in as few bytes as hold them, the first in the lowest bit of the first byte."""
    @staticmethod
    def unpack(packed: bytes, length: int) -> Mask:
        """The mask of that length that ``pack`` made these bytes of.

        Raises: ValueError: they are something else.
        """
    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> bool: ...
    def __iter__(self) -> Iterator[bool]: ...
    def __and__(self, other: Mask, /) -> Mask: ...
    def __or__(self, other: Mask, /) -> Mask: ...
    def __xor__(self, other: Mask, /) -> Mask: ...
    def __invert__(self) -> Mask: ...
    def __eq__(self, other: object, /) -> bool: ...
    __hash__ = None  # type: ignore[assignment]

@final
class NodeInfo:
    """One node of a ``Nodes``, as it stood then, and the pods on it.

    A name that the store does not know has no label, no taint and nothing to allocate.
    """

    @property
    def name(self) -> str: ...
    @property
    def uid(self) -> str:
        """``metadata.uid``: another one once the node was deleted and came again."""
    @property
    def known(self) -> bool: ...
    @property
    def labels(self) -> dict[str, str]: ...
    def label(self, key: str) -> str | None:
        """The value of one label, without making a dict of all."""
    @property
    def taints(self) -> list[tuple[str, str, str]]:
        """``(key, value, effect)`` of each taint."""
    @property
    def unschedulable(self) -> bool: ...
    def allocatable(self, resource: str) -> int:
        """``status.allocatable``: cpu in milli, the rest in units; 0 where it is not named."""
    def requested(self, resource: str) -> int:
        """What the pods on the node request together: cpu in milli, the rest in units.

        ``pods`` is their number. Where a pod on the node may request the resource and is kept
        without its requests, 2**53.

        Raises: RuntimeError: the nodes were taken without pods.
        """
    @property
    def pods(self) -> list[Pod]:
        """The pods on the node, assigned ones and assumed ones.

        Raises: RuntimeError: the nodes were taken without pods.
        """

@final
class Nodes:
    """The nodes of one request, in its order, as they stood when it was read."""

    @property
    def names(self) -> list[str]: ...
    @property
    def known(self) -> Mask:
        """False where a name is not in the store; such a node has no label and matches nothing."""
    @property
    def unschedulable(self) -> Mask:
        """``spec.unschedulable``."""
    @property
    def taints(self) -> list[list[tuple[str, str, str]]]:
        """``(key, value, effect)`` of each taint of each node."""
    def everything(self) -> Mask: ...
    def nothing(self) -> Mask: ...
    def matches(self, selector: str | Selector) -> Mask:
        """Known nodes whose labels satisfy the selector.

        Raises: ValueError: the text is not a selector.
        """
    def tolerated_by(self, pod: Pod) -> Mask:
        """Nodes of which the pod tolerates every NoSchedule and NoExecute taint.

        Source: kubernetes v1.36 plugins/tainttoleration/taint_toleration.go
        """
    def affine_to(self, pod: Pod) -> Mask:
        """Nodes that satisfy the pod's nodeSelector and required node affinity.

        Source: component-helpers v0.36 scheduling/corev1/nodeaffinity/nodeaffinity.go
        """
    def preferred_by(self, pod: Pod) -> memoryview:
        """Sum of the weights of the preferred node affinity terms that match: int64, (len,)."""
    def labels(self, key: str) -> list[str | None]:
        """The value of one label on every node, None where it is absent."""
    def allocatable(self, resource: str) -> memoryview:
        """``status.allocatable`` of every node: int64, (len,); cpu in milli, the rest in units.

        A resource that a node does not name is 0.
        """
    def latest(self) -> Nodes:
        """The same names looked up again in the store's present state.

        The nodes of a full-mode request are its own and come back as they are.
        """
    def infos(self, pods: PodSnapshot | None = None) -> list[NodeInfo]:
        """Every node by itself, with the pods on it if they are given."""
    def index_of(self, name: str) -> int | None:
        """The position of a name."""
    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> NodeInfo: ...
    def __iter__(self) -> Iterator[NodeInfo]: ...

@final
class NodeSender:
    """Tells a ``NodeReceiver`` in another process of the same build of nodes.

    Each node is told once, until it changes. What ``pack`` returns must all arrive, in order.
    """

    def __new__(cls) -> NodeSender: ...
    def pack(self, nodes: Nodes) -> bytes:
        """These nodes, in their order, and what the receiver lacks of them."""

@final
class NodeReceiver:
    """Knows what one ``NodeSender`` told it."""

    def __new__(cls) -> NodeReceiver: ...
    def unpack(self, packed: bytes) -> Nodes:
        """The nodes that the sender was given, as they were there.

        Raises: ValueError: these bytes are not the sender's next ones.
        """

@final
class NodeStoreStats:
    """What a NodeStore holds and how often it knew what it was shown."""

    @property
    def nodes(self) -> int: ...
    @property
    def bytes(self) -> int:
        """Bytes of node objects that are kept to be recognised and echoed."""
    @property
    def hits(self) -> int:
        """Nodes recognised by their bytes (full mode) or known by name, since the start."""
    @property
    def misses(self) -> int: ...

@final
class ListPage:
    """What one page of a list said of itself."""

    @property
    def resource_version(self) -> str: ...
    @property
    def continue_token(self) -> str:
        """Empty on the last page."""
    @property
    def items(self) -> int: ...

@final
class WatchEvent:
    """What one watch event was, and whether it changed anything that plugins read."""

    @property
    def type(self) -> str:
        """ADDED, MODIFIED, DELETED, BOOKMARK or ERROR."""
    @property
    def name(self) -> str: ...
    @property
    def resource_version(self) -> str: ...
    @property
    def changed(self) -> bool: ...
    @property
    def code(self) -> int:
        """The Status code of an ERROR event, else 0."""
    @property
    def message(self) -> str: ...

@final
class Relist:
    """A list in the making: invisible until it is committed."""

    def page(self, list_bytes: bytes) -> ListPage:
        """Take one page of a NodeList.

        Raises: WireError: not a NodeList; nothing of the page is kept.
        """
    def commit(self) -> bool:
        """Replace the whole content of the store at once: what was not listed is gone.

        Returns: whether anything that plugins read changed.
        Raises: RuntimeError: it was committed before.
        """

@final
class NodeStore:
    """Parsed nodes, kept: one writer, any number of readers on immutable snapshots.

    A store is either filled by ``replace``, ``relist`` and ``apply`` (a watch), or by the
    full-mode requests read against it; once it was filled by a watch no request changes it.

    Args:
        max_bytes: how many bytes of node objects full mode may keep; the least recently seen go
            first.
    """

    def __new__(cls, max_bytes: int = 536870912) -> NodeStore: ...
    def replace(self, list_bytes: bytes) -> str:
        """Hold exactly the nodes of this NodeList. Returns its resourceVersion.

        Raises: WireError: not a whole NodeList, or a page of one; the store keeps what it had.
        """
    def relist(self) -> Relist:
        """Begin a list that comes in pages."""
    def apply(self, event_bytes: bytes) -> WatchEvent:
        """Take one watch event, as a line of the API's stream.

        Raises: WireError: not an event; the store keeps what it had.
        """
    def select(self, names: Sequence[str]) -> Nodes:
        """Nodes by their names, in this order; one that is not stored is there as unknown."""
    def nodes(self) -> Nodes:
        """Every node of the store."""
    def get(self, name: str, pods: PodSnapshot | None = None) -> NodeInfo | None:
        """One node, with the pods on it if they are given."""
    def stats(self) -> NodeStoreStats: ...
    def __len__(self) -> int: ...
    def __contains__(self, name: str, /) -> bool: ...

@final
class PodEvent:
    """What one watch event was, and whether it changed anything that plugins read."""

    @property
    def type(self) -> str:
        """ADDED, MODIFIED, DELETED, BOOKMARK or ERROR."""
    @property
    def name(self) -> str: ...
    @property
    def namespace(self) -> str: ...
    @property
    def uid(self) -> str: ...
    @property
    def resource_version(self) -> str: ...
    @property
    def changed(self) -> bool: ...
    @property
    def code(self) -> int:
        """The Status code of an ERROR event, else 0."""
    @property
    def message(self) -> str: ...
    @property
    def pod(self) -> Pod | None:
        """The pod as the event brought it; None for BOOKMARK and ERROR."""

@final
class PodRelist:
    """A list in the making: invisible until it is committed."""

    def page(self, list_bytes: bytes) -> ListPage:
        """Take one page of a PodList.

        Raises: WireError: not a PodList; nothing of the page is kept.
        """
    def commit(self) -> bool:
        """Replace the pods of the store at once: what was not listed is gone.

        The ledger stays, but for pods that are bound, have ended, or were known and are gone.

        Returns: whether anything that plugins read changed.
        Raises: RuntimeError: it was committed before.
        """

@final
class PodStore:
    """The pods of a cluster that have not ended, and the ledger of assumed ones.

    A pod takes room on a node where the watch shows it bound; until then where it is assumed to
    be. One writer, any number of readers on immutable snapshots.

    Args:
        annotations: the keys of the annotations that are kept; None keeps all.
        max_pod_bytes: the most memory that tolerations, node selector, node affinity and
            annotations of one pod may take together, and once more requests, gates, labels and
            containers. A pod with more is kept ``truncated``. None is no limit.
    """

    def __new__(
        cls, *, annotations: Sequence[str] | None = None, max_pod_bytes: int | None = None
    ) -> PodStore: ...
    def replace(self, list_bytes: bytes) -> str:
        """Hold exactly the pods of this PodList. Returns its resourceVersion.

        Raises: WireError: not a whole PodList, or a page of one; the store keeps what it had.
        """
    def relist(self) -> PodRelist:
        """Begin a list that comes in pages."""
    def apply(self, event_bytes: bytes) -> PodEvent:
        """Take one watch event, as a line of the API's stream.

        A pod that Succeeded or Failed is dropped.

        Raises: WireError: not an event; the store keeps what it had.
        """
    def get(self, uid: str) -> Pod | None:
        """The pod of this UID as the watch shows it."""
    def by_name(self, namespace: str, name: str) -> Pod | None:
        """The pod of this name as the watch shows it."""
    def pods(self) -> list[Pod]:
        """Every pod that the watch shows, in no order."""
    def with_label(self, namespace: str, key: str, value: str) -> list[Pod]:
        """The pods of a namespace that have a label of this value, in no order.

        One that is assumed on a node names that node, like one that is bound. The first question
        about a label walks over every pod; the store follows the label from then on.

        Raises: TruncatedPodError: a pod of the namespace is kept without its labels.
        """
    def truncated(self) -> list[Pod]:
        """The pods that the watch shows and that are kept truncated, in no order."""
    def assume(self, pod: Pod, node: str) -> None:
        """Count a pod as on a node until the watch shows it bound, wherever that is.

        It also ends with the pod's end or deletion and with ``forget``. A pod assumed elsewhere
        moves; one that the watch shows bound already stays where it is.

        Raises: ValueError: the pod has no UID or the node no name.
        """
    def forget(self, uid: str) -> bool:
        """Count an assumed pod no longer. False if it was not assumed, or is bound by now."""
    def assumed(self) -> list[tuple[Pod, str]]:
        """The pods that are only assumed, each with its node, which is also its node_name."""
    def snapshot(self) -> PodSnapshot:
        """The pods on nodes as they are now: what was written before is in it."""
    def __len__(self) -> int: ...

@final
class PodSnapshot:
    """The pods that take room on nodes, assigned ones and assumed ones; it never changes."""

    def pods_on(self, node: str) -> list[Pod]:
        """The pods of a node, in the order in which they came there."""
    def started_after(self, nodes: Nodes, time: str) -> dict[int, list[Pod]]:
        """The pods that started after a time or have not started, by the position of their node.

        Args:
            nodes: those to look at; nodes without such pods are left out.
            time: written as ``start_time`` is; the two are compared as text.
        """
    def nominated(self, pod: Pod, nodes: Nodes) -> Mask | None:
        """Nodes to which other pods of at least the pod's priority are nominated; None: to none.

        They are pods on no node, assumed or bound. Their room was made for them by a preemption.

        Source: kubernetes v1.36 pkg/scheduler/framework/runtime/framework.go addGENominatedPods
        """
    def with_nominated(self, pod: Pod, nodes: Nodes, some: Mask) -> PodSnapshot:
        """The same pods, and on some of the nodes those that ``nominated`` tells of.

        Each of them names the node that it is nominated to as its own.

        Raises: ValueError: the mask is of other nodes.
        """
    def these(self, pods: Sequence[Pod]) -> list[Pod]:
        """Pods of the same store as they are in this snapshot, in their order.

        A pod that names a node is left out where it is not on that node here. One that names none
        names here the node that it is nominated to, where it is counted there.
        """
    def requested(self, nodes: Nodes, resource: str) -> memoryview:
        """What the pods of each node request together: int64, (len(nodes),).

        As ``NodeInfo.requested`` has it: cpu in milli, the rest in units; ``pods`` is their number.
        """
    def __len__(self) -> int: ...

@final
class BodyPool:
    """Memory for large bodies, kept and used again: the system is slow to hand out fresh memory.

    A buffer goes back when nothing refers to it any more: no name, no view, no request that was
    read from it, no store that kept its nodes. What nobody took for a while is freed.

    Args:
        max_idle_bytes: how much memory that nobody uses is kept.
    """

    def __new__(cls, max_idle_bytes: int = 536870912) -> BodyPool: ...
    def take(self, size: int) -> BodyBuffer:
        """A buffer of ``size`` bytes; what they are is undefined.

        Raises: MemoryError: there is no such memory.
        """
    @property
    def idle_bytes(self) -> int: ...
    def clear(self) -> None:
        """Free the memory that nobody uses."""

@final
class BodyBuffer(Buffer):
    """A body in memory of a BodyPool.

    A view of it (``memoryview(buffer)``) is writable until a request is read from it, and must be
    released before that. Answers cannot be written to.
    """

    def __len__(self) -> int: ...

@final
class ExtenderArgs:
    """A filter or prioritize request, and the writer of its answer."""

    @property
    def pod(self) -> Pod | None: ...
    @property
    def nodes(self) -> Nodes | None:
        """None where both Nodes and NodeNames are null."""
    @property
    def names_mode(self) -> bool:
        """True where the request brought NodeNames (nodeCacheCapable: true)."""
    def filter_result(self, kept: Mask, reason: str, unresolvable: bool = True) -> bytes:
        """ExtenderFilterResult: kept nodes as they came in, every other one with the reason.

        Args:
            kept: one bit a node.
            reason: short and stable; kube-scheduler counts equal ones together.
            unresolvable: FailedAndUnresolvableNodes, else FailedNodes (preemption may help).
        """
    @overload
    def filter_answer(
        self, rejections: Sequence[tuple[Mask, str, bool]], pool: None = None
    ) -> bytes: ...
    @overload
    def filter_answer(
        self, rejections: Sequence[tuple[Mask, str, bool]], pool: BodyPool | None
    ) -> bytes | BodyBuffer:
        """ExtenderFilterResult from ``(nodes, reason, unresolvable)`` entries.

        The first entry that names a node decides its reason; a node in no entry is kept.

        Args:
            rejections: the entries.
            pool: gives the memory of an answer of 1 MiB or more.
        """
    def prioritize_result(self, scores: _Scores) -> bytes:
        """HostPriorityList: one integer a node, written as it is."""

@final
class PreemptionArgs:
    """A preempt request, and the writer of its answer."""

    @property
    def pod(self) -> Pod | None: ...
    @property
    def nodes(self) -> Nodes:
        """The candidate nodes, in the request's order."""
    @property
    def victims(self) -> list[tuple[list[str], int]]:
        """``(UIDs, NumPDBViolations)`` of each candidate."""
    def pods_left(self, pods: PodSnapshot) -> PodSnapshot:
        """The pods on nodes once the victims are gone, each from its own candidate."""
    def result(self, kept: Mask) -> bytes:
        """ExtenderPreemptionResult with the kept candidates, their victims and PDB counts."""

@final
class BindingArgs:
    """A bind request."""

    @property
    def pod_name(self) -> str: ...
    @property
    def pod_namespace(self) -> str: ...
    @property
    def pod_uid(self) -> str: ...
    @property
    def node(self) -> str: ...

@final
class NativePlugin:
    """A plugin that runs in the core, without the interpreter."""

    @staticmethod
    def named(name: str) -> NativePlugin:
        """A native plugin that takes no arguments.

        Raises: ValueError: no such plugin; the message lists those there are.
        """
    @staticmethod
    def label_match(
        filters: Sequence[tuple[str, str, str]] = ...,
        scores: Sequence[tuple[str, str, int]] = ...,
    ) -> NativePlugin:
        """``(pod selector, node selector, reason)`` filters, ``(…, …, score)`` scores.

        Raises: ValueError: a selector does not parse.
        """
    @property
    def name(self) -> str: ...
    @property
    def extension_points(self) -> tuple[str, ...]: ...
    def filter_nodes(self, pod: Pod, nodes: Nodes) -> list[tuple[Mask, str, bool]]:
        """``(rejected nodes, reason, unresolvable)`` entries; empty when every node passes."""
    def score_nodes(self, pod: Pod, nodes: Nodes) -> memoryview:
        """int64, ``(len(nodes),)``, 0..100."""

def read_args(
    body: bytes | BodyBuffer,
    store: NodeStore | None = None,
    *,
    watched: NodeStore | None = None,
) -> ExtenderArgs:
    """Read a filter or prioritize request.

    Args:
        body: the JSON as kube-scheduler sent it, keys in any case.
        store: full mode recognises unchanged nodes in it and keeps what is new; names mode looks
            names up in it unless ``watched`` is given.
        watched: the store that names are looked up in.

    Raises:
        WireError: nothing of the body is kept.
        BufferError: a view of the buffer is still open for writing.
    """

def read_preemption_args(
    body: bytes | BodyBuffer,
    store: NodeStore | None = None,
    *,
    watched: NodeStore | None = None,
) -> PreemptionArgs:
    """Read a preempt request; candidates are looked up in ``watched``, else in ``store``.

    Raises:
        WireError: the body cannot be read.
        BufferError: a view of the buffer is still open for writing.
    """

def read_binding_args(body: bytes | BodyBuffer) -> BindingArgs:
    """Read a bind request.

    Raises:
        WireError: the body cannot be read, or has more than 64 KiB.
        BufferError: a view of the buffer is still open for writing.
    """

@overload
def normalize(scores: list[int], maximum: int = 100, reverse: bool = False) -> list[int]: ...
@overload
def normalize(scores: Buffer, maximum: int = 100, reverse: bool = False) -> memoryview:
    """kube-scheduler's DefaultNormalizeScore: a list in gives a list, int64 in gives int64 out.

    Source: kubernetes v1.36 plugins/helper/normalize_score.go
    """

def checked_scores(scores: _Scores, minimum: int = 0, maximum: int = 100) -> memoryview:
    """The same scores as int64.

    Raises:
        ValueError: one is outside the range; it is named.
        TypeError: one is not an integer, or they are bytes.
    """

def weigh(
    parts: Sequence[tuple[_Scores, int]], scale: Literal["additive", "strict10"] = "additive"
) -> memoryview:
    """Weighted sum of scores, scaled for the wire: int64, as long as each part.

    ``additive`` is round(sum(weight * score) / 10), halves away from zero: with extender weight 1
    kube-scheduler multiplies by 10 again, so a weight counts as much as in-tree. ``strict10``
    brings the sum into 0..10.

    Raises: ValueError: parts of unequal length, or none.
    """
