"""The attacks that a tenant can make with pods of its own two namespaces.

A tenant may create and delete pods there, and nothing else. The attack with unschedulable pods has
one of the namespaces, since the queue soon slows down such a namespace.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import httpx
from tests.e2e.kubeapi import Api, Object
from tests.e2e.queued_pods import queued_pod

TENANT, OTHER_OF_TENANT = "tenant", "tenant-rejected"
_GROUP: Final = "scheduling.x-k8s.io/pod-group"
_MINIMUM: Final = "pod-group.scheduling.sigs.k8s.io/min-available"
# The shipped profile lets a pod with this label onto nodes with RDMA alone.
_NOT_HERE: Final = "high-comm"
_NOWHERE: Final = {"example.com/no-such-node": "true"}


@dataclass
class Tenant:
    """The tenant while it makes one kind of attack, and the counts of that attack.

    Attributes:
        api: a client with the account of the tenant.
        pool: the name of the node pool that the pods select.
        over: set when the attack is to end.
        seconds: how long the attack lasts; the number of pods is scaled by ``seconds`` / 600.
        namespace: the namespace of the attack's pods.
        meant: how many pods the attack creates if no call takes time.
        created: how many pods the attack has created.
        errors: the errors of calls of the attack, counted by text.
    """

    api: Api
    pool: str
    over: threading.Event
    seconds: float
    namespace: str = TENANT
    meant: float = 0.0
    created: int = 0
    errors: Counter[str] = field(default_factory=Counter)

    def create(self, pod: Object) -> None:
        """Create a pod and count it, or its error."""
        try:
            self.api.call("POST", f"/api/v1/namespaces/{self.namespace}/pods", pod)
        except httpx.HTTPError as error:
            self.errors[str(error)[:60]] += 1
        else:
            self.created += 1

    def delete(self, name: str) -> None:
        """Delete a pod, if it exists."""
        with suppress(httpx.HTTPError):
            self.api.delete_pod(self.namespace, name)

    def some(self, count: int) -> int:
        """Return the number of pods scaled to the time of the attack: all in ten minutes."""
        return max(1, round(count * self.seconds / 600))

    def pod(self, name: str, group: str = "", minimum: int = 0, **spec: object) -> Object:
        """Make a pod for the scheduler with the queue, in a pod group if one is named."""
        made = queued_pod(name, self.pool, **spec)  # type: ignore[arg-type]
        if group:
            made["metadata"]["labels"] = {_GROUP: group, _MINIMUM: str(minimum)}
        return made

    def every(self, seconds: float, count: int, pods: int = 1) -> Iterator[int]:
        """Yield numbers, one after each pause of ``seconds``, until the attack is over.

        Args:
            seconds: the pause before each number.
            count: how many numbers at most.
            pods: how many pods the attack creates for each number.
        """
        self.meant = pods * min(count, self.seconds // seconds)
        for number in range(count):
            if self.over.wait(seconds):
                return
            yield number


Attack: TypeAlias = Callable[[Tenant], None]


def tolerant(tenant: Tenant) -> None:
    """Attack: create pods with 14,000 tolerations, for kubextend's scheduler and for none."""
    for number in tenant.every(1.5, tenant.some(200)):
        keys = (f"example.com/t{number}-{each}" for each in range(14_000))
        tolerations = [{"key": key, "operator": "Exists"} for key in keys]
        pod = tenant.pod(f"tolerant-{number}", tolerations=tolerations, nodeSelector=_NOWHERE)
        if number % 2:
            pod["spec"]["schedulerName"] = "nobody"
        tenant.create(pod)


def annotated(tenant: Tenant) -> None:
    """Attack: create pods with 250 KB of annotations."""
    for number in tenant.every(0.4, tenant.some(1100)):
        pod = tenant.pod(f"annotated-{number}", schedulerName="nobody")
        pod["metadata"]["annotations"] = {"example.com/a": f"{number:08}" * 31_000}
        tenant.create(pod)


def held(tenant: Tenant) -> None:
    """Attack: create gangs of 101 pods, of which Permit holds 100, as one can never run."""
    for gang in tenant.every(20.0, tenant.some(11), 101):
        for number in range(101):
            where = {"nodeSelector": _NOWHERE} if number == 0 else {}
            tenant.create(tenant.pod(f"held-{gang}-{number}", f"held-{gang}", 101, **where))
            if tenant.over.wait(0.05):
                return


def paired(tenant: Tenant) -> None:
    """Attack: create gangs of two of which one can never run or has another scheduler."""
    for pair in tenant.every(8.0, 70, 2):
        group = f"pair-{pair}"
        tenant.create(tenant.pod(f"{group}-a", group, 2))
        other = {"schedulerName": "nobody"} if pair % 2 else {"nodeSelector": _NOWHERE}
        tenant.create(tenant.pod(f"{group}-b", group, 2, **other))
        if pair > 10:
            tenant.delete(f"pair-{pair - 10}-a")
            tenant.delete(f"pair-{pair - 10}-b")


def ahead(tenant: Tenant) -> None:
    """Attack: create pods of the highest priority that can never run, first in the queue."""
    critical = "system-node-critical"
    for number in tenant.every(6.0, 100):
        pod = tenant.pod(f"ahead-{number}", priority_class=critical, nodeSelector=_NOWHERE)
        tenant.create(pod)
        if number > 40:
            tenant.delete(f"ahead-{number - 40}")


def turned_away(tenant: Tenant) -> None:
    """Attack: create thousands of pods of a gang that is never complete."""
    for number in tenant.every(0.1, tenant.some(3200)):
        tenant.create(tenant.pod(f"away-{number}", "away", 50_000))


def rejected(tenant: Tenant) -> None:
    """Attack: create pods that a plugin rejects on every node, so that each event wakes all."""
    for number in tenant.every(0.25, tenant.some(2000)):
        pod = tenant.pod(f"rejected-{number}")
        pod["metadata"]["labels"] = {_NOT_HERE: "true"}
        tenant.create(pod)


ATTACKS: Final[tuple[Attack, ...]] = (
    tolerant,
    annotated,
    held,
    paired,
    ahead,
    turned_away,
    rejected,
)
NAMESPACES: Final = dict.fromkeys(ATTACKS, TENANT) | {rejected: OTHER_OF_TENANT}
