"""Creates pods that wait in the queue, and reads the order in which the pods were bound."""

import random
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .kubeapi import STRATEGIC, Api, NodePool, Object, container, gated, placed_on, pod
from .queue_policies import GATE, GATE_POLICY, QUEUED, SCHEDULER, gates
from .versions import is_served
from .workbench import until
from .workload import PRIORITIES

Key = Callable[[Object], Any]
CLASSES = ("", *PRIORITIES)
_SMALL = {"cpu": "10m", "memory": "1Mi"}
RESOURCES: dict[str, Object] = {
    "Guaranteed": {"requests": _SMALL, "limits": _SMALL},
    "Burstable": {"requests": {"cpu": "10m"}},
    "BestEffort": {},
}
RANKS = ("Guaranteed", "Burstable", "BestEffort")
EXPECTED_SECONDS = "example.com/expected-seconds"


def queued_pod(
    name: str, pool_name: str, *, qos: str = "Burstable", priority_class: str = "", **spec: Any
) -> Object:
    """Make a pod with this QoS class and priority class, for the scheduler that has a queue."""
    spec = {"containers": [container(**RESOURCES[qos])], **spec}
    return pod(name, SCHEDULER, pool_name, priority_class=priority_class, **spec)


def brought_gates() -> list[str]:
    """Return the gates that a queued pod has to bring, as no policy puts them on the pod."""
    return [] if is_served(GATE_POLICY) else [GATE]


def mixed_pods(count: int, pool: str, seed: int) -> list[Object]:
    """Make pods of all priority and QoS classes, with different expected seconds, shuffled."""
    shuffled = random.Random(seed)
    pods = []
    for i in range(count):
        name = f"pod-{shuffled.randrange(16**6):06x}-{i:04}"
        qos, above = RANKS[i % len(RANKS)], CLASSES[i // len(RANKS) % len(CLASSES)]
        pods.append(queued_pod(name, pool, qos=qos, priority_class=above))
    for each in pods:
        seconds = shuffled.choice([None, "2.5", "30", "60", "600"])
        if seconds is not None:
            each["metadata"]["annotations"] = {EXPECTED_SECONDS: seconds}
    shuffled.shuffle(pods)
    return pods


def by_priority(pod: Object) -> tuple[int, str]:
    """Return PrioritySort's sort key of a pod: the higher priority first, then the older pod.

    Source: kubernetes v1.36 pkg/scheduler/framework/plugins/queuesort/priority_sort.go Less
    """
    return -pod["spec"].get("priority", 0), pod["metadata"]["creationTimestamp"]


def by_qos(pod: Object) -> tuple[int, int, str]:
    """Return QOSSort's sort key of a pod, with the QoS class that kube-apiserver computes.

    Source: scheduler-plugins pkg/qos/queue_sort.go Less
    """
    priority, created = by_priority(pod)
    return priority, RANKS.index(pod["status"]["qosClass"]), created


def by_work(pod: Object) -> tuple[int, float, str]:
    """Return ShortestFirst's sort key of a pod; a pod without expected seconds comes last."""
    priority, created = by_priority(pod)
    annotations = pod["metadata"].get("annotations", {})
    return priority, float(annotations.get(EXPECTED_SECONDS, "inf")), created


class QueuedPods:
    """The pods of one namespace, in which every pod gets the queue's gate."""

    def __init__(self, api: Api, namespace: str, pool: NodePool) -> None:
        self._api = api
        self.namespace = api.create_namespace(namespace, QUEUED)
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self.pool = pool.name

    def create(self, pods: Iterable[Object]) -> dict[str, Object]:
        """Create pods and return the created pods by name."""
        brought = brought_gates()
        made = self._api.create_pods(self.namespace, (gated(each, *brought) for each in pods))
        assert all(gates(pod)[-1:] == [GATE] for pod in made)
        return {pod["metadata"]["name"]: pod for pod in made}

    def create_mixed(self, count: int, seed: int, batches: int = 1) -> dict[str, Object]:
        """Create the pods of ``mixed_pods`` in batches, with a second between two batches."""
        pods = mixed_pods(count, self.pool, seed)
        made = self.create(pods[::batches])
        for batch in range(1, batches):
            # The creation time of a pod is in whole seconds.
            time.sleep(1.0)
            made |= self.create(pods[batch::batches])
        return made

    def all(self) -> dict[str, Object]:
        return {pod["metadata"]["name"]: pod for pod in self._api.pods(self.namespace)}

    def placed(self) -> dict[str, str]:
        return placed_on(list(self.all().values()))

    def gated(self) -> set[str]:
        return {name for name, pod in self.all().items() if GATE in gates(pod)}

    def until_placed(self, count: int, timeout_s: float = 60.0) -> None:
        what = f"{count} pods are placed"
        until(lambda: len(self.placed()) >= count, what, timeout_s, every_s=0.2)

    def bound_order(self) -> list[str]:
        """Return the names of bound pods in the order of binding, by their resourceVersion.

        Nothing changes a pod after its binding, since there is no kubelet.
        """
        bound = [pod for pod in self.all().values() if pod["spec"].get("nodeName")]
        bound.sort(key=lambda pod: int(pod["metadata"]["resourceVersion"]))
        return [pod["metadata"]["name"] for pod in bound]

    def run_one_at_a_time(self, count: int, timeout_s: float = 60.0) -> list[str]:
        """End each pod as soon as it is bound, as on a node that takes one pod at a time.

        Returns: the names of the pods in the order of binding.
        """
        order: list[str] = []

        def running() -> str | None:
            return next((name for name in self._running() if name not in order), None)

        while len(order) < count:
            name = until(running, f"pod {len(order) + 1} is bound", timeout_s, every_s=0.01)
            order.append(name)
            if len(order) % 2:
                self.delete(name)
            else:
                self.finish(name)
        return order

    def delete(self, name: str) -> None:
        self._api.delete_pod(self.namespace, name)

    def finish(self, name: str) -> None:
        status = {"status": {"phase": "Succeeded"}}
        self._api.call("PATCH", f"{self._path}/{name}/status", status, STRATEGIC)

    def close(self) -> None:
        self._api.delete_pods(self.namespace)

    def _running(self) -> list[str]:
        selector = "spec.nodeName!=,status.phase=Pending"
        pods = self._api.pods(self.namespace, fieldSelector=selector)
        return [pod["metadata"]["name"] for pod in pods]


def remove_gate(api: Api, namespace: str, name: str, gate: str) -> None:
    """Remove one scheduling gate of a pod, and leave its other gates."""
    patch = {"spec": {"schedulingGates": [{"$patch": "delete", "name": gate}]}}
    api.call("PATCH", f"/api/v1/namespaces/{namespace}/pods/{name}", patch, STRATEGIC)


def in_order(order: Sequence[str], pods: dict[str, Object], key: Key) -> bool:
    """Return whether the pods are in the order of their keys; equal keys may be in any order."""
    keys = [key(pods[name]) for name in order]
    return keys == sorted(keys)
