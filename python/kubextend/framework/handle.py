"""What the rest of kubextend is to plugins and verbs: the Handle, and the ports behind it."""

from collections.abc import Callable, Iterable, Iterator
from copy import copy
from typing import Any, Final, Protocol, TypeVar

from kubextend import core
from kubextend.errors import KubextendError
from kubextend.framework.cycle_state import CycleState

__all__ = [
    "Activator",
    "Binder",
    "Handle",
    "HeldPod",
    "HeldPods",
    "NodeSource",
    "PodReader",
    "PodSource",
    "needs_pods_undeclared",
]

MAX_POD_BYTES: Final = 64 << 10
"""What tolerations, affinity and annotations of one kept pod may take, and once more its requests,
gates, labels and containers: whoever may create pods chooses how large they are, and the store
holds those of the whole cluster."""

_Shared = TypeVar("_Shared")


class NodeSource(Protocol):
    """Nodes kept up to date by list and watch."""

    @property
    def store(self) -> core.NodeStore:
        """Where they are."""

    @property
    def synced(self) -> bool:
        """Whether they have been listed once."""

    def age_s(self) -> float | None:
        """Seconds since the Kubernetes API was last heard of; None before that."""


class PodSource(Protocol):
    """Pods kept up to date by list and watch, with the ledger of assumed ones."""

    @property
    def store(self) -> core.PodStore:
        """Where they are."""

    @property
    def synced(self) -> bool:
        """Whether they have been listed once."""


class PodReader(Protocol):
    """Reads one pod from the Kubernetes API."""

    def get(self, namespace: str, name: str) -> core.Pod | None:
        """The pod as it is now; None where there is none. Blocks.

        Raises: ClusterError: that could not be found out.
        """


class Binder(Protocol):
    """Writes the Binding of a pod."""

    def bind(
        self, namespace: str, name: str, uid: str, node: str, *, timeout_s: float | None = None
    ) -> None:
        """The pod is bound to the node afterwards, by this call or by an earlier one.

        Args:
            namespace: of the pod.
            name: of the pod.
            uid: of the pod; another pod of the same name is left alone.
            node: where it goes.
            timeout_s: nothing is written any more after that; None: nobody waits.

        Raises: ClusterError: it is not, and why.
        """


class Activator(Protocol):
    """Makes kube-scheduler ask about parked pods again."""

    def activate(self, pods: Iterable[core.Pod]) -> None:
        """Soon, from another thread; never blocks and never raises."""


class HeldPod(Protocol):
    """A pod that Permit holds; its methods may be called from any thread."""

    pod: core.Pod
    node_name: str
    since_s: float
    """When the wait began, in seconds of Unix time."""

    @property
    def pending_plugins(self) -> tuple[str, ...]:
        """Which plugins still hold it."""

    @property
    def deadline_s(self) -> float | None:
        """When the first of them rejects it, in seconds of Unix time; None where none holds it."""

    def allow(self, plugin: str) -> bool:
        """One plugin holds it no longer; it goes on when none does. False: it did not hold it."""

    def reject(self, plugin: str, reason: str) -> bool:
        """It is sent back; False where it was decided before."""


class HeldPods(Protocol):
    """The pods that Permit holds now."""

    def get(self, uid: str) -> HeldPod | None:
        """The held pod of this UID."""

    def reject(self, uid: str, plugin: str, reason: str) -> bool:
        """The pod is sent back if it is held; whether it was."""

    def gives_up(self, uid: str) -> bool:
        """Whether the pod's binding cycle failed and not every Unreserve has run."""

    def __iter__(self) -> Iterator[HeldPod]:
        """Those that are held at this moment."""


class Handle:
    """What a plugin may reach: cluster state, held pods, wake-ups, configuration.

    Args:
        nodes: watched nodes; None without access to an API.
        pods: watched pods; None unless an enabled plugin needs them.
        waiting_pods: the pods that Permit holds.
        activator: wakes parked pods; None without access to an API.
        kubernetes_client: answers an ``ApiClient`` of the official client under the present
            credentials; None without access to an API.
        configuration: the whole typed configuration.
        metrics: a ``prometheus_client.CollectorRegistry`` for the plugin's own metrics.
    """

    def __init__(  # noqa: PLR0913  one argument for each thing a plugin may reach
        self,
        *,
        waiting_pods: HeldPods,
        nodes: NodeSource | None = None,
        pods: PodSource | None = None,
        activator: Activator | None = None,
        kubernetes_client: Callable[[], Any] | None = None,
        configuration: Any = None,
        metrics: Any = None,
    ) -> None:
        self.waiting_pods = waiting_pods
        self.configuration = configuration
        self.metrics = metrics
        self._nodes = nodes
        self._pods = pods
        self._activator = activator
        self._kubernetes_client = kubernetes_client
        self._shared: dict[type[Any], Any] = {}
        self._undeclared = ""

    def of(self, plugin: str, *, needs_pods: bool) -> "Handle":
        """What one plugin may reach: pods only where its class says ``needs_pods = True``.

        Pods are watched only where an enabled plugin says so; what it finds must not depend on
        which others are enabled.
        """
        mine = copy(self)
        mine._undeclared = "" if needs_pods else plugin  # noqa: SLF001  it is of this class
        return mine

    def shared(self, kind: type[_Shared], make: Callable[[], _Shared]) -> _Shared:
        """One object of a kind for all plugins, made by the first that asks while it is made."""
        if kind not in self._shared:
            self._shared[kind] = make()
        shared: _Shared = self._shared[kind]
        return shared

    @property
    def kubernetes_client(self) -> Any:
        """An ``ApiClient`` of the official client; None without access to an API.

        It is another one once the credentials were renewed, so ask for it at each use.
        """
        return None if self._kubernetes_client is None else self._kubernetes_client()

    def nodes(self) -> core.Nodes | None:
        """Every watched node as it is now; None where nodes are not watched."""
        return None if self._nodes is None else self._nodes.store.nodes()

    def pods(self, state: CycleState | None = None) -> core.PodSnapshot | None:
        """The pods on nodes as they are now, assumed ones among them; None if not watched.

        Args:
            state: of the attempt that asks. A filter should give it: in preempt a candidate is
                judged on the cluster from which its victims, and no others, are gone, and where
                other pods are nominated to a node the node is judged with them too.
        """
        self._check_declared()
        if state is not None:
            state.asked_for_pods = True
            if state.pods_seen is not None:
                return state.pods_seen
        return None if self._pods is None else self._pods.store.snapshot()

    def pending_pods(self) -> list[core.Pod]:
        """Watched pods without a node; empty where pods are not watched."""
        self._check_declared()
        if self._pods is None:
            return []
        return [pod for pod in self._pods.store.pods() if not pod.node_name]

    def labelled_pods(
        self, namespace: str, label: str, value: str, state: CycleState | None = None
    ) -> list[core.Pod]:
        """The pods of a namespace that have a label of this value.

        One that is only assumed on a node names that node, like one that is bound. Empty where pods
        are not watched.

        Args:
            namespace: theirs.
            label: its key.
            value: its value.
            state: of the attempt that asks, as for ``pods``: in preempt the victims are gone, and
                a pod that is nominated to the node names it.

        Raises: TruncatedPodError: a pod of the namespace has too many labels to keep.
        """
        self._check_declared()
        if self._pods is None:
            return []
        pods = self._pods.store.with_label(namespace, label, value)
        if state is None:
            return pods
        state.asked_for_pods = True
        seen = state.pods_seen
        return pods if seen is None else seen.these(pods)

    def assumed_pods(self) -> frozenset[str]:
        """UIDs of the pods on their way to a node, until the watch shows them bound."""
        self._check_declared()
        if self._pods is None:
            return frozenset()
        return frozenset(pod.uid for pod, _ in self._pods.store.assumed())

    def activate(self, pods: Iterable[core.Pod]) -> None:
        """kube-scheduler asks about these pods again soon, if they are parked."""
        if self._activator is not None:
            self._activator.activate(pods)

    def _check_declared(self) -> None:
        if self._undeclared:
            raise needs_pods_undeclared(self._undeclared)


def needs_pods_undeclared(plugin: str) -> KubextendError:
    """What to raise where a plugin asks for pods and does not say that it needs them."""
    return KubextendError(f"set needs_pods = True on {plugin}: it asks for pods")
