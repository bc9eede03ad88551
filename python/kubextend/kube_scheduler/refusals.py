"""Finds what is wrong with extenders in kube-scheduler's file, so that it would not start.

``file`` has decoded the file. kube-scheduler says all else in its log when it starts.

Source: kubernetes v1.37 pkg/scheduler/apis/config/validation/validation.go,
pkg/scheduler/scheduler.go buildExtenders
"""

from collections.abc import Collection

from kubextend.config.checks import is_extended_resource
from kubextend.config.issues import Findings
from kubextend.config.profiles import check_scheduler_names
from kubextend.config.scheduler_plugins import IN_TREE_PLUGINS
from kubextend.kube_scheduler.file import DOES_NOT_START, ExtenderEntry, SchedulerConfiguration

__all__ = ["refuse"]


def refuse(file: SchedulerConfiguration, ours: Collection[str], findings: Findings) -> None:
    """Add an issue for each reason why kube-scheduler does not start with a file.

    Args:
        file: the decoded file.
        ours: the names of the plugins that kubextend runs.
        findings: gets the issues.
    """
    check_scheduler_names([profile.scheduler_name for profile in file.profiles], findings)
    binders = [index for index, entry in enumerate(file.extenders) if entry.bind_verb]
    managed: set[str] = set()
    for index, entry in enumerate(file.extenders):
        at = f"extenders[{index}]"
        if entry.prioritize_verb and entry.weight <= 0:
            message = f"must be more than 0 beside prioritizeVerb: {DOES_NOT_START}"
            findings.complain(f"{at}.weight", message, entry.weight, "weight: 1")
        if index in binders[1:]:
            message = f"another extender has a bindVerb, and only one can bind: {DOES_NOT_START}"
            findings.complain(f"{at}.bindVerb", message, entry.bind_verb, "keep one")
        if entry.tls_config.insecure and entry.tls_config.ca_file + entry.tls_config.ca_data:
            message = f"excludes caFile and caData: {DOES_NOT_START}"
            findings.complain(f"{at}.tlsConfig.insecure", message, value=True)
        _refuse_resources(f"{at}.managedResources", entry, managed, findings)
    for index, profile in enumerate(file.profiles):
        for point, given in profile.plugins.by_point().items():
            for place, plugin in enumerate(given.enabled):
                if plugin.name in ours and plugin.name not in IN_TREE_PLUGINS:
                    at = f"profiles[{index}].plugins.{point}.enabled[{place}].name"
                    message = "kube-scheduler has no plugin of this name and does not start"
                    hint = "take it out here: kubextend runs it, and extenders calls kubextend"
                    findings.complain(at, message, plugin.name, hint)


def _refuse_resources(at: str, entry: ExtenderEntry, managed: set[str], findings: Findings) -> None:
    """Check names of resources, and that no entry has one of ``managed``; add them to it."""
    for place, resource in enumerate(entry.managed_resources):
        wrong = ""
        if not is_extended_resource(resource.name):
            wrong = "is no name of an extended resource, such as example.com/gpu"
        elif resource.name in managed:
            wrong = "is managed already, by this or another extender"
        if wrong:
            message = f"{wrong}: {DOES_NOT_START}"
            findings.complain(f"{at}[{place}].name", message, resource.name)
        managed.add(resource.name)
