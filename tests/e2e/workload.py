"""The pods of one test, in a namespace of their own."""

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
        """Create pods at once and return their names.

        Args:
            prefix: of their names.
            count: how many.
            labels: of each.
            cpu: that each requests.
            priority_class: of each.
            node_labels: that kube-scheduler itself demands of a node.
        """
        names = [f"{prefix}-{i:02}" for i in range(count)]
        pool = self._pool.name
        pods = [
            pod(n, self.scheduler, pool, labels, cpu=cpu, priority_class=priority_class)
            for n in names
        ]
        for each in pods:
            each["spec"]["nodeSelector"] |= node_labels or {}
        self._api.create_pods(self.namespace, pods)
        return names

    def until_both_know(self, node: str, labels: Mapping[str, str], key: str) -> None:
        """Wait until kube-scheduler and kubextend have seen the label that a node was given.

        Args:
            node: the node, with the label and the value "true".
            labels: of pods that kubextend lets onto no node without it.
            key: of the label.
        """
        (scout,) = self.create("scout", 1, labels, node_labels={key: "true"})
        assert self.until_placed([scout]) == {scout: node}

    def fill(
        self, nodes: int, priority_class: str, labels: Mapping[str, str] | None = None
    ) -> list[str]:
        """Let kube-scheduler fill as many four-core nodes with pods of one core each."""
        names = self.create(
            priority_class, 4 * nodes, labels, cpu="1", priority_class=priority_class
        )
        self.until_placed(names)
        return names

    def delete(self, name: str) -> None:
        """Take one pod away."""
        self._api.delete_pod(self.namespace, name)

    def pods(self) -> dict[str, Object]:
        """Every pod by its name."""
        return {p["metadata"]["name"]: p for p in self._api.pods(self.namespace)}

    def uids(self) -> dict[str, str]:
        """The name of every pod that is not being deleted, by its UID."""
        alive = (p["metadata"] for p in self.pods().values())
        return {m["uid"]: m["name"] for m in alive if "deletionTimestamp" not in m}

    def placed(self) -> dict[str, str]:
        """Node of every pod that has one."""
        return placed_on(list(self.pods().values()))

    def until_placed(self, names: list[str], timeout_s: float = 60.0) -> dict[str, str]:
        """Wait until all of these pods have a node, and return it by the pod's name."""

        def nodes() -> dict[str, str]:
            placed = self.placed()
            return {n: placed[n] for n in names if n in placed}

        try:
            until(lambda: len(nodes()) == len(names), "all pods are placed", timeout_s)
        except TimeoutError as error:
            late = [n for n in names if n not in self.placed()]
            error.add_note(
                f"{len(late)} pods, {late[:1]}: {self.why_pending(late[0]) if late else ''}"
            )
            raise
        return nodes()

    def until_pending(self, name: str, timeout_s: float = 60.0) -> str:
        """Wait until kube-scheduler says why it cannot place a pod, and return that."""
        return until(lambda: self.why_pending(name), f"{name} has a reason", timeout_s)

    def why_pending(self, name: str) -> str:
        """The message of the pod's PodScheduled condition while it is False."""
        found = condition(self.pods().get(name, {}), "PodScheduled")
        return str(found.get("message", "")) if found.get("status") == "False" else ""

    def notes(self, name: str) -> str:
        """The text of every Event on a pod."""
        path = f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events"
        events = self._api.items(path)
        return "\n".join(e.get("note", "") for e in events if e["regarding"]["name"] == name)

    def close(self) -> None:
        self._api.delete_pods(self.namespace)


class NewWorkload(Protocol):
    """Makes a workload for the first profile of a stack, or for the scheduler that is named."""

    def __call__(
        self, stack: Stack, pool: NodePool, scheduler_name: str | None = None
    ) -> Workload: ...


def create_priority_classes(api: Api) -> None:
    """Let pods ask for the priorities of these tests."""
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    api.create_all(path, ({"metadata": {"name": n}, "value": v} for n, v in PRIORITIES.items()))
