"""Creates PodGroups and their member pods, and waits for what kube-scheduler does with them.

A control plane serves the kind PodGroup only with the gates and the API of this module.
"""

from collections.abc import Mapping
from typing import Protocol

from .kubeapi import Api, NodePool, Object, condition, pod
from .stack import Stack
from .workload import Workload

GATES = "GenericWorkload=true"
APIS = "scheduling.k8s.io/v1beta1=true"


class PodGroups:
    """Creates PodGroups with members in the namespace of ``workload``, which knows single pods."""

    def __init__(self, api: Api, workload: Workload, pool: NodePool) -> None:
        self._api = api
        self._pool = pool
        self._path = f"/apis/scheduling.k8s.io/v1beta1/namespaces/{workload.namespace}/podgroups"
        self.workload = workload

    def declare(
        self,
        name: str,
        min_count: int,
        *,
        disruption_mode: str = "single",
        priority_class: str = "",
    ) -> Object:
        """Create a PodGroup without members.

        Args:
            name: the name of the group.
            min_count: the least number of members; 0: the policy ``basic`` has none.
            disruption_mode: ``single``, or ``all``: kube-scheduler evicts all members or none.
            priority_class: has to be that of the members.
        """
        policy: Object = {"gang": {"minCount": min_count}} if min_count else {"basic": {}}
        spec: Object = {"schedulingPolicy": policy, "disruptionMode": {disruption_mode: {}}}
        if priority_class:
            spec["priorityClassName"] = priority_class
        return self._api.call("POST", self._path, {"metadata": {"name": name}, "spec": spec})

    def join(
        self,
        name: str,
        count: int,
        labels: Mapping[str, str] | None = None,
        *,
        cpu: str = "10m",
        priority_class: str = "",
        first: int = 0,
    ) -> list[str]:
        """Create members of a group at the same time; return their names, numbered from first."""
        names = [f"{name}-{number:03}" for number in range(first, first + count)]
        scheduler, pool = self.workload.scheduler, self._pool.name
        like: Object = {"cpu": cpu, "priority_class": priority_class}
        like["schedulingGroup"] = {"podGroupName": name}
        members = [pod(each, scheduler, pool, labels, **like) for each in names]
        self._api.create_pods(self.workload.namespace, members)
        return names

    def gang(
        self,
        name: str,
        size: int,
        labels: Mapping[str, str] | None = None,
        *,
        cpu: str = "10m",
        disruption_mode: str = "single",
        priority_class: str = "",
    ) -> list[str]:
        """Create a group that needs all of its members, and the members; return their names."""
        self.declare(name, size, disruption_mode=disruption_mode, priority_class=priority_class)
        return self.join(name, size, labels, cpu=cpu, priority_class=priority_class)

    def scheduled(self, name: str) -> Object:
        """Return the group's condition PodGroupInitiallyScheduled; empty: it has none yet."""
        group = self._api.call("GET", f"{self._path}/{name}")
        return condition(group, "PodGroupInitiallyScheduled")


class NewPodGroups(Protocol):
    def __call__(self, stack: Stack, pool: NodePool) -> PodGroups: ...
