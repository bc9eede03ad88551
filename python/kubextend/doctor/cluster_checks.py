"""Checks of the cluster: rights, clock, Leases, gates, names of schedulers, numbers of nodes."""

import difflib
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

from prometheus_client import CollectorRegistry

from kubextend import cluster, queue_controller
from kubextend.admission.differences import Difference, Found, differences
from kubextend.admission.policies import LABEL, policies
from kubextend.cluster import LeaseName
from kubextend.cluster.api_call import NOT_FOUND
from kubextend.doctor.examined import SAME_KUBECONFIG, Examined
from kubextend.doctor.finding import Problem, error, skipped, warning
from kubextend.errors import ClusterError
from kubextend.framework.handle import NO_CLUSTER, Handle
from kubextend.kube_scheduler.compare import scheduler_lease, scheduler_names
from kubextend.profile import WaitingPods
from kubextend.prometheus.args import PrometheusArgs
from kubextend.prometheus.source import Source
from kubextend.prometheus.sources import Sources
from kubextend.rbac import needed_rights

__all__ = [
    "admission_policies",
    "api_reachable",
    "clock",
    "gates",
    "leases",
    "metric_sources",
    "rights_missing",
    "scheduler_names_of_pods",
]

_CLOCKS_DIFFER: Final = timedelta(seconds=5)
_GATED_LONG: Final = timedelta(hours=1)
_MOST_NAMED: Final = 5
# Users choose the names of gates and schedulers; those that most pods have are told.
_MOST_PROBLEMS: Final = 20
_ALIKE: Final = 0.8
_DEFAULT_SCHEDULER: Final = "default-scheduler"


def api_reachable(examined: Examined) -> Iterator[Problem]:
    """Ask the Kubernetes API with kubextend's own credentials."""
    if examined.own is None:
        yield skipped("the configuration has no section `cluster`", SAME_KUBECONFIG)
        return
    try:
        cluster.server_version(examined.own)
    except ClusterError as why:
        yield error(f"no answer: {why}", "look at cluster.kubeconfig and at the network")


def clock(examined: Examined) -> Iterator[Problem]:
    """Compare this machine's clock with that of kube-apiserver."""
    if examined.api is None:
        yield skipped("there is no access to the Kubernetes API")
        return
    # The API's time has whole seconds, and lies between the two looks.
    before = datetime.now(UTC)
    at = cluster.api_time(examined.api)
    after = datetime.now(UTC)
    early, late = before - at - timedelta(seconds=1), at - after
    if max(early, late) > _CLOCKS_DIFFER:
        seconds = max(early, late).total_seconds()
        message = f"this machine's clock differs from kube-apiserver's by {seconds:.0f} s"
        yield error(message, "set the clocks by NTP: certificates and tokens depend on them")


def admission_policies(examined: Examined) -> Iterator[Problem]:
    """Compare the policies that the cluster has with those of the compiled rules."""
    if examined.rules is None:
        yield skipped("no rule counts as compiled", "give --with-admission where rules are")
        return
    if examined.api is None:
        yield skipped("there is no access to the Kubernetes API", "give --kubeconfig")
        return
    try:
        installed = cluster.list_admission(examined.api, LABEL)
    except ClusterError as why:
        if why.status == NOT_FOUND and examined.rules:
            yield error(
                str(why), "leave --with-admission out: kube-scheduler has to call kubextend"
            )
        elif why.status != NOT_FOUND:
            message = f"the policies cannot be listed: {why}"
            yield skipped(message, "give --kubeconfig of somebody who may list them")
        return
    for difference in differences(policies(examined.rules), installed):
        yield _policy_problem(difference)


def rights_missing(examined: Examined) -> Iterator[Problem]:
    """Ask for each right that the configuration needs whether kubextend has it."""
    if examined.own is None:
        yield skipped("the configuration has no section `cluster`", SAME_KUBECONFIG)
        return
    needed = needed_rights(examined.config, examined.own_namespace)
    for right in cluster.missing_rights(examined.own, needed):
        hint = f"apply what `kubextend check --rbac` prints; `kubectl auth can-i {right}` shows it"
        yield error(f"kubextend may not {right}", hint)


def leases(examined: Examined) -> Iterator[Problem]:
    """Look whether somebody holds each Lease that the configurations name."""
    if examined.api is None:
        yield skipped("there is no access to the Kubernetes API")
        return
    for lease, consequence in _leases_of(examined):
        try:
            holder = cluster.lease_holder(examined.api, lease)
        except ClusterError as why:
            message = f"the Lease {lease} cannot be read: {why}"
            yield skipped(message, "give --kubeconfig of somebody who may read it")
            continue
        if not holder:
            message = f"nobody holds the Lease {lease}, so {consequence}"
            yield error(message, "look whether the replicas run, and at their logs")


def gates(examined: Examined) -> Iterator[Problem]:
    """Look for pods with a scheduling gate that nobody removes."""
    config = examined.config
    queue_gate = config.queue.gate
    queued = {profile.scheduler_name for profile in config.profiles} if config.queues else set()
    unreleased: Counter[str] = Counter()
    foreign: Counter[str] = Counter()
    for pod in examined.pending_pods:
        for gate in pod.scheduling_gates:
            if gate == queue_gate:
                unreleased[pod.scheduler_name] += pod.scheduler_name not in queued
            elif _alike(gate, {queue_gate}) or _is_old(pod.creation_timestamp):
                foreign[gate] += 1
    for name, number in (+unreleased).most_common(_MOST_PROBLEMS):
        message = f"{number} pods of {name} have the gate {queue_gate}, and nobody removes it"
        hint = f"give {name} a queueSort plugin here, or remove the gate by `kubextend ungate`"
        yield error(message, hint)
    for gate, number in foreign.most_common(_MOST_PROBLEMS):
        message = f"{number} pods keep the gate {gate}"
        hint = f"look at the controller that removes it; this queue removes {queue_gate} alone"
        yield warning(message, hint)


def scheduler_names_of_pods(examined: Examined) -> Iterator[Problem]:
    """Look for pending pods whose spec.schedulerName is nearly that of a profile."""
    ours = {profile.scheduler_name for profile in examined.config.profiles}
    known = {*ours, *examined.config.pass_through, _DEFAULT_SCHEDULER}
    if examined.scheduler is not None:
        known |= scheduler_names(examined.scheduler)
    names = Counter(pod.scheduler_name for pod in examined.pending_pods)
    misspelt = Counter({name: names[name] for name in names.keys() - known if _alike(name, ours)})
    for name, number in misspelt.most_common(_MOST_PROBLEMS):
        message = f"{number} pods wait for the scheduler {name}, which no profile names"
        yield error(message, f"was {_alike(name, ours)} meant?")


def metric_sources(examined: Examined) -> Iterator[Problem]:
    """Ask each Prometheus once, and look whether its series name nodes of the cluster."""
    sources = list(_sources(examined))
    if not sources:
        return
    nodes = frozenset() if examined.api is None else cluster.list_node_names(examined.api)
    for plugin, source in sources:
        vector = source.latest(float("inf")) if source.refresh() else None
        if vector is None:
            message = f"{plugin} gets no answer from {source.query.address}"
            yield error(message, "look at prometheusAddress, and at the log of this command")
            continue
        known = vector.by_node.keys() & nodes
        label = source.query.label.key
        hint = f"set nodeLabel and nodePattern so that the label, now {label}, yields node names"
        if not known:
            found = _some(vector.by_node) if vector.by_node else "no series"
            yield error(f"no series of {plugin} names a node of the cluster: {found}", hint)
        elif nodes - vector.by_node.keys():
            missing = _some(nodes - vector.by_node.keys())
            yield warning(f"{plugin} has no number for the nodes {missing}", hint)


def _policy_problem(difference: Difference) -> Problem:
    found = difference.found
    if found is Found.MISSING:
        consequence = "so no rule is put on pods, or kept on them"
        hint = "apply what `kubextend admission` prints for this configuration"
        return error(f"{difference}, {consequence}", hint)
    if found is Found.CHANGED:
        hint = "find out who changed it, and apply what `kubextend admission` prints again"
        return error(str(difference), hint)
    hint = (
        f"`kubectl delete {difference.name}`, unless another kubextend's configuration has the rule"
    )
    return warning(str(difference), hint)


def _leases_of(examined: Examined) -> Iterator[tuple[LeaseName, str]]:
    """Yield the Leases that somebody has to hold, and what does not happen otherwise."""
    config = examined.config
    if (lease := config.server.lease) is not None and examined.needs_kubextend:
        namespace = lease.namespace or examined.own_namespace
        yield LeaseName(namespace, lease.name), "no replica of kubextend decides"
    elif config.queues:
        yield queue_controller.lease_name(config), "no pod of the queue is released"
    if examined.scheduler is not None and (name := scheduler_lease(examined.scheduler)):
        yield LeaseName(*name), "no kube-scheduler with this file places pods"


def _sources(examined: Examined) -> Iterator[tuple[str, Source]]:
    """Yield the name of each plugin that asks a Prometheus, and its source."""
    config = examined.config
    handle = Handle(
        WaitingPods(), NO_CLUSTER, configuration=config, common_metrics=CollectorRegistry()
    )
    for profile in config.profiles:
        for name, args in profile.args.items():
            if isinstance(args, PrometheusArgs):
                config.plugins[name].make(args, handle)
    yield from Sources.of(handle)


def _is_old(created: str) -> bool:
    try:
        return datetime.now(UTC) - datetime.fromisoformat(created) > _GATED_LONG
    except ValueError:
        return False


def _alike(name: str, names: Iterable[str]) -> str:
    """Return the one of the names that a misspelt name may mean; "" if none."""
    close = difflib.get_close_matches(name, sorted(names), 1, _ALIKE)
    return close[0] if close else ""


def _some(names: Iterable[str]) -> str:
    """Return up to five of the names, and how many there are besides."""
    ordered = sorted(names)
    more = len(ordered) - _MOST_NAMED
    return ", ".join(ordered[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
