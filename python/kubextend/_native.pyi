"""The Rust core as Python sees it.

The core releases the GIL while it reads, filters, scores or writes. A ``Mask`` and every buffer is
aligned with the ``Nodes`` it came from: position ``i`` is about ``nodes.names[i]``.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias, final, overload

from typing_extensions import Buffer

_Scores: TypeAlias = Sequence[int] | Buffer

__version__: str

class KubextendError(Exception):
    """The root of every error that kubextend raises on purpose."""

class WireError(KubextendError):
    """A body that cannot be read; the message names the byte, the field and what was expected."""

class TruncatedPodError(KubextendError):
    """A plugin asked for a part of a pod that was too large to keep."""

@final
class Selector:
    """A compiled label selector, in the grammar of Kubernetes' ``labels.Parse``.

    Raises: ValueError: the text is not a selector; the message is that of Kubernetes.
    Source: apimachinery v0.36 pkg/labels/selector.go
    """

    def __new__(cls, text: str) -> Selector: ...
    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether a set of labels satisfies every requirement."""
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

_Toleration: TypeAlias = tuple[str, str, str, str]
_Requirement: TypeAlias = tuple[str, str, list[str]]
_Term: TypeAlias = tuple[list[_Requirement], list[_Requirement]]

@final
class Container:
    """A container of a pod. Amounts of cpu are in milli, others in units, rounded up."""

    @property
    def name(self) -> str: ...
    @property
    def requests(self) -> dict[str, int]: ...
    @property
    def limits(self) -> dict[str, int]: ...
    @property
    def sidecar(self) -> bool:
        """Whether the container's restartPolicy is Always: an init container that keeps running."""

@final
class Pod:
    """A pod as the API showed it. Python objects are made only for what is asked for.

    Timestamps are the text of the API. Amounts of cpu are in milli, others in units, rounded up.

    A PodStore with a bound may keep a pod ``truncated``. The parts that are not kept raise
    TruncatedPodError: tolerations, node_selector, required_terms and annotations, and the methods
    of Nodes that read them; labels and ``matches``; containers and init_containers; requests and
    overhead, and ``request`` of any but the usual resources. Of too many scheduling_gates the first
    16 are kept.
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
        """The resources that the pod requests from its node.

        The sum of containers and sidecars, or the largest init container if that is more; the
        request of the pod as a whole in their place, if there is one; and overhead.

        Source: component-helpers v0.36 resource/helpers.go PodRequests
        """
    def request(self, resource: str) -> int:
        """Return ``requests`` of one resource; 0 where the pod does not name it."""
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
        """``status.qosClass``; where the API set none, the class that Kubernetes derives.

        Source: kubernetes v1.36 pkg/apis/core/v1/helper/qos/qos.go ComputePodQOS
        """
    @property
    def scheduled_reason(self) -> str:
        """The reason of the condition PodScheduled; empty without one, and after the binding."""
    @property
    def nominated_node_name(self) -> str: ...
    @property
    def generation(self) -> int:
        """``metadata.generation``: 1 and one more for each change of the spec; 0 if not counted."""
    @property
    def creation_timestamp(self) -> str: ...
    @property
    def deletion_timestamp(self) -> str | None: ...
    @property
    def start_time(self) -> str | None: ...
    @property
    def truncated(self) -> bool:
        """Whether some parts of the pod were too large to keep; reading those parts raises."""
    @property
    def held_bytes(self) -> int:
        """The approximate memory of the pod in bytes."""
    def matches(self, selector: str | Selector) -> bool:
        """Return whether the pod's labels satisfy a selector."""
    def pack(self) -> bytes:
        """Return the pod as bytes for another process of the same build."""
    @staticmethod
    def unpack(packed: bytes) -> Pod:
        """Read a pod from the bytes of ``pack``.

        Raises: ValueError: the bytes are something else.
        """

@final
class Mask:
    """One bit for each node of a ``Nodes``.

    ``&``, ``|`` and ``^`` take a Mask of equal length, and raise ValueError for any other.
    """

    def __new__(cls, bits: Iterable[bool]) -> Mask: ...
    def count(self) -> int:
        """Return how many bits are set."""
    def any(self) -> bool: ...
    def all(self) -> bool: ...
    def indices(self) -> list[int]:
        """Return the positions of the set bits, ascending."""
    def pack(self) -> bytes:
        """Return the bits packed into bytes; the first bit is the lowest of the first byte."""
    @staticmethod
    def unpack(packed: bytes, length: int) -> Mask:
        """Read a mask of this length from the bytes of ``pack``.

        Raises: ValueError: the bytes are something else.
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
    """One node of a ``Nodes``, as it was then, and the pods on it.

    A node that the store does not know has no label, no taint and nothing to allocate.
    """

    @property
    def name(self) -> str: ...
    @property
    def uid(self) -> str:
        """``metadata.uid``; a node that is deleted and created again has another one."""
    @property
    def known(self) -> bool: ...
    @property
    def labels(self) -> dict[str, str]: ...
    def label(self, key: str) -> str | None:
        """Return the value of one label, without making a dict of all."""
    @property
    def taints(self) -> list[tuple[str, str, str]]:
        """``(key, value, effect)`` of each taint."""
    @property
    def unschedulable(self) -> bool: ...
    def allocatable(self, resource: str) -> int:
        """Return ``status.allocatable``: cpu in milli, others in units; 0 if not named."""
    def requested(self, resource: str) -> int:
        """Return what the pods on the node request together: cpu in milli, others in units.

        ``pods`` is the number of pods. The result is 2**53 where a pod without its requests may
        request the resource.

        Raises: RuntimeError: the nodes were taken without pods.
        """
    @property
    def pods(self) -> list[Pod]:
        """The pods on the node, bound ones and assumed ones.

        Raises: RuntimeError: the nodes were taken without pods.
        """

@final
class Nodes:
    """The nodes of one request, in the request's order, as they were when it was read."""

    @property
    def names(self) -> list[str]: ...
    @property
    def known(self) -> Mask:
        """One bit a node: False where the store lacks the name; such a node has no label."""
    @property
    def unschedulable(self) -> Mask:
        """``spec.unschedulable`` of each node."""
    @property
    def taints(self) -> list[list[tuple[str, str, str]]]:
        """``(key, value, effect)`` of each taint of each node."""
    def everything(self) -> Mask: ...
    def nothing(self) -> Mask: ...
    def matches(self, selector: str | Selector) -> Mask:
        """Return the known nodes whose labels satisfy the selector.

        Raises: ValueError: the text is not a selector.
        """
    def tolerated_by(self, pod: Pod) -> Mask:
        """Return the nodes of which the pod tolerates every NoSchedule and NoExecute taint.

        Source: kubernetes v1.36 plugins/tainttoleration/taint_toleration.go
        """
    def affine_to(self, pod: Pod) -> Mask:
        """Return the nodes that satisfy the pod's nodeSelector and required node affinity.

        Source: component-helpers v0.36 scheduling/corev1/nodeaffinity/nodeaffinity.go
        """
    def preferred_by(self, pod: Pod) -> memoryview:
        """Return the summed weights of preferred node affinity terms that match: int64, (n,)."""
    def labels(self, key: str) -> list[str | None]:
        """Return the value of one label on every node; None where a node lacks the label."""
    def allocatable(self, resource: str) -> memoryview:
        """Return ``status.allocatable`` of every node: int64, (n,); cpu in milli, others in units.

        A resource that a node does not name is 0.
        """
    def latest(self) -> Nodes:
        """Look up these names again in the present state of the store.

        A full-mode request brings its own nodes, and they are returned unchanged.
        """
    def infos(self, pods: PodSnapshot | None = None) -> list[NodeInfo]:
        """Return a view of each node, with the pods on it if a snapshot is given."""
    def index_of(self, name: str) -> int | None:
        """Return the position of a name; None where it is not among the nodes."""
    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> NodeInfo: ...
    def __iter__(self) -> Iterator[NodeInfo]: ...

@final
class NodeSender:
    """Sends nodes to a ``NodeReceiver`` in another process of the same build.

    A node is sent once, and again when it changes. The bytes of every ``pack`` must arrive, in
    order.
    """

    def __new__(cls) -> NodeSender: ...
    def pack(self, nodes: Nodes) -> bytes:
        """Return these nodes as bytes, in their order, with what the receiver does not know yet."""

@final
class NodeReceiver:
    """Knows the nodes that one ``NodeSender`` sent."""

    def __new__(cls) -> NodeReceiver: ...
    def unpack(self, packed: bytes) -> Nodes:
        """Return the nodes that the sender packed, as they were then.

        Raises: ValueError: these bytes are not the sender's next ones.
        """

@final
class NodeStoreStats:
    """How much a NodeStore holds, and how often it recognised a node."""

    @property
    def nodes(self) -> int: ...
    @property
    def bytes(self) -> int:
        """Bytes of node objects that are kept for recognition and for echoing."""
    @property
    def hits(self) -> int:
        """Nodes recognised by their bytes (full mode) or known by name, since the start."""
    @property
    def misses(self) -> int: ...

@final
class ListPage:
    """The metadata of one page of a list."""

    @property
    def resource_version(self) -> str: ...
    @property
    def continue_token(self) -> str:
        """The token of the next page; empty on the last page."""
    @property
    def items(self) -> int: ...

@final
class WatchEvent:
    """A watch event, and whether it changed anything that plugins read."""

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
        """The code of an ERROR event's Status, else 0."""
    @property
    def message(self) -> str: ...

@final
class Relist:
    """A list in the making, invisible until it is committed."""

    def page(self, list_bytes: bytes) -> ListPage:
        """Take one page of a NodeList.

        Raises: WireError: the bytes are no NodeList; nothing of the page is kept.
        """
    def commit(self) -> bool:
        """Replace the whole content of the store at once; nodes that were not listed are gone.

        Returns: whether anything that plugins read changed.
        Raises: RuntimeError: the list is committed already.
        """

@final
class NodeStore:
    """Parsed nodes: one writer, any number of readers on immutable snapshots.

    Either a watch fills a store by ``replace``, ``relist`` and ``apply``, or full-mode requests do
    that are read against it. After a watch has filled a store, no request changes it.

    Args:
        max_bytes: bytes of node objects that full mode may keep; the least recently seen go first.
    """

    def __new__(cls, max_bytes: int = 536870912) -> NodeStore: ...
    def replace(self, list_bytes: bytes) -> str:
        """Replace the content of the store by this NodeList, and return its resourceVersion.

        Raises: WireError: not a whole NodeList, or a page of one; the store stays as it was.
        """
    def relist(self) -> Relist:
        """Begin a list that comes in pages."""
    def apply(self, event_bytes: bytes) -> WatchEvent:
        """Apply one watch event, which is one line of the API's stream.

        Raises: WireError: the bytes are no event; the store stays as it was.
        """
    def select(self, names: Sequence[str]) -> Nodes:
        """Return nodes by name, in this order; a node that is not stored is unknown."""
    def nodes(self) -> Nodes:
        """Return every node of the store."""
    def get(self, name: str, pods: PodSnapshot | None = None) -> NodeInfo | None:
        """Return one node, with the pods on it if a snapshot is given; None if not stored."""
    def stats(self) -> NodeStoreStats: ...
    def __len__(self) -> int: ...
    def __contains__(self, name: str, /) -> bool: ...

@final
class PodEvent:
    """A watch event, and whether it changed anything that plugins read."""

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
        """The code of an ERROR event's Status, else 0."""
    @property
    def message(self) -> str: ...
    @property
    def pod(self) -> Pod | None:
        """The pod as the event brought it; None for BOOKMARK and ERROR."""

@final
class PodRelist:
    """A list in the making, invisible until it is committed."""

    def page(self, list_bytes: bytes) -> ListPage:
        """Take one page of a PodList.

        Raises: WireError: the bytes are no PodList; nothing of the page is kept.
        """
    def commit(self) -> bool:
        """Replace the pods of the store at once; pods that were not listed are gone.

        The ledger keeps its pods, except those that are bound, have ended, or were known and are
        gone.

        Returns: whether anything that plugins read changed.
        Raises: RuntimeError: the list is committed already.
        """

@final
class PodStore:
    """The pods of a cluster that have not ended, and the ledger of assumed pods.

    A pod takes room on the node where the watch shows it bound, and before that on the node where
    it is assumed. One writer, any number of readers on immutable snapshots.

    Args:
        annotations: keys of the annotations that are kept; None keeps all.
        max_pod_bytes: bound on the memory of one pod's tolerations, node selector, node affinity
            and annotations together, and a second time on its requests, gates, labels and
            containers. A pod with more is kept ``truncated``. None is no limit.
    """

    def __new__(
        cls, *, annotations: Sequence[str] | None = None, max_pod_bytes: int | None = None
    ) -> PodStore: ...
    def replace(self, list_bytes: bytes) -> str:
        """Replace the pods of the store by this PodList, and return its resourceVersion.

        Raises: WireError: not a whole PodList, or a page of one; the store stays as it was.
        """
    def relist(self) -> PodRelist:
        """Begin a list that comes in pages."""
    def apply(self, event_bytes: bytes) -> PodEvent:
        """Apply one watch event, which is one line of the API's stream.

        A pod that Succeeded or Failed is dropped.

        Raises: WireError: the bytes are no event; the store stays as it was.
        """
    def get(self, uid: str) -> Pod | None:
        """Return the pod of this UID as the watch shows it."""
    def by_name(self, namespace: str, name: str) -> Pod | None:
        """Return the pod of this name as the watch shows it."""
    def pods(self) -> list[Pod]:
        """Return every pod that the watch shows, in no order."""
    def with_label(self, namespace: str, key: str, value: str) -> list[Pod]:
        """Return the pods of a namespace that have a label of this value, in no order.

        An assumed pod names its node, as a bound pod does. The first question about a label walks
        over every pod; from then on the store keeps an index of the label.

        Raises: TruncatedPodError: a pod of the namespace is kept without its labels.
        """
    def truncated(self) -> list[Pod]:
        """Return the pods that the watch shows and that are kept truncated, in no order."""
    def assume(self, pod: Pod, node: str) -> None:
        """Count a pod as on a node until the watch shows it bound to any node.

        The pod's end or deletion, and ``forget``, also end the assumption. A pod that is assumed on
        another node moves; a pod that the watch shows bound stays where it is.

        Raises: ValueError: the pod has no UID or the node no name.
        """
    def forget(self, uid: str) -> bool:
        """Stop counting an assumed pod; return False if it is not assumed, or bound by now."""
    def assumed(self) -> list[tuple[Pod, str]]:
        """Return the pods that are only assumed, each with its node, also its node_name."""
    def snapshot(self) -> PodSnapshot:
        """Return the pods on nodes as they are now, after every earlier write."""
    def __len__(self) -> int: ...

@final
class PodSnapshot:
    """The pods that take room on nodes, bound ones and assumed ones; a snapshot never changes."""

    def pods_on(self, node: str) -> list[Pod]:
        """Return the pods of a node, in the order in which they came there."""
    def started_after(self, nodes: Nodes, time: str) -> dict[int, list[Pod]]:
        """Return pods that started after a time or have not started, by position of their node.

        Args:
            nodes: the nodes to look at; nodes without such pods are left out.
            time: a time in the format of ``start_time``; the two are compared as text.
        """
    def nominated(self, pod: Pod, nodes: Nodes) -> Mask | None:
        """Return the nodes with nominated pods of at least the pod's priority; None: no node.

        Nominated pods are neither bound nor assumed; a preemption made room for them.

        Source: kubernetes v1.36 pkg/scheduler/framework/runtime/framework.go addGENominatedPods
        """
    def with_nominated(self, pod: Pod, nodes: Nodes, some: Mask) -> PodSnapshot:
        """Return a snapshot that also has, on some nodes, the pods that ``nominated`` counts.

        Each such pod names the node that it is nominated to as its own.

        Raises: ValueError: the mask is of other nodes.
        """
    def these(self, pods: Sequence[Pod]) -> list[Pod]:
        """Return pods of the same store as they are in this snapshot, in their order.

        A pod that names a node is left out where this snapshot does not have it on that node. A pod
        that names no node names its nominated node, where this snapshot counts it there.
        """
    def requested(self, nodes: Nodes, resource: str) -> memoryview:
        """Return what the pods of each node request together: int64, (len(nodes),).

        Units as in ``NodeInfo.requested``: cpu in milli, others in units; ``pods`` is the number of
        pods.
        """
    def __len__(self) -> int: ...

@final
class BodyPool:
    """Memory for large bodies that is kept and used again: new memory from the system is slow.

    A buffer returns to the pool when nothing refers to it any more: no name, no view, no request
    that was read from it, no store that kept its nodes. The pool frees memory that nobody took for
    a while.

    Args:
        max_idle_bytes: bytes of unused memory that the pool keeps.
    """

    def __new__(cls, max_idle_bytes: int = 536870912) -> BodyPool: ...
    def take(self, size: int) -> BodyBuffer:
        """Return a buffer of ``size`` bytes with undefined content.

        Raises: MemoryError: the system has no such memory.
        """
    @property
    def idle_bytes(self) -> int: ...
    def clear(self) -> None:
        """Free the memory that nobody uses."""

@final
class BodyBuffer(Buffer):
    """A body in memory of a BodyPool.

    A ``memoryview`` of the buffer is writable until a request is read from the buffer, and must be
    released before that. Answers are read-only.
    """

    def discard_behind(self, kept: int) -> None:
        """Give the memory behind the first ``kept`` bytes back to the system.

        The content there is lost, and memory comes again when somebody writes there.

        Raises: BufferError: a request was read from the buffer.
        """
    def __len__(self) -> int: ...

@final
class ExtenderArgs:
    """A filter or prioritize request, and the writer of its answer."""

    @property
    def pod(self) -> Pod | None: ...
    @property
    def nodes(self) -> Nodes | None:
        """The nodes of the request; None where both Nodes and NodeNames are null."""
    @property
    def names_mode(self) -> bool:
        """Whether the request brought NodeNames (nodeCacheCapable: true)."""
    def filter_result(self, kept: Mask, reason: str, unresolvable: bool = True) -> bytes:
        """Write an ExtenderFilterResult: kept nodes as they came in, others with the reason.

        Args:
            kept: one bit a node.
            reason: a short, stable text; kube-scheduler counts equal texts together.
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
        """Write an ExtenderFilterResult from ``(nodes, reason, unresolvable)`` entries.

        The first entry that names a node decides its reason; a node in no entry is kept.

        Args:
            rejections: the entries.
            pool: gives the memory of an answer of 1 MiB or more.
        """
    def prioritize_result(self, scores: _Scores) -> bytes:
        """Write a HostPriorityList: one integer a node, unchanged."""

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
        """Return the pods on nodes without the victims of each node's own candidate."""
    def result(self, kept: Mask) -> bytes:
        """Write an ExtenderPreemptionResult: kept candidates, their victims and PDB counts."""

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
        """Return a native plugin that takes no arguments.

        Raises: ValueError: there is no such plugin; the message lists the plugins.
        """
    @staticmethod
    def label_match(
        filters: Sequence[tuple[str, str, str]] = ...,
        scores: Sequence[tuple[str, str, int]] = ...,
    ) -> NativePlugin:
        """Make a plugin of ``(pod selector, node selector, reason)`` filters.

        ``scores`` are ``(pod selector, node selector, score)``.

        Raises: ValueError: a selector does not parse.
        """
    @property
    def name(self) -> str: ...
    @property
    def extension_points(self) -> tuple[str, ...]: ...
    def filter_nodes(self, pod: Pod, nodes: Nodes) -> list[tuple[Mask, str, bool]]:
        """Return ``(rejected nodes, reason, unresolvable)`` entries; empty if every node passes."""
    def score_nodes(self, pod: Pod, nodes: Nodes) -> memoryview:
        """Return scores: int64, ``(len(nodes),)``, 0..100."""

def read_args(
    body: bytes | BodyBuffer,
    store: NodeStore | None = None,
    *,
    watched: NodeStore | None = None,
) -> ExtenderArgs:
    """Read a filter or prioritize request.

    Args:
        body: the JSON as kube-scheduler sent it, keys in any case.
        store: full mode recognises unchanged nodes by this store, and adds new ones; names mode
            looks names up in it unless ``watched`` is given.
        watched: the store that names are looked up in.

    Raises:
        WireError: the body cannot be read, and nothing of it is kept.
        BufferError: a view of the buffer is still open for writing.
    """

def read_preemption_args(
    body: bytes | BodyBuffer,
    store: NodeStore | None = None,
    *,
    watched: NodeStore | None = None,
) -> PreemptionArgs:
    """Read a preempt request, and look up its candidates in ``watched``, else in ``store``.

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
    """Normalise scores as kube-scheduler's DefaultNormalizeScore; a list gives a list.

    A buffer of int64 gives int64.

    Source: kubernetes v1.36 plugins/helper/normalize_score.go
    """

def checked_scores(scores: _Scores, minimum: int = 0, maximum: int = 100) -> memoryview:
    """Return the scores as int64, after checking their range.

    Raises:
        ValueError: a score is outside the range; the message names it.
        TypeError: a score is not an integer, or the scores are bytes.
    """

def weigh(
    parts: Sequence[tuple[_Scores, int]], scale: Literal["additive", "strict10"] = "additive"
) -> memoryview:
    """Return the weighted sum of scores, scaled for kube-scheduler: int64, as long as each part.

    ``additive`` is round(sum(weight * score) / 10), halves away from zero: with extender weight 1
    kube-scheduler multiplies by 10 again, so a weight counts as much as in-tree. ``strict10``
    brings the sum into 0..10.

    Raises: ValueError: the parts have different lengths, or there is none.
    """
