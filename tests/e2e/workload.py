"""Creates the pods of one test in a namespace of their own, and waits for their placement."""

from collections.abc import Mapping
from typing import Protocol

from .kubeapi import Api, NodePool, Object, condition, placed_on, pod
from .stack import Stack
from .workbench import until

PRIORITIES = {"e2e-high": 1000, "e2e-low": 10, "e2e-lowest": 1}


class Workload:
    """Creates pods for one scheduler and watches where they land."""

    def __init__(self, api: Api, namespace: str, scheduler: str, pool: NodePool) -> None:
        self._api = api
        self._pool = pool
        self.scheduler = scheduler
        self.namespace = api.create_namespace(namespace)

    def create(
        self,
        prefix: str,
        count: int,
        labels: Mapping[str, str] | None = None,
        *,
        cpu: str = "10m",
        priority_class: str = "",
        node_labels: Mapping[str, str] | None = None,
    ) -> list[str]:
        """Create pods at the same time, which select the pool's nodes; return the pods' names."""
        names = [f"{prefix}-{i:02}" for i in range(count)]
        like: Object = {"cpu": cpu, "priority_class": priority_class}
        like["nodeSelector"] = dict(node_labels or {})
        pods = [pod(n, self.scheduler, self._pool.name, labels, **like) for n in names]
        self._api.create_pods(self.namespace, pods)
        return names

    def fill(
        self, nodes: int, priority_class: str, labels: Mapping[str, str] | None = None
    ) -> list[str]:
        """Fill ``nodes`` four-core nodes with pods of one core each; return the pods' names."""
        like = {"cpu": "1", "priority_class": priority_class}
        names = self.create(priority_class, 4 * nodes, labels, **like)
        self.until_placed(names)
        return names

    def delete(self, name: str) -> None:
        self._api.delete_pod(self.namespace, name)

    def pods(self) -> dict[str, Object]:
        return {p["metadata"]["name"]: p for p in self._api.pods(self.namespace)}

    def uids(self) -> dict[str, str]:
        """Return the name of every pod that is not being deleted, by its UID."""
        alive = (p["metadata"] for p in self.pods().values())
        return {m["uid"]: m["name"] for m in alive if "deletionTimestamp" not in m}

    def placed(self) -> dict[str, str]:
        """Return the node of every pod that has one, by the pod's name."""
        return placed_on(list(self.pods().values()))

    def until_placed(self, names: list[str], timeout_s: float = 60.0) -> dict[str, str]:
        """Wait until all of these pods have a node; return the nodes by the pods' names."""

        def nodes() -> dict[str, str]:
            placed = self.placed()
            return {n: placed[n] for n in names if n in placed}

        try:
            until(lambda: len(nodes()) == len(names), "all pods are placed", timeout_s)
        except TimeoutError as error:
            late = [n for n in names if n not in self.placed()]
            error.add_note(f"{len(late)} pods, {[self.why_pending(n) for n in late[:1]]}")
            raise
        return nodes()

    def until_pending(self, name: str, timeout_s: float = 60.0) -> str:
        """Wait until kube-scheduler gives a reason why a pod has no node, and return the reason."""
        return until(lambda: self.why_pending(name), f"{name} has a reason", timeout_s)

    def why_pending(self, name: str) -> str:
        """Return the message of the pod's PodScheduled condition; empty: it is not False."""
        found = condition(self.pods().get(name, {}), "PodScheduled")
        return str(found.get("message", "")) if found.get("status") == "False" else ""

    def notes(self, name: str) -> str:
        """Return the notes of all Events about a pod, one a line."""
        path = f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events"
        events = self._api.items(path)
        return "\n".join(e.get("note", "") for e in events if e["regarding"]["name"] == name)

    def close(self) -> None:
        self._api.delete_pods(self.namespace)


class NewWorkload(Protocol):
    """Makes a ``Workload`` for the first profile of a stack, or for the scheduler that is named."""

    def __call__(
        self, stack: Stack, pool: NodePool, scheduler_name: str | None = None
    ) -> Workload: ...


def create_priority_classes(api: Api) -> None:
    """Create the priority classes that pods of these tests use."""
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    api.create_all(path, ({"metadata": {"name": n}, "value": v} for n, v in PRIORITIES.items()))
