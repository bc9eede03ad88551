"""Writes the file that makes kube-scheduler call kubextend, with comments that say why.

The file is a KubeSchedulerConfiguration, or a Policy for kube-scheduler up to 1.22.
"""

import json
from collections.abc import Mapping, Sequence

import yaml
from pydantic import JsonValue

from kubextend.config import Configuration, Duration, ResolvedProfile, VerbName
from kubextend.config.checks import is_wildcard
from kubextend.config.issues import Findings
from kubextend.config.profiles import DEFAULT_SCHEDULER_NAME
from kubextend.config.scheduler_plugins import SCHEDULER_KIND
from kubextend.kube_scheduler.versions import SCHEDULER_API_VERSIONS, KubeVersion, refuse_unread

__all__ = ["LEASE_NAME", "legacy_policy", "scheduler_configuration"]

# A scheduler that is not the cluster's default must not stand for election against it.
LEASE_NAME = "kubextend-scheduler"

_HEADER = """\
# kube-scheduler {}: kube-scheduler --config=THIS_FILE
"""
_HEADER_FOR_ALL = """\
# kube-scheduler 1.25 and later: kube-scheduler --config=THIS_FILE
# For an earlier one: kubextend scheduler-config --kube-version 1.24
"""
_PERCENTAGE = """\
# Every node is looked at. By default kube-scheduler stops at a sample, which may hold none of the
# few nodes that a plugin accepts, and its moving window changes the reasons it reports.
percentageOfNodesToScore: 100
"""
_CALLS = """\
# Before it tries the next pod, kube-scheduler writes to the API why it cannot place a pod, if that
# has changed. Its own limit is 50 calls a second, which many unschedulable pods can use up.
"""
_CALLS_A_SECOND = 200
_LEASE = f"""\
# A lease of its own: {DEFAULT_SCHEDULER_NAME} keeps the one named kube-scheduler.
"""
_DEFAULT_LEASE = f"""\
# With a profile {DEFAULT_SCHEDULER_NAME}, this is the cluster's own kube-scheduler with the Lease
# kube-scheduler in kube-system. Beside another one it would wait for that Lease for ever: give each
# profile of a second kube-scheduler another schedulerName.
"""
_PASSED_THROUGH = "# passThrough: kubextend leaves the pods of the following profiles alone.\n"
_NO_EXTENDERS = """\
# No profile enables a plugin that kube-scheduler would have to call.
extenders: []
"""
_QUICK = """\
# The quick verbs. Scheduling is one pod after the other, so the timeout is what a hanging call may
# cost every pod.
"""
_PREEMPT = """\
# preemptVerb: kube-scheduler's own dry run knows nothing of the filters here and would evict pods
# for a place that filter then refuses.
"""
_WEIGHT = """\
# weight: 1, because the weights of the plugins are already in the scores.
"""
_NAMES = """\
# nodeCacheCapable: requests carry the names of nodes; kubextend watches the nodes itself.
"""
_LAST_FILTER = "# lastFilter: no filterVerb is called after this one; ignorable entries are last.\n"
_MAY_BE_LAST_FILTER = """\
# If kube-scheduler calls no filterVerb after this one (it calls ignorable entries last), set
# extender.lastFilter: true in kubextend's ExtenderConfiguration: filter's answers get shorter.
"""
_WHOLE_NODES = """\
# nodeCacheCapable is false: requests carry whole nodes. kube-scheduler 1.33 and later then scores
# by resources as if every node were empty (kubernetes/kubernetes#141781). With `cluster` in
# kubextend's configuration the names are enough.
"""
_BIND = """\
# Bind is an entry of its own: it may take long, and one entry has one timeout.
# ignorable: false, since an ignored refusal would let kube-scheduler bind the pod all the same.
"""


def scheduler_configuration(
    config: Configuration,
    *,
    kubeconfig: str | None = None,
    leader_elect: bool | None = None,
    kube_version: KubeVersion | None = None,
) -> str:
    """Return, as YAML, a KubeSchedulerConfiguration with which kube-scheduler calls kubextend.

    Args:
        config: a checked configuration.
        kubeconfig: path of the kubeconfig on kube-scheduler's machine; None adds none.
        leader_elect: the value of leaderElection.leaderElect; None leaves the field as it is.
        kube_version: the version of kube-scheduler, which reads a KubeSchedulerConfiguration; None
            for all versions from 1.25 on.

    Raises: ConfigError: kube-scheduler could not reach or verify the server, or it does not know a
        field that the file needs.
    """
    _refuse_uncallable(config)
    version = SCHEDULER_API_VERSIONS[0] if kube_version is None else kube_version.api_version
    passed: JsonValue = [{"schedulerName": name} for name in config.pass_through]
    parts = [
        _HEADER_FOR_ALL if kube_version is None else _HEADER.format(kube_version),
        _yaml({"apiVersion": version, "kind": SCHEDULER_KIND}),
        _connection(kubeconfig, config),
        _election(config, leader_elect),
        _PERCENTAGE if config.rejects_nodes else "",
        _yaml({"profiles": [_profile(each) for each in config.profiles]}),
        _PASSED_THROUGH + _yaml(passed) if passed else "",
        _extenders(config),
    ]
    text = "".join(parts)
    if kube_version is not None:
        refuse_unread(yaml.safe_load(text), kube_version)
    return text


def legacy_policy(config: Configuration) -> str:
    """Return a Policy that makes kube-scheduler up to 1.22 call kubextend, as JSON.

    Raises: ConfigError: kube-scheduler could not reach or verify the server, or it does not know
        what the configuration asks for.
    """
    _refuse_uncallable(config)
    entries: list[JsonValue] = [_legacy(entry) for entry in _entries(config)]
    policy: dict[str, JsonValue] = {"kind": "Policy", "apiVersion": "v1", "extenders": entries}
    return json.dumps(policy, indent=2) + "\n"


def _refuse_uncallable(config: Configuration) -> None:
    """Check that kube-scheduler can reach and verify the server."""
    findings, extender, server = Findings(), config.extender, config.server
    if not extender.url_prefix and is_wildcard(server.host):
        message = f"Required value: {server.host} is no address that kube-scheduler could call"
        hint = "set extender.urlPrefix, or give scheduler-config --url-prefix"
        findings.complain("extender.urlPrefix", message, None, hint)
    needed: dict[str, str] = {}
    if config.url_prefix.startswith("https:"):
        if not extender.tls_config.ca_file:
            needed["caFile"] = "without a CA kube-scheduler verifies nothing"
        if server.tls.client_ca_file and not extender.tls_config.cert_file:
            needed |= dict.fromkeys(
                ("certFile", "keyFile"), "the server asks for a client certificate"
            )
    for field, why in needed.items():
        hint = "a path on kube-scheduler's machine"
        findings.complain(f"extender.tlsConfig.{field}", f"Required value: {why}", None, hint)
    findings.refuse_any({})


def _connection(kubeconfig: str | None, config: Configuration) -> str:
    """Return the YAML of the field clientConnection: kubeconfig and limit of API calls.

    The limit is higher than kube-scheduler's default if kubextend filters nodes or has a queue:
    then kube-scheduler may have many unschedulable pods.
    """
    connection: dict[str, JsonValue] = {"kubeconfig": kubeconfig} if kubeconfig else {}
    comment = ""
    if "filter" in config.verbs or config.queues:
        comment = _CALLS
        connection |= {"qps": _CALLS_A_SECOND, "burst": 2 * _CALLS_A_SECOND}
    return comment + _yaml({"clientConnection": connection}) if connection else ""


def _election(config: Configuration, leader_elect: bool | None) -> str:
    election: dict[str, JsonValue] = {} if leader_elect is None else {"leaderElect": leader_elect}
    names = {*config.pass_through, *(profile.scheduler_name for profile in config.profiles)}
    comment = ""
    if leader_elect is not False:
        if DEFAULT_SCHEDULER_NAME in names:
            comment = _DEFAULT_LEASE
        else:
            comment = _LEASE
            election |= {"leaderElect": True, "resourceName": LEASE_NAME}
    return comment + (_yaml({"leaderElection": election}) if election else "")


def _profile(profile: ResolvedProfile) -> JsonValue:
    """Return kube-scheduler's profile for a profile of the configuration."""
    percentage = profile.percentage_of_nodes_to_score
    given = {} if percentage is None else {"percentageOfNodesToScore": percentage}
    return {"schedulerName": profile.scheduler_name, **given}


def _extenders(config: Configuration) -> str:
    entries = _entries(config)
    if not entries:
        return _NO_EXTENDERS
    last = _LAST_FILTER if config.extender.last_filter else _MAY_BE_LAST_FILTER
    return "extenders:\n" + "".join(_comment(entry, last) + _yaml([entry]) for entry in entries)


def _comment(entry: Mapping[str, JsonValue], of_filter: str) -> str:
    if "bindVerb" in entry:
        return _BIND
    comment = _QUICK
    comment += _PREEMPT if "preemptVerb" in entry else ""
    comment += _WEIGHT if "prioritizeVerb" in entry else ""
    comment += of_filter if "filterVerb" in entry else ""
    return comment + (_NAMES if entry["nodeCacheCapable"] else _WHOLE_NODES)


def _entries(config: Configuration) -> list[dict[str, JsonValue]]:
    """Return the extender entries for kubextend: filter, preempt and prioritize, then bind.

    The fields have the order of the Go type ``Extender``.
    """
    extender = config.extender
    quick = [verb for verb in config.verbs if verb != "bind"]
    entries = []
    if quick:
        entries.append(_entry(config, quick, extender.http_timeout, ignorable=extender.ignorable))
    if "bind" in config.verbs:
        entries.append(_entry(config, ["bind"], extender.bind_timeout, ignorable=False))
    return entries


def _entry(
    config: Configuration, verbs: Sequence[VerbName], timeout: Duration, *, ignorable: bool
) -> dict[str, JsonValue]:
    """Return an element of ``extenders``."""
    entry: dict[str, JsonValue] = {"urlPrefix": config.url_prefix}
    entry |= {f"{verb}Verb": verb for verb in verbs}
    if "prioritize" in verbs:
        entry["weight"] = 1
    if config.url_prefix.startswith("https:"):
        entry["enableHTTPS"] = True
        entry["tlsConfig"] = config.extender.tls_config.model_dump(exclude_none=True)
    entry["httpTimeout"] = str(timeout)
    entry["nodeCacheCapable"] = config.extender.node_cache_capable
    resources = config.extender.managed_resources
    if resources:
        entry["managedResources"] = [
            resource.model_dump(exclude_defaults=True) for resource in resources
        ]
    entry["ignorable"] = ignorable
    return entry


def _legacy(entry: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Convert an extender entry to the form in a Policy file, with httpTimeout in nanoseconds.

    Source: kube-scheduler v0.22 config/v1/legacy_types.go LegacyExtender
    """
    legacy = {"enableHttps" if key == "enableHTTPS" else key: entry[key] for key in entry}
    legacy["httpTimeout"] = Duration.parse(str(entry["httpTimeout"])).nanoseconds
    return legacy


def _yaml(value: JsonValue) -> str:
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=1000)
