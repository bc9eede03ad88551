"""Checks a KubeSchedulerConfiguration as kube-scheduler does before it starts.

``file`` has decoded the file. What only kube-scheduler's machine knows is not checked:
files, addresses and feature gates.

Source: kubernetes v1.37 pkg/scheduler/apis/config/validation/validation.go,
pkg/scheduler/framework/runtime/framework.go NewFramework, pkg/scheduler/scheduler.go
buildExtenders, client-go v0.37 tools/leaderelection/leaderelection.go NewLeaderElector
"""

import json
from collections.abc import Collection
from types import SimpleNamespace
from typing import Final

from pydantic import JsonValue, ValidationError

from kubextend.config.checks import is_extended_resource
from kubextend.config.duration import Duration
from kubextend.config.expansion import Catalog, expand
from kubextend.config.issues import Findings, suggestion
from kubextend.config.loader import without_nulls
from kubextend.config.model import Plugin, PluginSet
from kubextend.config.profiles import check_queue_sort, check_scheduler_names
from kubextend.config.scheduler_plugins import EXTENDED_POINTS, IN_TREE_PLUGINS
from kubextend.framework.imports import PluginUnavailableError
from kubextend.framework.known_plugins import KnownPlugins
from kubextend.kube_scheduler.file import (
    DOES_NOT_START,
    AllPlugins,
    Election,
    ExtenderEntry,
    ProfilePluginConfig,
    SchedulerConfiguration,
    refusals_of,
)
from kubextend.kube_scheduler.plugin_args import ARGS
from kubextend.kube_scheduler.versions import BETA_API_VERSIONS, NEWEST

__all__ = ["validate"]

# Source: client-go v0.37 tools/leaderelection/leaderelection.go JitterFactor
_JITTER: Final = 1.2
# Source: validation.go invalidPluginsByVersion; other unknown names may have arguments.
_REMOVED: Final = ("AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits")


def validate(file: SchedulerConfiguration, ours: Collection[str], findings: Findings) -> None:
    """Add an issue for each reason why kube-scheduler does not start with a file.

    Args:
        file: the decoded file. Of v1beta1 to v1beta3 the plugins and their arguments are not
            checked.
        ours: the names of the plugins that kubextend runs.
        findings: gets the issues.
    """
    initial, most = file.pod_initial_backoff_seconds, file.pod_max_backoff_seconds
    if most < initial:
        message = f"must be at least podInitialBackoffSeconds, {initial}"
        _refuse(findings, "podMaxBackoffSeconds", message, most)
    if file.leader_election.leader_elect:
        _check_election(file.leader_election, findings)
    check_scheduler_names([profile.scheduler_name for profile in file.profiles], findings)
    _check_extenders(file.extenders, findings)
    check_queue_sort([(each.scheduler_name, each.plugins) for each in file.profiles], findings)
    catalog = None if file.api_version in BETA_API_VERSIONS else _Catalog(ours)
    for index, profile in enumerate(file.profiles):
        at = f"profiles[{index}]"
        if catalog is not None:
            _check_plugins(profile.plugins, f"{at}.plugins", catalog, findings)
            _check_args(profile.plugin_config, f"{at}.pluginConfig", file.api_version, findings)


class _Catalog(Catalog):
    """Looks up the plugins that an unmodified kube-scheduler has."""

    def __init__(self, ours: Collection[str]) -> None:
        known = {
            name: SimpleNamespace(extension_points=points)
            for name, points in EXTENDED_POINTS.items()
        }
        super().__init__(KnownPlugins.of(known, "kube-scheduler"))
        self._ours = ours

    def why_not(self, name: str, point: str) -> PluginUnavailableError:
        del point
        hint = suggestion(name, EXTENDED_POINTS, "plugins of kube-scheduler")
        if name in self._ours:
            hint = "take it out here: kubextend runs it, and extenders calls kubextend"
        elif name in IN_TREE_PLUGINS:
            hint = f"kube-scheduler {NEWEST} does not have it any more: take it out"
        message = "kube-scheduler has no plugin of this name and does not start"
        return PluginUnavailableError(message, hint)


def _check_election(election: Election, findings: Findings) -> None:
    at = "leaderElection"
    if election.resource_lock not in {"", "leases"}:
        _refuse(findings, f"{at}.resourceLock", "must be leases", election.resource_lock)
    lease, renew, retry = (
        given if given.nanoseconds else Duration.parse(default)
        for given, default in (
            (election.lease_duration, "15s"),
            (election.renew_deadline, "10s"),
            (election.retry_period, "2s"),
        )
    )
    least = max(Duration(0), Duration(int(_JITTER * retry.nanoseconds)))
    for field, found, bound, why in (
        ("retryPeriod", retry, Duration(0), ""),
        ("renewDeadline", renew, least, f", {_JITTER} times retryPeriod"),
        ("leaseDuration", lease, renew, ", the renewDeadline"),
    ):
        if found <= bound:
            _refuse(findings, f"{at}.{field}", f"must be more than {bound}{why}", str(found))


def _check_extenders(entries: Collection[ExtenderEntry], findings: Findings) -> None:
    managed: set[str] = set()
    binders = 0
    for index, entry in enumerate(entries):
        at = f"extenders[{index}]"
        if entry.prioritize_verb and entry.weight <= 0:
            message = "must be more than 0 beside prioritizeVerb"
            _refuse(findings, f"{at}.weight", message, entry.weight, "weight: 1")
        binders += bool(entry.bind_verb)
        if entry.bind_verb and binders > 1:
            message = "another extender has a bindVerb, and only one can bind"
            _refuse(findings, f"{at}.bindVerb", message, entry.bind_verb, "keep one")
        if entry.tls_config.insecure and entry.tls_config.ca_file + entry.tls_config.ca_data:
            message = "excludes caFile and caData"
            _refuse(findings, f"{at}.tlsConfig.insecure", message, found=True)
        for place, resource in enumerate(entry.managed_resources):
            where = f"{at}.managedResources[{place}].name"
            if not is_extended_resource(resource.name):
                message = "is no name of an extended resource, such as example.com/gpu"
                _refuse(findings, where, message, resource.name)
            elif resource.name in managed:
                message = "is managed already, by this or another extender"
                _refuse(findings, where, message, resource.name)
            managed.add(resource.name)


def _check_plugins(plugins: AllPlugins, at: str, catalog: Catalog, findings: Findings) -> None:
    """Check the enabled plugins of a profile; kube-scheduler enables its own by multiPoint."""
    given = plugins.multi_point
    left = {each.name for each in (*given.enabled, *given.disabled)}
    own = [] if "*" in left else [Plugin(name=name) for name in EXTENDED_POINTS if name not in left]
    whole = plugins.model_copy(update={"multi_point": PluginSet(enabled=(*given.enabled, *own))})
    points = expand(whole, at, catalog, findings)
    for point in ("score", "multiPoint"):
        for index, each in enumerate(plugins.by_point()[point].enabled):
            if each.weight < 0 and "score" in EXTENDED_POINTS.get(each.name, ()):
                where = f"{at}.{point}.enabled[{index}].weight"
                _refuse(findings, where, "must not be below 0", each.weight)
    for point, name in (("queueSort", "PrioritySort"), ("bind", "DefaultBinder")):
        if not points.get(point):
            _refuse(findings, f"{at}.{point}", "no plugin is left", hint=f"leave {name} enabled")


def _check_args(
    configs: Collection[ProfilePluginConfig], at: str, version: str, findings: Findings
) -> None:
    seen: set[str] = set()
    for index, config in enumerate(configs):
        name, where = config.name, f"{at}[{index}].name"
        if name in seen:
            _refuse(findings, where, "Duplicate value", name, "keep one")
        elif name in _REMOVED:
            _refuse(findings, where, "is no plugin in v1", name, "take it out")
        elif name in ARGS:
            _check_args_of(name, config.args, f"{at}[{index}].args", version, findings)
        seen.add(name)


def _check_args_of(name: str, args: JsonValue, at: str, version: str, findings: Findings) -> None:
    fields = without_nulls(args)
    if isinstance(fields, dict):
        for field, right in (("apiVersion", version), ("kind", f"{name}Args")):
            if (found := fields.pop(field, "")) not in ("", right):
                _refuse(findings, f"{at}.{field}", f"must be {right}", found)
    try:
        ARGS[name].model_validate_json(json.dumps({} if fields is None else fields))
    except ValidationError as error:
        findings.issues += refusals_of(error, ARGS[name], at)


def _refuse(
    findings: Findings, at: str, message: str, found: object = None, hint: str = ""
) -> None:
    findings.complain(at, f"{message}: {DOES_NOT_START}", found, hint)
