"""Splits a KubeSchedulerConfiguration into kubextend's part and kube-scheduler's part.

The profiles of a KubeSchedulerConfiguration may name both kubextend's and kube-scheduler's plugins.
All other fields concern kube-scheduler only.
"""

from collections.abc import Callable, Mapping
from typing import Final

from pydantic import JsonValue

from kubextend.config.issues import Findings, suggestion
from kubextend.config.model import API_VERSION, KIND

__all__ = [
    "BETA_API_VERSIONS",
    "SCHEDULER_API_VERSIONS",
    "SCHEDULER_KIND",
    "check_fields",
    "extender_tree",
    "scheduler_tree",
]

SCHEDULER_KIND: Final = "KubeSchedulerConfiguration"
_GROUP: Final = "kubescheduler.config.k8s.io"
# The releases of kube-scheduler that read each beta version of a KubeSchedulerConfiguration;
# source: KEP-785, Implementation History.
BETA_API_VERSIONS: Final = {
    f"{_GROUP}/v1beta3": "1.23 to 1.28",
    f"{_GROUP}/v1beta2": "1.22 to 1.27",
    f"{_GROUP}/v1beta1": "1.19 to 1.22",
}
SCHEDULER_API_VERSIONS: Final = (f"{_GROUP}/v1", *BETA_API_VERSIONS)


# Source: kube-scheduler v0.22 to v0.36 config/*/types.go
_TEXT = """
    apiVersion kind parallelism leaderElection clientConnection healthzBindAddress
    metricsBindAddress enableProfiling enableContentionProfiling percentageOfNodesToScore
    podInitialBackoffSeconds podMaxBackoffSeconds delayCacheUntilActive profiles extenders
"""
_FIELDS: Final = _TEXT.split()


def extender_tree(tree: Mapping[str, JsonValue], findings: Findings) -> dict[str, JsonValue]:
    """Return an ExtenderConfiguration with the profiles of a KubeSchedulerConfiguration.

    Args:
        tree: the KubeSchedulerConfiguration as a JSON object.
        findings: gets an issue for each unknown field, and a note that lists the fields that are
            left to kube-scheduler.
    """
    check_fields(tree, findings)
    for field in tree:
        if field not in {"apiVersion", "kind", "profiles"}:
            findings.leave(field)
    findings.note_left((SCHEDULER_KIND,))
    profiles = tree.get("profiles") or [{}]
    return {"apiVersion": API_VERSION, "kind": KIND, "profiles": profiles}


def check_fields(tree: Mapping[str, JsonValue], findings: Findings) -> None:
    """Add an issue for each top-level field that no version of kube-scheduler has."""
    for field in tree:
        if field not in _FIELDS:
            hint = suggestion(field, _FIELDS, "fields")
            findings.complain((field,), f'unknown field "{field}"', tree[field], hint)


def scheduler_tree(
    tree: Mapping[str, JsonValue], is_ours: Callable[[str], bool]
) -> dict[str, JsonValue]:
    """Return a KubeSchedulerConfiguration without the plugins of kubextend.

    Args:
        tree: a checked KubeSchedulerConfiguration as a JSON object.
        is_ours: returns whether a name is that of a plugin of kubextend.
    """
    kept: dict[str, JsonValue] = {key: value for key, value in tree.items() if value is not None}
    profiles = kept.get("profiles")
    if isinstance(profiles, list):
        kept["profiles"] = [_without(profile, is_ours) for profile in profiles]
    return kept


def _without(value: JsonValue, is_ours: Callable[[str], bool]) -> JsonValue:
    """Return a JSON value without the list entries whose ``name`` is a plugin of kubextend.

    A list or object that becomes empty because entries were removed is removed as well.
    """
    if not isinstance(value, dict):
        return value
    kept: dict[str, JsonValue] = {}
    for key, item in value.items():
        rest: JsonValue = item
        if isinstance(item, list):
            rest = [entry for entry in item if not is_ours(_name(entry))]
        elif key != "args":
            rest = _without(item, is_ours)
        if rest or rest == item:
            kept[key] = rest
    return kept


def _name(entry: JsonValue) -> str:
    name = entry.get("name") if isinstance(entry, dict) else None
    return name if isinstance(name, str) else ""
