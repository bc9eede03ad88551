"""Types of the compiled Rust core: requests, responses, stores of nodes and pods, native plugins.

The core releases the GIL while it parses, filters, scores or writes. Position ``i`` of a ``Mask``
or of a buffer of scores belongs to the node ``nodes.names[i]`` of the ``Nodes`` that the call was
about.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Literal, Protocol, TypeAlias, final, overload

from typing_extensions import Buffer

class _Int64Array(Protocol):
    """An array of NumPy, whose types have ``__buffer__`` only from Python 3.12 on."""

    def tolist(self) -> Any: ...
    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> int: ...
    def __iter__(self) -> Iterator[int]: ...

_Scores: TypeAlias = Sequence[int] | Buffer | _Int64Array

__version__: str

class KubextendError(Exception):
    """The base class of all exceptions that kubextend raises on purpose."""

class WireError(KubextendError):
    """A JSON body cannot be parsed; the message names the byte, the field and what was expected."""

class TruncatedPodError(KubextendError):
    """A plugin read a part of a pod that was too large for the PodStore to keep."""

@final
class Selector:
    """A parsed label selector, in the grammar of Kubernetes' ``labels.Parse``.

    Args:
        text: the selector, such as ``app=web,tier in (a, b)``.

    Raises: ValueError: the text is not a selector; the message is that of Kubernetes.
    Source: apimachinery v0.36 pkg/labels/selector.go
    """

    def __new__(cls, text: str) -> Selector: ...
    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether a set of labels satisfies every requirement of the selector."""
    @property
    def requirements(self) -> list[_Requirement]:
        """The requirements in the order of their keys: key, operator, sorted values.

        The operators are those of node affinity: ``In``, ``NotIn``, ``Exists``, ``DoesNotExist``,
        ``Gt``, ``Lt``. The requirement ``a=b`` is ``In`` with one value, ``a!=b`` is ``NotIn``.
        """
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

_Toleration: TypeAlias = tuple[str, str, str, str]
_Requirement: TypeAlias = tuple[str, str, list[str]]
_Term: TypeAlias = tuple[list[_Requirement], list[_Requirement]]

@final
class Container:
    """A container of a pod, with its resources: cpu in milli-CPUs, others in units, rounded up."""

    @property
    def name(self) -> str: ...
    @property
    def requests(self) -> dict[str, int]: ...
    @property
    def limits(self) -> dict[str, int]: ...
    @property
    def sidecar(self) -> bool:
        """Whether the container is a sidecar: an init container whose restartPolicy is Always."""

@final
class Condition:
    """A condition in the status of a node or a pod; its message and heartbeat are only in raw."""

    @property
    def type(self) -> str: ...
    @property
    def status(self) -> str:
        """``True``, ``False`` or ``Unknown``."""
    @property
    def reason(self) -> str: ...
    @property
    def last_transition_time(self) -> str: ...

@final
class PodAffinityTerm:
    """A term of a pod's affinity or anti-affinity to other pods."""

    @property
    def topology_key(self) -> str: ...
    @property
    def selector(self) -> Selector | None:
        """The selector of the other pods; None: the term matches no pod.

        kube-apiserver has put ``matchLabelKeys`` and ``mismatchLabelKeys`` into the selector.
        """
    @property
    def namespaces(self) -> list[str]:
        """The names of the namespaces; the pod's own if the term says nothing about namespaces.

        Source: kube-scheduler v0.37 framework/types.go getNamespacesFromPodAffinityTerm
        """
    @property
    def namespace_selector(self) -> Selector | None:
        """The selector of further namespaces by their labels; None selects no namespace."""
    @property
    def match_label_keys(self) -> list[str]: ...
    @property
    def mismatch_label_keys(self) -> list[str]: ...

@final
class PodAffinity:
    """The affinity or the anti-affinity of a pod to other pods.

    To read the terms raises ValueError if Kubernetes would refuse a label selector of the pod.
    """

    @property
    def required(self) -> list[PodAffinityTerm]:
        """The terms of ``requiredDuringSchedulingIgnoredDuringExecution``."""
    @property
    def preferred(self) -> list[tuple[int, PodAffinityTerm]]:
        """``preferredDuringSchedulingIgnoredDuringExecution``: each term with its weight."""

@final
class TopologySpreadConstraint:
    """A constraint on how pods are spread over the values of a topology key."""

    @property
    def max_skew(self) -> int: ...
    @property
    def topology_key(self) -> str: ...
    @property
    def when_unsatisfiable(self) -> str:
        """``DoNotSchedule`` or ``ScheduleAnyway``."""
    @property
    def selector(self) -> Selector | None:
        """The selector of the pods to spread; None: the constraint counts no pod."""
    @property
    def min_domains(self) -> int | None: ...
    @property
    def node_affinity_policy(self) -> str:
        """``Honor``, which is the default, or ``Ignore``."""
    @property
    def node_taints_policy(self) -> str:
        """``Honor``, or ``Ignore``, which is the default."""
    @property
    def match_label_keys(self) -> list[str]:
        """The label keys whose values in the pod are part of the selector.

        Older versions of kube-apiserver leave it to the scheduler to add them to ``selector``.
        """

@final
class OwnerReference:
    """An object that owns a pod, such as a ReplicaSet."""

    @property
    def api_version(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def uid(self) -> str: ...
    @property
    def controller(self) -> bool:
        """Whether the owner manages the pod."""

@final
class PodResourceClaim:
    """A claim of a pod for devices: an entry of ``spec.resourceClaims``."""

    @property
    def name(self) -> str: ...
    @property
    def resource_claim_name(self) -> str:
        """The name of the ResourceClaim; "" if a template makes the claim."""
    @property
    def resource_claim_template_name(self) -> str: ...

@final
class Volume:
    """A volume of a pod."""

    @property
    def name(self) -> str: ...
    @property
    def source(self) -> str:
        """The field that says where the volume comes from: ``persistentVolumeClaim``, ``secret``.

        The source is "" for a volume without such a field.
        """
    @property
    def claim_name(self) -> str:
        """The name of the PersistentVolumeClaim; "" for a volume from elsewhere."""

@final
class Pod:
    """An immutable pod as a request or the Kubernetes API showed it.

    Timestamps are text in the API's format. Amounts of cpu are in milli-CPUs, amounts of other
    resources in units, rounded up.

    A PodStore with ``max_pod_bytes`` may keep a pod without its too large parts: the pod is
    ``truncated``. To read a part that is not kept raises TruncatedPodError. The parts are:
    tolerations, node_selector, required_terms and annotations, also if a method of Nodes reads
    them; labels, also if ``matches`` reads them; containers and init_containers; requests and
    overhead, and ``request`` of any but the usual resources; all details; raw. Of too many
    scheduling_gates the first 16 are kept.

    The details are the attributes from ``pod_affinity`` to ``conditions``. kubextend keeps them
    only if the class of an enabled plugin has ``needs_details = True``, and ``raw`` only if one has
    ``needs_raw = True``. To read what is not kept raises KubextendError.

    Each read of an attribute makes its dict or list anew: to write into it changes no pod.
    """

    @property
    def name(self) -> str: ...
    @property
    def namespace(self) -> str: ...
    @property
    def uid(self) -> str: ...
    @property
    def scheduler_name(self) -> str:
        """``spec.schedulerName``; ``default-scheduler`` if the field is absent or empty."""
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
        """The pod's tolerations as ``(key, operator, value, effect)``; an absent field is ""."""
    @property
    def required_terms(self) -> list[_Term] | None:
        """The terms of the required node affinity, as ``(matchExpressions, matchFields)``.

        A node has to match one of the terms. None: the pod has no required node affinity.
        """
    @property
    def preferred_terms(self) -> list[tuple[int, _Term]]:
        """The weights and terms of the preferred node affinity."""
    @property
    def pod_affinity(self) -> PodAffinity:
        """``spec.affinity.podAffinity``, empty if absent."""
    @property
    def pod_anti_affinity(self) -> PodAffinity:
        """``spec.affinity.podAntiAffinity``, empty if absent."""
    @property
    def topology_spread_constraints(self) -> list[TopologySpreadConstraint]:
        """The constraints on how this pod and others are spread: ``topologySpreadConstraints``.

        Raises: ValueError: Kubernetes would refuse a label selector of the pod.
        """
    @property
    def volumes(self) -> list[Volume]: ...
    @property
    def claim_names(self) -> list[str]:
        """The names of the PersistentVolumeClaims of the pod's volumes, in the pod's namespace."""
    @property
    def owner_references(self) -> list[OwnerReference]: ...
    @property
    def controller(self) -> OwnerReference | None:
        """The owner that manages the pod; None for a pod without such an owner."""
    @property
    def host_ports(self) -> list[tuple[str, str, int]]:
        """The ports of the node that the pod takes, as ``(IP address, protocol, port)``.

        The ports are those of sidecars and containers. An absent IP address is ``0.0.0.0``, an
        absent protocol ``TCP``.

        Source: kubernetes v1.37 pkg/scheduler/util/utils.go GetHostPorts
        """
    @property
    def images(self) -> list[str]:
        """The images of the init containers and then of the containers, as the pod names them."""
    @property
    def runtime_class_name(self) -> str: ...
    @property
    def resource_claims(self) -> list[PodResourceClaim]: ...
    @property
    def conditions(self) -> list[Condition]: ...
    @property
    def raw(self) -> bytes:
        """The JSON of the pod as it came, with an empty list as ``metadata.managedFields``."""
    @property
    def requests(self) -> dict[str, int]:
        """The resources that the pod requests from its node: name of a resource -> amount.

        An amount is the sum over containers and sidecars, or the largest init container's request
        if that is more. A request of the pod as a whole (``spec.resources``) replaces the sum. The
        pod's overhead is added. cpu is in milli-CPUs, other resources in units.

        Source: component-helpers v0.36 resource/helpers.go PodRequests
        """
    def request(self, resource: str) -> int:
        """Return the amount of one resource that the pod requests, as in ``requests``; may be 0."""
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
    def scheduling_group(self) -> str:
        """``spec.schedulingGroup.podGroupName``; "" for a pod without a PodGroup."""
    @property
    def phase(self) -> str: ...
    @property
    def qos_class(self) -> str:
        """``status.qosClass``; if that is absent, the QoS class that Kubernetes would derive.

        Source: kubernetes v1.36 pkg/apis/core/v1/helper/qos/qos.go ComputePodQOS
        """
    @property
    def scheduled_reason(self) -> str:
        """The reason in the pod's condition PodScheduled; "" without one, as after binding."""
    @property
    def nominated_node_name(self) -> str: ...
    @property
    def generation(self) -> int:
        """``metadata.generation``, which grows by 1 with each change of the spec; 0 if absent."""
    @property
    def creation_timestamp(self) -> str: ...
    @property
    def deletion_timestamp(self) -> str | None: ...
    @property
    def start_time(self) -> str | None: ...
    @property
    def truncated(self) -> bool:
        """Whether the pod store does not keep parts of the pod because they are too large."""
    @property
    def held_bytes(self) -> int:
        """The approximate memory that the pod takes, in bytes."""
    def matches(self, selector: str | Selector) -> bool:
        """Return whether the pod's labels satisfy a label selector."""

@final
class Mask:
    """A set of some of the nodes in a ``Nodes``: one bit for each node, in the order of the nodes.

    ``&``, ``|`` and ``^`` take a Mask of equal length, and raise ValueError for another length.
    """

    def __new__(cls, bits: Iterable[bool]) -> Mask: ...
    def count(self) -> int:
        """Return how many bits of the mask are set."""
    def any(self) -> bool: ...
    def all(self) -> bool: ...
    def indices(self, most: int | None = None) -> list[int]:
        """Return the positions of the set bits, ascending; of more than ``most``, the first."""
    def pack(self) -> bytes:
        """Serialise the mask, 8 bits a byte; bit 0 is the lowest bit of the first byte."""
    @staticmethod
    def unpack(packed: bytes, length: int) -> Mask:
        """Deserialise a mask of ``length`` bits from the bytes that ``pack`` returned.

        Raises: ValueError: the bytes are not those of a mask of this length.
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
    """A view of one node of a ``Nodes``, and of the pods on the node.

    A node that the node store does not know has only a name: no labels, no taints, allocatable 0.

    The details are annotations, conditions, addresses, provider_id, system_info, images and
    capacity. kubextend keeps them only if the class of an enabled plugin has ``needs_details =
    True``, and ``raw`` only if one has ``needs_raw = True``. To read what is not kept raises
    KubextendError.
    """

    @property
    def name(self) -> str: ...
    @property
    def uid(self) -> str:
        """``metadata.uid``, which differs for a node that is deleted and created again."""
    @property
    def known(self) -> bool: ...
    @property
    def labels(self) -> dict[str, str]: ...
    def label(self, key: str) -> str | None:
        """Return the value of one label of the node; None without the label.

        This method is faster than ``labels``, which makes a dict of all labels.
        """
    @property
    def annotations(self) -> dict[str, str]: ...
    def annotation(self, key: str) -> str | None:
        """Return the value of one annotation of the node; None without the annotation."""
    @property
    def taints(self) -> list[tuple[str, str, str]]:
        """The taints of the node as ``(key, value, effect)``."""
    @property
    def unschedulable(self) -> bool: ...
    @property
    def conditions(self) -> list[Condition]: ...
    @property
    def addresses(self) -> list[tuple[str, str]]:
        """The addresses of the node as ``(type, address)``."""
    @property
    def provider_id(self) -> str: ...
    @property
    def system_info(self) -> dict[str, str]:
        """The texts of ``status.nodeInfo`` by field, such as ``kernelVersion``."""
    @property
    def images(self) -> dict[str, int]:
        """The size in bytes of each image on the node, by each name of the image."""
    @property
    def raw(self) -> bytes:
        """The JSON of the node as it came, with an empty list as ``metadata.managedFields``.

        The bytes are empty for a node that the node store does not know.
        """
    def capacity(self, resource: str) -> int:
        """Return ``status.capacity`` of one resource, in the units of ``allocatable``; may be 0."""
    def allocatable(self, resource: str) -> int:
        """Return ``status.allocatable`` of one resource: cpu in milli-CPUs, others in units.

        The result is 0 if the node's status does not name the resource.
        """
    def requested(self, resource: str) -> int:
        """Return how much of one resource the pods on the node request together.

        The amount of cpu is in milli-CPUs, that of other resources in units; the amount of the
        resource ``pods`` is the number of pods. The amount is 2**53 if a truncated pod, whose
        requests the pod store does not keep, may request the resource.

        Raises: RuntimeError: the view was made without a snapshot of pods.
        """
    @property
    def pods(self) -> list[Pod]:
        """The pods on the node: bound ones, and assumed ones, which are not seen bound yet.

        Raises: RuntimeError: the view was made without a snapshot of pods.
        """
    @property
    def used_ports(self) -> list[tuple[str, str, int]]:
        """The ``host_ports`` of all pods on the node.

        Raises: RuntimeError: the view was made without a snapshot of pods.
        """
    @property
    def pvc_ref_counts(self) -> dict[str, int]:
        """How many volumes of the node's pods use each claim: ``namespace/name`` -> number.

        Raises: RuntimeError: the view was made without a snapshot of pods.
        Source: kubernetes v1.37 pkg/scheduler/framework/types.go NodeInfo.PVCRefCounts
        """

@final
class Nodes:
    """The nodes of one request, in the request's order, as they were when the request was read."""

    @property
    def names(self) -> list[str]: ...
    def names_json(self) -> bytes:
        """Return the names as a JSON list."""
    @property
    def held_bytes(self) -> int:
        """How many bytes of memory the object keeps beside the nodes of a store.

        Nodes that a request in full mode itself brought are not counted.
        """
    @property
    def known(self) -> Mask:
        """One bit for each node: 0 if the node store has no node of that name.

        A node that the store does not know has no labels.
        """
    @property
    def unschedulable(self) -> Mask:
        """One bit for each node: whether the node has ``spec.unschedulable``."""
    @property
    def taints(self) -> list[list[tuple[str, str, str]]]:
        """A list for each node, with its taints as ``(key, value, effect)``."""
    def everything(self) -> Mask: ...
    def nothing(self) -> Mask: ...
    def matches(self, selector: str | Selector) -> Mask:
        """Return a mask of the known nodes whose labels satisfy a label selector.

        Raises: ValueError: the text is not a selector.
        """
    def tolerated_by(self, pod: Pod) -> Mask:
        """Return a mask of the nodes whose NoSchedule and NoExecute taints the pod tolerates.

        Source: kubernetes v1.36 plugins/tainttoleration/taint_toleration.go
        """
    def affine_to(self, pod: Pod) -> Mask:
        """Return a mask of the nodes that satisfy the pod's nodeSelector and required affinity.

        Source: component-helpers v0.36 scheduling/corev1/nodeaffinity/nodeaffinity.go
        """
    def preferred_by(self, pod: Pod) -> memoryview:
        """Return for each node the sum of the weights of the pod's preferred terms that match.

        The terms are those of the pod's preferred node affinity.

        Returns: int64, shape ``(len(nodes),)``, in the order of the nodes.
        """
    def labels(self, key: str) -> list[str | None]:
        """Return the value of one label for each node; None for a node without the label."""
    def annotations(self, key: str) -> list[str | None]:
        """Return the value of one annotation for each node; None for a node without it.

        Raises: KubextendError: kubextend does not keep the details of nodes.
        """
    def topology(self, key: str) -> tuple[memoryview, list[str]]:
        """Return the number of each node's value of a label, and the values.

        Returns: int64, shape ``(len(nodes),)``, in the order of the nodes: the position of the
            node's value in the list of values, or -1 for a node without the label. The list has
            each value once, in no order.
        """
    def images(self, name: str) -> memoryview:
        """Return the size in bytes of an image for each node; -1 for a node without the image.

        Returns: int64, shape ``(len(nodes),)``, in the order of the nodes.
        Raises: KubextendError: kubextend does not keep the details of nodes.
        """
    def capacity(self, resource: str) -> memoryview:
        """Return ``status.capacity`` of one resource for each node; 0 if a node lacks it.

        Returns: int64, shape ``(len(nodes),)``; cpu in milli-CPUs, others in units.
        Raises: KubextendError: kubextend does not keep the details of nodes.
        """
    @property
    def pods(self) -> PodSnapshot:
        """The pods that the views of these nodes show.

        Raises: RuntimeError: the nodes have no snapshot of pods.
        """
    @property
    def pods_read(self) -> bool:
        """Whether the pods of these nodes, or of a view of them, were read."""
    def with_pods(self, pods: PodSnapshot) -> Nodes:
        """Return these nodes, whose views show the pods of a snapshot."""
    def allocatable(self, resource: str) -> memoryview:
        """Return ``status.allocatable`` of one resource for each node; 0 if a node lacks it.

        Returns: int64, shape ``(len(nodes),)``; cpu in milli-CPUs, others in units.
        """
    def latest(self) -> Nodes:
        """Return the nodes with these names as the node store has them now.

        If the request had whole nodes, this ``Nodes`` is returned unchanged.
        """
    def kept(self) -> Nodes:
        """Return the same nodes, without their pods, for whoever keeps them for long.

        If the nodes that were kept last are the same and still in memory, both share this memory.
        """
    def only(self, some: Mask) -> Nodes:
        """Return the nodes of a mask alone, in the same order.

        Raises: ValueError: the mask does not have one bit for each of the nodes.
        """
    def infos(self, pods: PodSnapshot | None = None) -> list[NodeInfo]:
        """Return a view of each node, in order.

        Args:
            pods: the pods that the views show on their nodes; None: the pods of ``with_pods``.
                Without either, to read the pods of a view raises RuntimeError.
        """
    def index_of(self, name: str) -> int | None:
        """Return the position of the node with this name; None if there is no such node."""
    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> NodeInfo: ...
    def __iter__(self) -> Iterator[NodeInfo]: ...

@final
class NodeStoreStats:
    """Statistics of a store of nodes: its size, and how many nodes of requests the store knew."""

    @property
    def nodes(self) -> int: ...
    @property
    def bytes(self) -> int:
        """The bytes of node objects that a RequestStore keeps, to recognise the nodes; else 0."""
    @property
    def hits(self) -> int:
        """How many nodes of requests were recognised by their bytes or names since the start."""
    @property
    def misses(self) -> int: ...

@final
class ListPage:
    """The metadata of one page of a NodeList or PodList."""

    @property
    def resource_version(self) -> str: ...
    @property
    def continue_token(self) -> str:
        """The token of the next page; empty on the last page."""
    @property
    def items(self) -> int: ...

@final
class WatchEvent:
    """A parsed watch event of a node, and whether it changed a field that plugins read."""

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
    """A list of nodes that is read page by page, until ``commit`` puts it into a NodeStore."""

    def page(self, list_bytes: bytes) -> ListPage:
        """Parse one page of a NodeList, and add the page's nodes to the list.

        Raises: WireError: the bytes are no NodeList; nothing of the page is kept.
        """
    def commit(self) -> bool:
        """Replace the content of the NodeStore by the listed nodes, in one step.

        Returns: whether any field changed that plugins read.
        Raises: RuntimeError: the list is committed already.
        """

@final
class NodeStore:
    """A store of a cluster's nodes, for one writer and any number of readers.

    Only list and watch change the store: ``replace``, ``relist`` and ``apply``.

    Args:
        details: whether to keep the details of nodes.
        raw: whether to keep the JSON of nodes.
    """

    def __new__(cls, *, details: bool = False, raw: bool = False) -> NodeStore: ...
    def replace(self, list_bytes: bytes) -> str:
        """Replace the content of the store by a NodeList, and return the list's resourceVersion.

        Raises: WireError: the bytes are no complete NodeList; the store is unchanged.
        """
    def relist(self) -> Relist:
        """Begin a list that comes in pages; the store is unchanged until its ``commit``."""
    def apply(self, event_bytes: bytes) -> WatchEvent:
        """Parse one watch event, one line of the API's stream, and apply it to the store.

        Raises: WireError: the bytes are no event; the store is unchanged.
        """
    def select(self, names: Sequence[str]) -> Nodes:
        """Return the nodes of these names, in order; a node that is not stored has only a name."""
    def nodes(self) -> Nodes:
        """Return all nodes of the store."""
    def get(self, name: str, pods: PodSnapshot | None = None) -> NodeInfo | None:
        """Return a view of one node of the store; None if the node is not stored.

        Args:
            name: the name of the node.
            pods: the pods that the view shows on the node.
        """
    def stats(self) -> NodeStoreStats: ...
    def __len__(self) -> int: ...
    def __contains__(self, name: str, /) -> bool: ...

@final
class RequestStore:
    """A store of the nodes that requests bring whole, for any number of threads.

    Only ``read_args`` changes the store. The store recognises the nodes of a request by their
    bytes, and takes in the others.

    Args:
        max_bytes: bytes of node objects that the store may keep; beyond that, the store drops the
            nodes that were seen least recently.
        details: whether to keep the details of nodes.
        raw: whether to keep a copy of each node's JSON for plugins.
    """

    def __new__(
        cls, max_bytes: int = 536870912, *, details: bool = False, raw: bool = False
    ) -> RequestStore: ...
    def select(self, names: Sequence[str]) -> Nodes:
        """Return the nodes of these names, in order; a node that is not stored is unknown."""
    def nodes(self) -> Nodes:
        """Return all nodes of the store."""
    def get(self, name: str, pods: PodSnapshot | None = None) -> NodeInfo | None:
        """Return a view of one node of the store; None if the node is not stored.

        Args:
            name: the name of the node.
            pods: the pods that the view shows on the node.
        """
    def stats(self) -> NodeStoreStats: ...
    def __len__(self) -> int: ...
    def __contains__(self, name: str, /) -> bool: ...

@final
class PodEvent:
    """A parsed watch event of a pod, and whether it changed a field that plugins read."""

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
        """The pod in the event; None for events of the types BOOKMARK and ERROR."""

@final
class PodRelist:
    """A list of pods that is read page by page; ``commit`` replaces a PodStore's content by it."""

    def page(self, list_bytes: bytes) -> ListPage:
        """Parse one page of a PodList, and add the page's pods to the list.

        Raises: WireError: the bytes are no PodList; nothing of the page is kept.
        """
    def commit(self) -> bool:
        """Replace the pods of the PodStore by the listed pods, in one step.

        Assumed pods, which are not seen bound yet, stay assumed, except those that the list shows
        bound or ended, and those that the store had and the list does not have.

        Returns: whether any field changed that plugins read.
        Raises: RuntimeError: the list is committed already.
        """

@final
class PodStore:
    """A store of the pods of a cluster that have not ended, and of assumed pods.

    An assumed pod is a pod whose node is chosen and which the watch does not show bound yet. A pod
    counts on the node to which it is bound, and before that on the node for which it is assumed.
    One writer and any number of readers may use the store.

    Args:
        annotations: keys of the annotations to keep; None keeps all.
        max_pod_bytes: the most bytes of one pod's tolerations, node selector, node affinity and
            annotations together, also of its requests, gates, labels and containers together, also
            of its details, and also of its JSON. A pod with more is kept ``truncated``, without
            them. None: no limit.
        details: whether to keep the details of pods.
        raw: whether to keep the JSON of pods.
    """

    def __new__(
        cls,
        *,
        annotations: Sequence[str] | None = None,
        max_pod_bytes: int | None = None,
        details: bool = False,
        raw: bool = False,
    ) -> PodStore: ...
    def replace(self, list_bytes: bytes) -> str:
        """Replace the pods of the store by a PodList, and return the list's resourceVersion.

        Raises: WireError: the bytes are no complete PodList; the store is unchanged.
        """
    def relist(self) -> PodRelist:
        """Begin a list that comes in pages; the store is unchanged until its ``commit``."""
    def apply(self, event_bytes: bytes) -> PodEvent:
        """Parse one watch event, one line of the API's stream, and apply it to the store.

        An event that shows a pod Succeeded or Failed removes the pod from the store.

        Raises: WireError: the bytes are no event; the store is unchanged.
        """
    def get(self, uid: str) -> Pod | None:
        """Return the pod with this UID as the watch shows it; None if there is no such pod."""
    def by_name(self, namespace: str, name: str) -> Pod | None:
        """Return the pod of this name as the watch shows it; None if there is no such pod."""
    def pods(self) -> list[Pod]:
        """Return all pods that the watch shows, in no order."""
    def with_label(self, namespace: str, key: str, value: str) -> list[Pod]:
        """Return the pods of a namespace that have a label with this value, in no order.

        The ``node_name`` of an assumed pod is the node for which it is assumed. The first call for
        a label key walks over all pods; later calls use an index of that key.

        Raises: TruncatedPodError: a pod of the namespace is kept without its labels.
        """
    def assume(self, pod: Pod, node: str) -> None:
        """Count a pod on a node as assumed, until the watch shows the pod bound to any node.

        The end or deletion of the pod, and ``forget``, also end the assumption. A pod that is
        already assumed on another node moves to ``node``; a pod that the watch shows bound stays on
        its node.

        Raises: ValueError: the pod has no UID or the node no name.
        """
    def forget(self, uid: str) -> bool:
        """Stop counting an assumed pod; return False if the pod is bound or was not assumed."""
    def assumed(self) -> list[tuple[Pod, str]]:
        """Return each assumed pod with the node it is assumed on, also as its ``node_name``."""
    def snapshot(self) -> PodSnapshot:
        """Return the bound and assumed pods as they are now, after every earlier write."""
    def __len__(self) -> int: ...

@final
class PodSnapshot:
    """The bound and assumed pods on nodes at one moment; a snapshot never changes."""

    def pods_on(self, node: str) -> list[Pod]:
        """Return the pods on a node, in the order in which they came to the node."""
    def pod_on(self, node: str, uid: str) -> Pod | None:
        """Return the pod with a UID on a node; None if there is no such pod on the node.

        Args:
            node: the name of the node.
            uid: the UID of the pod.
        """
    def started_after(self, nodes: Nodes, time: str) -> dict[int, list[Pod]]:
        """Return the pods that started after a time or have not started yet, by node.

        The keys of the result are positions in ``nodes``.

        Args:
            nodes: the nodes to look at; the result leaves out nodes without pods that started
                later.
            time: a time in the format of ``start_time``; the two are compared as text.
        """
    def nominated(self, pod: Pod, nodes: Nodes) -> Mask | None:
        """Return a mask of the nodes to which pods of at least this pod's priority are nominated.

        The result is None if there is no such node. A nominated pod is neither bound nor assumed; a
        preemption has made room for the pod on the node.

        Source: kubernetes v1.36 pkg/scheduler/framework/runtime/framework.go addGENominatedPods
        """
    def with_nominated(self, pod: Pod, nodes: Nodes, some: Mask) -> PodSnapshot:
        """Return a snapshot that has the nominated pods of some nodes on these nodes as well.

        The ``node_name`` of a nominated pod in the result is the node to which it is nominated.

        Args:
            pod: only pods of at least this pod's priority are added.
            nodes: the nodes of the request.
            some: the nodes whose nominated pods are added.

        Raises: ValueError: the mask does not have one bit for each of the nodes.
        """
    def with_places(self, places: Sequence[tuple[Pod, str]]) -> PodSnapshot:
        """Return a snapshot that has these pods on these nodes as well.

        A pod that is on its node already counts once, and a pod that is nominated to another node
        does not count there.

        Args:
            places: pods, each with the name of a node.
        """
    def before(self, later: Sequence[tuple[str, Sequence[str]]]) -> PodSnapshot:
        """Return a snapshot as of before some pods got their nodes.

        Args:
            later: names of nodes, each with the UIDs of the pods of this node.
        """
    def placed_with_label(self, namespace: str, key: str, value: str) -> list[Pod]:
        """Return the pods of a namespace that ``with_places`` added and that have a label.

        Each pod has its place as ``node_name``. The pods come in no order.

        Args:
            namespace: the namespace of the pods.
            key: the key of the label.
            value: the value of the label.
        """
    def these(self, pods: Sequence[Pod]) -> list[Pod]:
        """Return given pods of the snapshot's store as the snapshot has them, in the given order.

        A pod with a node is left out if the snapshot does not have it on that node. A pod without a
        node gets its place of ``with_places`` as ``node_name``, or its nominated node if the
        snapshot has it there.
        """
    def count(
        self,
        nodes: Nodes,
        selector: str | Selector | None = None,
        *,
        namespaces: Sequence[str] | None = None,
        terminating: bool = True,
    ) -> memoryview:
        """Return for each node how many of its pods match a label selector.

        kubextend remembers the counts of the last selectors, and counts a node again only after its
        pods have changed.

        Args:
            nodes: the nodes.
            selector: the selector; None matches every pod.
            namespaces: the namespaces of the pods; None: all.
            terminating: whether pods count that are being deleted.

        Returns: int64, shape ``(len(nodes),)``, in the order of the nodes.
        Raises: TruncatedPodError: a pod of the namespaces is kept without its labels.
        """
    def count_by(
        self,
        topology_key: str,
        nodes: Nodes,
        selector: str | Selector | None = None,
        *,
        namespaces: Sequence[str] | None = None,
        terminating: bool = True,
        among: Nodes | None = None,
    ) -> memoryview:
        """Return for each node how many pods match in the node's topology domain.

        A domain is the nodes of ``among`` that have one value of the topology key. As ``nodes`` of
        a filter leaves out nodes that kube-scheduler rejected, ``among`` is mostly
        ``handle.snapshot()``.

        Args:
            topology_key: the label key, such as ``topology.kubernetes.io/zone``.
            nodes: the nodes to return a count for.
            selector: the selector; None matches every pod.
            namespaces: the namespaces of the pods; None: all.
            terminating: whether pods count that are being deleted; PodTopologySpread does not count
                them.
            among: the nodes whose pods are counted; None: ``nodes``.

        Returns: int64, shape ``(len(nodes),)``, in the order of ``nodes``; -1 for a node without
            the label.
        Raises: TruncatedPodError: a pod of the namespaces is kept without its labels.
        """
    def requested(self, nodes: Nodes, resource: str) -> memoryview:
        """Return for each node the sum of its pods' requests of one resource.

        Returns: int64, shape ``(len(nodes),)``; cpu in milli-CPUs, others in units; for the
        resource ``pods`` the number of pods.
        """
    def requested_in(
        self, namespace: str, only: set[str] | frozenset[str] | None = None
    ) -> dict[str, int]:
        """Return the sums of what the pods of a namespace request on all nodes.

        Pods that are nominated to a node do not count: ``nominated_pods`` returns them. kubextend
        remembers the sums, and adds or subtracts only the pods that have come or gone since.

        Args:
            namespace: the namespace.
            only: the resources of interest, because tenants may name thousands in their pods. Of
                all other resources, only the first by name is returned of which the sum is above
                0. None: all resources.

        Returns: amounts by resource; cpu in milli-CPUs, others in units. A resource of which the
            pods request nothing is left out.
        Raises: TruncatedPodError: a pod of the namespace is kept without some of its requests.
        """
    def nominated_pods(self) -> list[Pod]:
        """Return the pods on no node that are nominated to a node, in no order."""
    def terminating(self, nodes: Nodes) -> memoryview:
        """Return for each node how many of its pods have a ``deletion_timestamp``.

        Returns: int64, shape ``(len(nodes),)``.
        """
    def nominated_to(self, nodes: Nodes) -> memoryview:
        """Return for each node how many pods on no node are nominated to the node.

        Returns: int64, shape ``(len(nodes),)``.
        """
    def __len__(self) -> int: ...

@final
class BodyPool:
    """A pool of memory for large request and response bodies, because new memory is slow to write.

    The memory of a buffer returns to the pool when no object refers to it any more: no variable,
    no memoryview, no request that was read from it, no store that keeps nodes of it. The pool frees
    memory that was not taken for a while.

    Args:
        max_idle_bytes: the most bytes of unused memory that the pool keeps.
    """

    def __new__(cls, max_idle_bytes: int = 536870912) -> BodyPool: ...
    def take(self, size: int) -> BodyBuffer:
        """Return a buffer of ``size`` bytes with undefined content.

        Raises: MemoryError: the system does not have so much memory.
        """
    @property
    def idle_bytes(self) -> int: ...
    def clear(self) -> None:
        """Free the pool's memory that is not in use."""

@final
class BodyBuffer(Buffer):
    """The memory of one request or response body, taken from a BodyPool.

    A ``memoryview`` of the buffer is writable until a request is read from the buffer, and must be
    released before that. A response's buffer is read-only.
    """

    def discard_behind(self, kept: int) -> None:
        """Give the memory behind the first ``kept`` bytes back to the system.

        The content behind the first ``kept`` bytes is lost. To write there takes new memory from
        the system.

        Raises: BufferError: a request was read from the buffer.
        """
    def __len__(self) -> int: ...

@final
class ExtenderArgs:
    """A parsed filter or prioritize request, with methods that write the response's body."""

    @property
    def pod(self) -> Pod | None: ...
    @property
    def nodes(self) -> Nodes | None:
        """The nodes of the request; None if both Nodes and NodeNames are null."""
    @property
    def names_mode(self) -> bool:
        """Whether the request has names in place of whole nodes (nodeCacheCapable: true)."""
    def filter_result(self, kept: Mask, reason: str, unresolvable: bool = True) -> bytes:
        """Write an ExtenderFilterResult that rejects, for one reason, all nodes that are not kept.

        Kept nodes are written with the bytes that they have in the request.

        Args:
            kept: one bit for each node of the request.
            reason: a short, stable text; kube-scheduler counts the nodes with equal texts together.
            unresolvable: True lists the rejected nodes in FailedAndUnresolvableNodes, False in
                FailedNodes, where preemption may help.
        """
    @overload
    def filter_answer(
        self,
        rejections: Sequence[tuple[Mask, str, bool]],
        pool: None = None,
        *,
        told: bool = True,
    ) -> bytes: ...
    @overload
    def filter_answer(
        self,
        rejections: Sequence[tuple[Mask, str, bool]],
        pool: BodyPool | None,
        *,
        told: bool = True,
    ) -> bytes | BodyBuffer:
        """Write an ExtenderFilterResult from rejections; a node without a rejection is kept.

        Args:
            rejections: ``(nodes, reason, unresolvable)`` entries; of several entries with a node
                the first counts.
            pool: gives the memory of a response of 1 MiB or more; None: the result is a bytes
                object.
            told: False leaves the rejected nodes and their reasons out of the response.
        """
    def prioritize_result(self, scores: _Scores) -> bytes:
        """Write a HostPriorityList with one score for each node of the request, as given."""

@final
class PreemptionArgs:
    """A parsed preempt request, with a method that writes the response's body."""

    @property
    def pod(self) -> Pod | None: ...
    @property
    def nodes(self) -> Nodes:
        """The nodes of the request, on which kube-scheduler would evict pods, in order."""
    @property
    def victims(self) -> list[tuple[list[str], int]]:
        """The pods to evict on each node, as ``(UIDs of the pods, NumPDBViolations)``.

        A pod whose node the request does not say counts as one on the node.
        """
    @property
    def elsewhere(self) -> list[list[tuple[str, str]]]:
        """For each node, the pods to evict on other nodes, as ``(name of their node, UID)``.

        kube-scheduler evicts a pod group with the disruptionMode ``all`` on all of its nodes.
        """
    def pods_left(self, pods: PodSnapshot) -> PodSnapshot:
        """Return a snapshot in which each node of the request lacks the pods to evict on it."""
    def result(self, kept: Mask) -> bytes:
        """Write an ExtenderPreemptionResult with the kept nodes, their victims and PDB counts.

        Victims on other nodes are left out, because kube-scheduler refuses an answer with them.

        Args:
            kept: one bit for each node of the request.
        """

@final
class BindingArgs:
    """A parsed bind request: the names and UID of a pod, and the name of its node."""

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
    """A plugin that is written in Rust and runs without holding Python's GIL."""

    @staticmethod
    def named(name: str) -> NativePlugin:
        """Return the native plugin with this name; only for plugins without arguments.

        Raises: ValueError: there is no such plugin; the message lists the plugins.
        """
    @staticmethod
    def label_match(
        filters: Sequence[tuple[str, str, str]] = ...,
        scores: Sequence[tuple[str, str, int]] = ...,
    ) -> NativePlugin:
        """Make a LabelMatch plugin, which filters and scores nodes by label selectors.

        Args:
            filters: ``(pod selector, node selector, reason)``: a pod that matches needs a node that
                matches; the plugin rejects other nodes with the reason.
            scores: ``(pod selector, node selector, score)``: for a pod that matches, a node that
                matches gets the score added.

        Raises: ValueError: a selector cannot be parsed.
        """
    @staticmethod
    def node_resources_fit(
        strategy: Literal["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"],
        resources: Sequence[tuple[str, int]],
        shape: Sequence[tuple[int, int]],
        ignored: AbstractSet[str],
        ignored_groups: AbstractSet[str],
    ) -> NativePlugin:
        """Make a NodeResourcesFit plugin, which checks the room on nodes and scores their use.

        Args:
            strategy: how nodes are scored.
            resources: ``(name, weight)`` of each scored resource; the weights are above 0.
            shape: for RequestedToCapacityRatio: ``(percentage in use, score 0 to 100)`` of each
                point, sorted by a percentage that rises.
            ignored: extended resources that the filter leaves out.
            ignored_groups: what comes before the ``/`` in extended resources that the filter leaves
                out.

        Raises: ValueError: there is no such strategy.
        """
    @staticmethod
    def node_resources_balanced_allocation(
        resources: Sequence[tuple[str, int]],
    ) -> NativePlugin:
        """Make a NodeResourcesBalancedAllocation plugin, which compares the use of resources.

        Args:
            resources: ``(name, weight)`` of each resource; the weights have no effect.
        """
    @property
    def name(self) -> str: ...
    @property
    def extension_points(self) -> tuple[str, ...]: ...
    def filter_nodes(
        self, pod: Pod, nodes: Nodes, pods: PodSnapshot | None = None
    ) -> list[tuple[Mask, str, bool]]:
        """Filter nodes for a pod; return ``(rejected nodes, reason, unresolvable)`` entries.

        The list is empty if every node passes.

        Args:
            pod: the pod.
            nodes: the nodes to filter.
            pods: the pods on the nodes; None: the nodes count as empty.
        """
    def score_nodes(self, pod: Pod, nodes: Nodes, pods: PodSnapshot | None = None) -> memoryview:
        """Score nodes for a pod; return int64, shape ``(len(nodes),)``, each 0 to 100.

        Args:
            pod: the pod.
            nodes: the nodes to score.
            pods: the pods on the nodes; None: the nodes count as empty.
        """

def read_args(
    body: bytes | BodyBuffer,
    store: RequestStore | None = None,
    *,
    watched: NodeStore | None = None,
) -> ExtenderArgs:
    """Parse the body of a filter or prioritize request.

    Args:
        body: the JSON as kube-scheduler sent it, keys in upper or lower case.
        store: the request store: this store recognises whole nodes of the request that it has, and
            takes in the others. Without ``watched``, names of nodes are looked up in this store
            too.
        watched: the store in which names of nodes are looked up.

    Raises:
        WireError: the body cannot be parsed; the store takes in no node of the body.
        BufferError: a memoryview of the body's buffer is still open for writing.
    """

def read_preemption_args(
    body: bytes | BodyBuffer,
    store: RequestStore | None = None,
    *,
    watched: NodeStore | None = None,
) -> PreemptionArgs:
    """Parse the body of a preempt request.

    Args:
        body: the JSON as kube-scheduler sent it.
        store: the store in which the candidate nodes are looked up if ``watched`` is None.
        watched: the store in which the candidate nodes are looked up.

    Raises:
        WireError: the body cannot be parsed.
        BufferError: a memoryview of the body's buffer is still open for writing.
    """

def amount(resource: str, quantity: str) -> int:
    """Parse a quantity of a resource, such as ``500m`` or ``2Gi``.

    Returns: cpu in milli-CPUs, other resources in units, rounded up.
    Raises: ValueError: the text is no quantity of Kubernetes.
    """

def is_dra_extended_resource(name: str) -> bool:
    """Return whether dynamic resource allocation may serve it where a node's status has none.

    Source: kubernetes v1.37 pkg/scheduler/util/utils.go IsDRAExtendedResourceName
    """

def read_binding_args(body: bytes | BodyBuffer) -> BindingArgs:
    """Parse the body of a bind request.

    Raises:
        WireError: the body cannot be parsed, or has more than 64 KiB.
        BufferError: a memoryview of the body's buffer is still open for writing.
    """

@overload
def normalize(scores: list[int], maximum: int = 100, reverse: bool = False) -> list[int]: ...
@overload
def normalize(
    scores: Buffer | _Int64Array, maximum: int = 100, reverse: bool = False
) -> memoryview: ...
@overload
def normalize(scores: _Scores, maximum: int = 100, reverse: bool = False) -> Sequence[int]:
    """Scale scores so that the highest becomes ``maximum``, as DefaultNormalizeScore does in Go.

    Returns: a list for a list, else a memoryview of int64.

    Args:
        scores: one score for each node.
        maximum: the highest score of the result.
        reverse: True turns the order around: the highest score becomes 0.

    Source: kubernetes v1.36 plugins/helper/normalize_score.go
    """

def checked_scores(scores: _Scores, minimum: int = 0, maximum: int = 100) -> memoryview:
    """Check that scores are integers from ``minimum`` to ``maximum``; return them as int64.

    Raises:
        ValueError: a score is outside of the range; the message names the score.
        ValueError: an array has several dimensions, or the byte order of another machine.
        TypeError: a score is not an integer, or the scores are bytes.
    """

def weigh(
    parts: Sequence[tuple[_Scores, int]], scale: Literal["additive", "strict10"] = "additive"
) -> memoryview:
    """Return for each node the weighted sum of several plugins' scores, as int64.

    Args:
        parts: ``(scores, weight)`` of each plugin; all plugins score equally many nodes.
        scale: ``additive`` is round(sum(weight * score) / 10), halves away from zero: with extender
            weight 1 kube-scheduler multiplies the sum by 10, so that a weight counts as much as for
            an in-tree plugin. ``strict10`` scales the sum to 0 to 10.

    Raises: ValueError: the lists of scores have different lengths, or ``parts`` is empty.
    """

def highest(scores: _Scores, most: int) -> list[int]:
    """Return the positions of the ``most`` highest scores, the highest first.

    Of equal scores, the first comes first.
    """
