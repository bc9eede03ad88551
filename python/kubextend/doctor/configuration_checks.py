"""Checks of the two configurations: against each other, and against kube-scheduler's version."""

from collections.abc import Iterator
from pathlib import Path

from kubextend.admission.rules import points_without_node_affinity
from kubextend.config.issues import Findings
from kubextend.config.yaml_document import read_document, read_file
from kubextend.doctor.examined import Examined
from kubextend.doctor.finding import Problem, error, skipped, warning
from kubextend.errors import ConfigError, Issue
from kubextend.kube_scheduler.compare import scheduler_differences
from kubextend.kube_scheduler.file import read_scheduler_configuration
from kubextend.kube_scheduler.versions import NEWEST, KubeVersion, refuse_unread

__all__ = ["kube_version", "node_mode", "scheduler_file"]

# The oldest version with which the e2e tests run.
_TESTED_FROM = KubeVersion(1, 34)
# What a kube-apiserver says that was built without its version.
# Source: kubernetes v1.36 staging/src/k8s.io/component-base/version/base.go
_UNKNOWN_VERSION = "v0.0.0"
_SERVES_GATE_POLICY = KubeVersion(1, 36)


def scheduler_file(examined: Examined) -> Iterator[Problem]:
    """Compare kube-scheduler's file with what ``kubextend scheduler-config`` writes."""
    if examined.scheduler is None:
        yield skipped("no file of kube-scheduler is given", "give --scheduler FILE")
        return
    for issue in scheduler_differences(examined.config, examined.scheduler).issues:
        yield _problem(issue)
    yield from _ignored_rules(examined, examined.scheduler)


def kube_version(examined: Examined) -> Iterator[Problem]:
    """Look for what the version of kube-scheduler does not read, or does in another way."""
    text = examined.server_version
    if text is None:
        yield skipped("kube-scheduler's version is not known", "give --kube-version")
        return
    if text.startswith(_UNKNOWN_VERSION):
        yield skipped(
            f"kube-apiserver does not know its version: it says {text}", "give --kube-version"
        )
        return
    try:
        version = KubeVersion.parse(text)
    except ValueError as unknown:
        yield warning(str(unknown), "use a kubextend that knows it")
        return
    yield from _traps(examined, version)
    if examined.scheduler is None:
        return
    data, source = read_file(examined.scheduler)
    try:
        refuse_unread(read_document(data, source), version)
    except ConfigError as refused:
        for issue in refused.issues:
            yield _problem(issue)


def node_mode(examined: Examined) -> Iterator[Problem]:
    """Look whether requests bring whole nodes, with which kube-scheduler's own scores are wrong."""
    if examined.config.verbs and not examined.config.extender.node_cache_capable:
        message = (
            "requests bring whole nodes: kube-scheduler 1.33 and later then scores by resources "
            "as if every node were empty (kubernetes/kubernetes#141781)"
        )
        yield warning(message, "configure `cluster`, so that names of nodes are enough")


def _ignored_rules(examined: Examined, scheduler: Path) -> Iterator[Problem]:
    """Yield the profiles whose compiled rules kube-scheduler does not follow."""
    found = read_scheduler_configuration(read_document(*read_file(scheduler)), Findings())
    if found is None or not found.profiles:
        return
    for name, index in found.named_profiles():
        plugins = found.profiles[index].plugins
        ruled: set[str] = set()
        for rules in examined.rules or ():
            if rules.scheduler_name == name:
                ruled |= {"filter"} if rules.required else set()
                ruled |= {"score"} if rules.preferred else set()
        for point in sorted(ruled & points_without_node_affinity(plugins)):
            message = (
                f"the profile {name} disables NodeAffinity at {point}: kube-scheduler does not see "
                "the rules that admission policies put on pods"
            )
            yield error(message, "leave NodeAffinity enabled, or leave --with-admission out")


def _traps(examined: Examined, version: KubeVersion) -> Iterator[Problem]:
    """Yield what is known of a version; source: the table of versions in docs/operating.md."""
    if not _TESTED_FROM <= version <= NEWEST:
        message = f"kubextend is not tested with kube-scheduler {version}"
        yield warning(message, f"the tested versions are {_TESTED_FROM} to {NEWEST}")
    if examined.config.queues and version < _SERVES_GATE_POLICY:
        message = (
            f"kube-apiserver {version} does not serve the policy that puts the queue's gate on pods"
        )
        yield warning(message, "let the pods' owners, or a webhook, add the gate")


def _problem(issue: Issue) -> Problem:
    where = f"{issue.path}: " if issue.path else ""
    found = "" if issue.value in (None, "", {}, []) else f" (found: {issue.value})"
    return error(f"{where}{issue.message}{found}", issue.hint)
