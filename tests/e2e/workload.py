"""The pods of one test, in a namespace of their own."""

import datetime as dt
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
        self._scheduler = scheduler
        self.namespace = api.create_namespace(namespace)

    def create(
        self,
        prefix: str,
        count: int,
        labels: Mapping[str, str] | None = None,
        *,
        cpu: str = "10m",
        priority_class: str = "",
    ) -> list[str]:
        """Create pods at once and return their names."""
        names = [f"{prefix}-{i:02}" for i in range(count)]
        pool = self._pool.name
        self._api.create_pods(
            self.namespace,
            [
                pod(n, self._scheduler, pool, labels, cpu=cpu, priority_class=priority_class)
                for n in names
            ],
        )
        return names

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

    def until_placed(self, names: list[str], timeout_s: float = 30.0) -> dict[str, str]:
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

    def until_pending(self, name: str, timeout_s: float = 30.0) -> str:
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

    def waited_s(self, name: str) -> float:
        """Seconds from a pod's creation until it was placed, as the API's whole seconds say."""
        found = self.pods()[name]
        placed = condition(found, "PodScheduled")
        assert placed["status"] == "True", found
        return (
            _instant(placed["lastTransitionTime"])
            - _instant(found["metadata"]["creationTimestamp"])
        ).total_seconds()

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


def _instant(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text)
