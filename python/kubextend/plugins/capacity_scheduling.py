"""CapacityScheduling: namespaces share resources by the ElasticQuota of each namespace.

A namespace never uses more than ``spec.max`` of its ElasticQuota. A namespace may use more than its
``spec.min`` while all namespaces with an ElasticQuota together use no more than the sum of their
``spec.min``: it borrows what others do not use.

Source: kubernetes-sigs/scheduler-plugins pkg/capacityscheduling
"""

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self, TypeAlias

from kubextend import core
from kubextend.errors import TruncatedObjectError, TruncatedPodError
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.handle import Handle
from kubextend.framework.informer import KubeObject
from kubextend.framework.status import Status

__all__ = ["ELASTIC_QUOTAS", "CapacityScheduling"]

ELASTIC_QUOTAS: Final = "scheduling.x-k8s.io/v1alpha1/elasticquotas"

# Where an ElasticQuota does not name one of these, the amount is 0, in ``max`` too.
_ALWAYS_LIMITED: Final = ("cpu", "memory", "ephemeral-storage")
_UNLIMITED: Final = sys.maxsize

_OVER_MAX = "namespace would use more than the max of its ElasticQuota"
_OVER_MIN = "no ElasticQuota has min left to lend"
_TWO_QUOTAS = "namespace has more than one ElasticQuota"
_UNBLOCKED_BY = {
    _OVER_MAX: "pods of the namespace that end, or a larger max",
    _OVER_MIN: "pods of any namespace with an ElasticQuota that end, or a larger min",
    _TWO_QUOTAS: "one ElasticQuota less in the namespace",
}
_READABLE = "an ElasticQuota that can be read"

_Amounts: TypeAlias = Mapping[str, int]
"""Amounts by resource: cpu in milli-CPUs, others in units."""


@dataclass(frozen=True, slots=True)
class _Quota:
    """The ElasticQuota of a namespace.

    Attributes:
        namespace: the namespace.
        min: what the namespace may use in any case.
        max: the most that the namespace may use; None: there is no limit.
    """

    namespace: str
    min: _Amounts
    max: _Amounts | None

    @classmethod
    def of(cls, quota: KubeObject) -> Self:
        """Read an ElasticQuota.

        Raises:
            ValueError: an amount is no quantity.
            TruncatedObjectError: the object is too large for kubextend to keep its amounts.
        """
        spec = quota.get("spec") or {}
        most = spec.get("max")
        return cls(
            quota["metadata"]["namespace"],
            _amounts(spec.get("min") or {}),
            None if most is None else _amounts(most),
        )

    def names(self) -> set[str]:
        """Return the resources that the ElasticQuota names."""
        return {*self.min, *(self.max or {})}

    def over_max(self, used: _Amounts, request: _Amounts) -> str:
        """Return a resource of which used and requested exceed ``max`` together; "" if none."""
        if self.max is None:
            return ""
        unnamed = dict.fromkeys(request, _UNLIMITED) | dict.fromkeys(_ALWAYS_LIMITED, 0)
        limits = {**unnamed, **self.max}
        checked = {*_ALWAYS_LIMITED, *request}
        return _first(r for r in checked if used.get(r, 0) + request.get(r, 0) > limits[r])


@dataclass(frozen=True, slots=True)
class _Quotas:
    """All ElasticQuotas.

    Attributes:
        objects: what the informer showed.
        of: the ElasticQuota of each namespace; of several, the first by name. One that cannot be
            read is left out.
        unclear: the Error for pods of each namespace with several ElasticQuotas, or with one that
            cannot be read.
        min: the sum of ``spec.min``.
        named: the resources that any ElasticQuota names. Of all others, none may be used at all if
            the sum of ``min`` is to suffice, so one of them decides as much as thousands.
    """

    objects: Sequence[KubeObject]
    of: Mapping[str, _Quota]
    unclear: Mapping[str, Status]
    min: _Amounts
    named: frozenset[str]

    @classmethod
    def read(cls, objects: Sequence[KubeObject]) -> Self:
        """Read all ElasticQuotas."""
        in_order = sorted(objects, key=lambda quota: str(quota["metadata"]["name"]), reverse=True)
        named = Counter(str(quota["metadata"]["namespace"]) for quota in objects)
        unclear = {
            namespace: Status.error(_TWO_QUOTAS, f"keep one in {namespace}")
            for namespace, number in named.items()
            if number > 1
        }
        of: dict[str, _Quota] = {}
        for each in in_order:
            namespace, name = each["metadata"]["namespace"], each["metadata"]["name"]
            try:
                of[namespace] = _Quota.of(each)
            except (ValueError, TruncatedObjectError) as error:
                where = f"{namespace}/{name}: {error!s:.200}"
                unclear[namespace] = Status.error(f"ElasticQuota cannot be read: {where}", where)
        resources = {*_ALWAYS_LIMITED}.union(*(quota.names() for quota in of.values()))
        least = _sum(quota.min for quota in of.values())
        return cls(objects, of, unclear, least, frozenset(resources))

    def limits(self, namespace: str) -> bool:
        """Return whether a namespace has an ElasticQuota, be it one that cannot be read."""
        return namespace in self.of or namespace in self.unclear


class CapacityScheduling:
    """Rejects pods beyond the max of their ElasticQuota, or beyond what others have left to lend.

    PreFilter decides before kube-scheduler chooses a node. Reserve decides again, because
    kube-scheduler asks about further pods before kubextend has bound the first one. The pods on
    nodes count, and those whose Binding is under way; a pod whose binding fails no longer counts.
    """

    name = "CapacityScheduling"
    needs_pods = True
    informers = (ELASTIC_QUOTAS,)

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._informer = handle.informer(ELASTIC_QUOTAS)
        self._informer.on_change(self._changed)
        self._known = _Quotas.read(())
        self._scheduler_name = ""

    def pre_filter(self, state: CycleState, pod: core.Pod, nodes: core.Nodes) -> Status | None:
        """Return a rejection if the pod would exceed a limit, with the nominated pods counted.

        Nominated pods of the pod's namespace count if their priority is at least the pod's; those
        of another namespace count if that namespace uses no more than its ``min``. With one whose
        requests are too large to be kept, the other namespace counts as using its ``min``.
        """
        del nodes
        self._scheduler_name = pod.scheduler_name
        return self._why_not(pod, self._handle.pods(state))

    def unblock(self, pod: core.Pod, node: core.NodeInfo | None) -> str:
        """Return what would let the pod's namespace use as much as the pod asks for."""
        status = self._why_not(pod, self._handle.pods()) if node is None else None
        if status is None:
            return ""
        return f"{_UNBLOCKED_BY.get(status.reason, _READABLE)}: {status.detail}"

    async def reserve(self, state: CycleState, pod: core.Pod, node_name: str) -> Status | None:
        """Return a rejection if the pod, which counts on its node already, exceeds a limit."""
        del state, node_name
        quotas, pods = self._quotas(), self._handle.pods()
        if pods is None or not quotas.limits(pod.namespace):
            return None
        nothing_more = dict.fromkeys(pod.requests, 0)
        return _verdict(quotas, pod, pods, nothing_more, nothing_more)

    async def unreserve(self, state: CycleState, pod: core.Pod, node_name: str) -> None:
        """Do nothing: kubextend counts a pod no more on its node when the binding has failed."""

    def _why_not(self, pod: core.Pod, pods: core.PodSnapshot | None) -> Status | None:
        quotas = self._quotas()
        if pods is None or not quotas.limits(pod.namespace):
            return None
        mine, everybodys = Counter(pod.requests), Counter(pod.requests)
        up_to_min: dict[str, _Amounts] = {}
        used_in: dict[str, _Amounts] = {}
        for other in pods.nominated_pods():
            quota = quotas.of.get(other.namespace)
            if quota is None or other.uid == pod.uid:
                continue
            if other.namespace != pod.namespace:
                used = used_in.get(other.namespace)
                if used is None:
                    used = used_in[other.namespace] = _used(pods, quota, quotas.named)
                if _over_min(used, quota.min):
                    continue
                try:
                    everybodys.update(other.requests)
                except TruncatedPodError:
                    up_to_min[other.namespace] = Counter(quota.min) - Counter(used)
            elif (other.priority or 0) >= (pod.priority or 0):
                mine.update(other.requests)
                everybodys.update(other.requests)
        return _verdict(quotas, pod, pods, mine, _sum((everybodys, *up_to_min.values())))

    def _quotas(self) -> _Quotas:
        """Return the ElasticQuotas; read them again only after a change."""
        objects = self._informer.list()
        known = self._known
        if known.objects != objects:
            known = self._known = _Quotas.read(objects)
        return known

    def _changed(self, before: KubeObject | None, now: KubeObject | None) -> None:
        """Make kube-scheduler retry unschedulable pods after an ElasticQuota has changed.

        A new ElasticQuota raises the sum of what all ElasticQuotas have as ``min``, so that other
        namespaces may borrow more.
        """
        quota = now or before
        if quota is None or (before and now and _spec(before) == _spec(now)):
            return
        of = {*self._quotas().of, quota["metadata"]["namespace"]}
        pods = self._handle.pending_pods()
        self._handle.activate(pod for pod in pods if pod.namespace in of and self._is_parked(pod))

    def _is_parked(self, pod: core.Pod) -> bool:
        is_ours = pod.scheduler_name == self._scheduler_name
        return is_ours and pod.scheduled_reason == "Unschedulable"


def _verdict(
    quotas: _Quotas, pod: core.Pod, pods: core.PodSnapshot, mine: _Amounts, everybodys: _Amounts
) -> Status | None:
    """Return a rejection if what is used and what is asked for exceed a limit.

    Args:
        quotas: all ElasticQuotas.
        pod: a pod of a namespace with an ElasticQuota.
        pods: the pods that use something.
        mine: what is asked for in the pod's namespace.
        everybodys: what is asked for in all namespaces with an ElasticQuota.
    """
    if pod.namespace in quotas.unclear:
        return quotas.unclear[pod.namespace]
    quota = quotas.of[pod.namespace]
    used = pods.requested_in(pod.namespace, quotas.named)
    if resource := quota.over_max(used, mine):
        asked = used.get(resource, 0) + mine.get(resource, 0)
        most = (quota.max or {}).get(resource, 0)
        return Status.unschedulable(_OVER_MAX, f"{resource} would be {asked} of {most}")
    others = (
        _used(pods, other, quotas.named) for other in quotas.of.values() if other is not quota
    )
    total = _sum((used, everybodys, *others))
    if resource := _over_min(total, quotas.min):
        detail = f"{resource} would be {total[resource]} of {quotas.min.get(resource, 0)}"
        return Status.unschedulable(_OVER_MIN, detail)
    return None


def _spec(quota: KubeObject) -> object:
    """Return the spec of an ElasticQuota; None if the ElasticQuota is too large to be kept."""
    try:
        return quota.get("spec")
    except TruncatedObjectError:
        return None


def _amounts(given: Mapping[str, Any]) -> _Amounts:
    return {name: core.amount(name, str(amount)) for name, amount in given.items()}


def _sum(parts: Iterable[_Amounts]) -> Counter[str]:
    total: Counter[str] = Counter()
    for part in parts:
        total.update(part)
    return total


def _first(resources: Iterable[str]) -> str:
    return min(resources, default="")


def _over_min(used: _Amounts, least: _Amounts) -> str:
    """Return a resource of which more is used than ``min`` says; "" if there is none."""
    return _first(resource for resource in used if used[resource] > least.get(resource, 0))


def _used(pods: core.PodSnapshot, quota: _Quota, named: frozenset[str]) -> _Amounts:
    """Return what the pods of another namespace use of the named resources and of one other.

    A tenant may make a pod whose requests are too large to be kept. Its namespace then counts as
    using its ``min``, so that no other namespace has to wait for the tenant.
    """
    try:
        return pods.requested_in(quota.namespace, named)
    except TruncatedPodError:
        return quota.min
