"""The attacks that a tenant can make with pods of its own two namespaces.

A tenant may create, patch and delete pods there, and nothing else. The attack with unschedulable
pods has one of the namespaces, since the queue soon slows down such a namespace.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import httpx
from tests.e2e.kubeapi import MERGE, Api, Object
from tests.e2e.queue_policies import GATE
from tests.e2e.queued_pods import queued_pod

TENANT, OTHER_OF_TENANT = "tenant", "tenant-rejected"
_GROUP: Final = "scheduling.x-k8s.io/pod-group"
_MINIMUM: Final = "pod-group.scheduling.sigs.k8s.io/min-available"
# The shipped profile lets a pod with this label onto nodes with RDMA alone.
_NOT_HERE: Final = "high-comm"
_NOWHERE: Final = {"example.com/no-such-node": "true"}
# The longest argument that a pod of this kind had when it could be created and not patched.
_LONGEST_ARGUMENT: Final = 1_572_000
_FORGED: Final = "kubextend-scheduler\n1         kube-system/forged  0\x1b[31m"


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
        unpatchable: by pod name, when each pod was created that is too large for any patch.
        ungated: how often the tenant removed the queue's gate.
        refused: how often the tenant was forbidden to remove the gate.
        errors: the errors of calls of the attack, counted by text.
    """

    api: Api
    pool: str
    over: threading.Event
    seconds: float
    namespace: str = TENANT
    meant: float = 0.0
    created: int = 0
    unpatchable: dict[str, float] = field(default_factory=dict)
    ungated: int = 0
    refused: int = 0
    errors: Counter[str] = field(default_factory=Counter)

    def create(self, pod: Object) -> bool:
        """Create a pod and count it; return whether the pod was created."""
        made = self.can_create(pod)
        self.created += made
        return made

    def can_create(self, pod: Object) -> bool:
        """Create a pod without counting it; return whether the pod was created."""
        try:
            self.api.call("POST", f"/api/v1/namespaces/{self.namespace}/pods", pod)
        except httpx.HTTPError as error:
            self.errors[str(error)[:60]] += 1
            return False
        return True

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


def unpatchable(tenant: Tenant) -> None:
    """Attack: create pods so large that etcd takes them, but no patch of them."""
    length = _longest_argument(tenant)
    for number in tenant.every(15.0, 40):
        name = _long_name(f"edge-{number}")
        if tenant.create(_edge_pod(tenant, name, length)):
            tenant.unpatchable[name] = time.time()


def _longest_argument(tenant: Tenant) -> int:
    """Return the longest argument with which a pod can be created, found by trial."""
    fits, too_long = _LONGEST_ARGUMENT - 20_000, _LONGEST_ARGUMENT + 2_000
    name = _long_name("edge-tried")
    while too_long - fits > 8:
        middle = (fits + too_long) // 2
        if tenant.can_create(_edge_pod(tenant, name, middle)):
            tenant.delete(name)
            fits = middle
        else:
            too_long = middle
    return fits


def _long_name(start: str) -> str:
    return start + "x" * (253 - len(start))


def _edge_pod(tenant: Tenant, name: str, length: int) -> Object:
    pod = tenant.pod(name)
    pod["metadata"]["managedFields"] = [{}]
    pod["spec"]["containers"][0]["args"] = ["x" * length]
    return pod


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


def ungating(tenant: Tenant) -> None:
    """Attack: remove the queue's gate from own pods, which another gate still holds."""
    other = [{"name": "example.com/other"}]
    for number in tenant.every(2.0, 300):
        name = f"ungating-{number}"
        if not tenant.create(tenant.pod(name, schedulingGates=other)):
            continue
        patch = {"spec": {"schedulingGates": other}}
        try:
            tenant.api.call("PATCH", f"/api/v1/namespaces/{TENANT}/pods/{name}", patch, MERGE)
        except httpx.HTTPStatusError as refusal:
            tenant.refused += refusal.response.status_code == httpx.codes.FORBIDDEN
        else:
            tenant.ungated += 1
        if number > 50:
            tenant.delete(f"ungating-{number - 50}")


def turned_away(tenant: Tenant) -> None:
    """Attack: create thousands of pods of a gang that is never complete."""
    for number in tenant.every(0.1, tenant.some(3200)):
        tenant.create(tenant.pod(f"away-{number}", "away", 50_000))


def printed(tenant: Tenant) -> None:
    """Attack: create pods whose scheduler name forges a row in printed tables."""
    for number in tenant.every(20.0, 20):
        gates = [{"name": GATE}]
        tenant.create(tenant.pod(f"printed-{number}", schedulerName=_FORGED, schedulingGates=gates))


def rejected(tenant: Tenant) -> None:
    """Attack: create pods that a plugin rejects on every node, so that each event wakes all."""
    for number in tenant.every(0.25, tenant.some(2000)):
        pod = tenant.pod(f"rejected-{number}")
        pod["metadata"]["labels"] = {_NOT_HERE: "true"}
        tenant.create(pod)


ATTACKS: Final[tuple[Attack, ...]] = (
    *(unpatchable, tolerant, annotated, held, paired),
    *(ahead, ungating, turned_away, printed, rejected),
)
NAMESPACES: Final = dict.fromkeys(ATTACKS, TENANT) | {rejected: OTHER_OF_TENANT}
