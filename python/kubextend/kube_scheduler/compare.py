"""Compares a KubeSchedulerConfiguration with the file that ``write`` makes.

Each difference is told with what comes of it, and with the right value.
"""

import dataclasses
import json
import socket
from collections.abc import Callable, Mapping, Sequence
from itertools import dropwhile
from pathlib import Path
from typing import Final, NamedTuple, Self
from urllib.parse import urlsplit

from kubextend.config import Configuration, VerbName, read_document, read_file
from kubextend.config.issues import Findings
from kubextend.config.profiles import DEFAULT_SCHEDULER_NAME
from kubextend.errors import Issue
from kubextend.kube_scheduler.file import (
    VERBS,
    Election,
    ExtenderEntry,
    SchedulerConfiguration,
    read_scheduler_configuration,
)
from kubextend.kube_scheduler.refusals import refuse
from kubextend.kube_scheduler.versions import BETA_API_VERSIONS
from kubextend.kube_scheduler.write import LEASE_NAME, scheduler_configuration

__all__ = ["SchedulerDifferences", "scheduler_differences", "scheduler_lease", "scheduler_names"]

_NEVER_ASKED: Final[Mapping[VerbName, str]] = {
    "filter": "kube-scheduler places pods on nodes that the plugins here reject",
    "preempt": "kube-scheduler evicts pods from nodes that filter then rejects",
    "prioritize": "no Score plugin here is ever asked",
    "bind": "kube-scheduler binds pods itself, past every plugin from Reserve to PostBind",
}
_FAILS: Final[Mapping[VerbName, str]] = {
    "filter": "no pod is placed, or with ignorable: true every pod unfiltered",
    "preempt": "no pod is preempted",
    "prioritize": "kube-scheduler drops the scores without a word",
    "bind": "no pod is bound",
}
_ASKED_TWICE: Final[Mapping[VerbName, str]] = {  # of bind, ``refusals`` tells
    "filter": "each pod is filtered twice",
    "preempt": "each preemption is judged twice",
    "prioritize": "the scores count twice",
}
_TOO_SHORT: Final = (
    "kube-scheduler gives up before kubextend answers in the place of a plugin that hangs, so "
    "failurePolicy has no say"
)
_TOO_SHORT_FOR_BIND: Final = (
    "kube-scheduler gives up a bind before Permit's limit, {held}, has passed"
)
_TOO_LONG: Final = "one call that hangs holds up the scheduling of all pods for {found}"
_TOO_LONG_FOR_BIND: Final = "a bind whose answer is lost keeps its place on the node for {found}"
_OTHER_FILE: Final = {
    "ca": "the server is not trusted",
    "cert": "the server refuses kube-scheduler's certificate",
    "key": "the key has to be that of certFile",
}
_NO_NODES: Final = (
    "requests carry names of nodes, and kubextend watches no nodes: every call is an error"
)
_WHOLE_NODES: Final = (
    "requests carry whole nodes: megabytes for each pod, and kube-scheduler 1.33 and later scores "
    "by resources as if every node were empty (kubernetes/kubernetes#141781)"
)
_UNFILTERED: Final = (
    "while kubextend does not answer or answers an error, pods are placed as if it had no plugins"
)
_SAMPLE: Final = (
    "kube-scheduler stops at a sample of the nodes, which may hold none that a plugin accepts, and "
    "not the best"
)


class _Pair(NamedTuple):
    """An extender entry of the file and the wanted entry with which it is compared.

    Attributes:
        at: the path of the found entry in the file.
        found: the entry in the file.
        wanted: the entry that kubextend would write.
        verbs: the verbs that the found and the wanted entry have in common.
        held: how long Permit may hold a pod, as text.
    """

    at: str
    found: ExtenderEntry
    wanted: ExtenderEntry
    verbs: frozenset[VerbName]
    held: str

    @property
    def binds(self) -> bool:
        """Whether the wanted entry is that of bind."""
        return "bind" in self.verbs


class SchedulerDifferences(NamedTuple):
    """The result of comparing a KubeSchedulerConfiguration with kubextend's configuration.

    Attributes:
        issues: the differences because of which kube-scheduler does not start with the file, or
            does not call kubextend as configured. The path of an issue begins with the file's
            name, the message says what happens, the hint says the right value.
        notes: one sentence for each limit on where kube-scheduler starts with the file, such as its
            releases.
    """

    issues: tuple[Issue, ...]
    notes: tuple[str, ...]


def scheduler_differences(config: Configuration, file: str | Path) -> SchedulerDifferences:
    """Compare a KubeSchedulerConfiguration with what ``kubextend scheduler-config`` would write.

    Other extenders, other plugins and the connection to the cluster do not concern kubextend, and
    are not compared, but what keeps kube-scheduler from starting is an issue there, too.

    Args:
        config: a checked configuration of kubextend.
        file: the path of a KubeSchedulerConfiguration; ``-`` for standard input.

    Raises: ConfigError: the file cannot be read, or kube-scheduler could not reach or verify the
        server with any file.
    """
    data, source = read_file(file)
    findings = Findings()
    found = read_scheduler_configuration(read_document(data, source), findings)
    if found is not None:
        ours = {name for profile in config.profiles for name in profile.args}
        refuse(found, ours, findings)
        written = read_document(scheduler_configuration(config).encode(), "what is written")
        wanted = SchedulerConfiguration.model_validate_json(json.dumps(written))
        _compare_extenders(config, found, wanted, findings)
        _compare_profiles(config, found, wanted, findings)
        _compare_election(found, wanted, findings)
        _note_where_it_starts(found, findings)
    issues = (
        dataclasses.replace(issue, path=f"{source}: {issue.path}") for issue in findings.issues
    )
    return SchedulerDifferences(
        tuple(issues), tuple(f"{source}: {note}" for note in findings.notes)
    )


def scheduler_names(file: str | Path) -> frozenset[str]:
    """Return the schedulerName of each profile of a KubeSchedulerConfiguration; empty if broken.

    Raises: ConfigError: the file cannot be read.
    """
    found = read_scheduler_configuration(read_document(*read_file(file)), Findings())
    return frozenset() if found is None else frozenset(name for name, _ in found.named_profiles())


def scheduler_lease(file: str | Path) -> tuple[str, str] | None:
    """Return namespace and name of kube-scheduler's Lease; None if its file asks for no leader.

    Raises: ConfigError: the file cannot be read.
    """
    found = read_scheduler_configuration(read_document(*read_file(file)), Findings())
    if found is None or not found.leader_election.leader_elect:
        return None
    return found.leader_election.lease


def _note_where_it_starts(found: SchedulerConfiguration, findings: Findings) -> None:
    if releases := BETA_API_VERSIONS.get(found.api_version):
        read = f"only kube-scheduler {releases} reads {found.api_version}"
        message = f"{read}; 1.25 and later read v1"
        findings.note("apiVersion", message)
    if not found.client_connection.kubeconfig:
        message = "none, so kube-scheduler starts only inside a cluster"
        findings.note("clientConnection.kubeconfig", message)


def _compare_extenders(
    config: Configuration,
    found: SchedulerConfiguration,
    wanted: SchedulerConfiguration,
    findings: Findings,
) -> None:
    """Compare urlPrefix, verbs, timeouts and other settings of kubextend's extender entries."""
    url = config.url_prefix
    ours = _entries_for(url, found.extenders, any_path=bool(wanted.extenders))
    if wanted.extenders and not ours:
        message = f"none has the urlPrefix {url}: kube-scheduler never asks kubextend"
        urls = [entry.url_prefix for entry in found.extenders]
        address = "or set extender.urlPrefix to the address that kube-scheduler calls"
        hint = f"put in what `kubextend scheduler-config` writes, {address}"
        findings.complain("extenders", message, urls, hint)
        return
    for at, entry in ours.items():
        if not _same_url(entry.url, url):
            message = f"kubextend answers at {url}: every call fails"
            findings.complain(f"{at}.urlPrefix", message, entry.url_prefix, f"urlPrefix: {url}")
    for verb in VERBS:
        having = next((entry for entry in wanted.extenders if verb in entry.verbs), None)
        _compare_verb(verb, ours, having, findings)
    _compare_last_filter(config, found, ours, findings)
    for at, entry in ours.items():
        for right in wanted.extenders:
            verbs = frozenset(entry.verbs.keys() & right.verbs.keys())
            if verbs:
                held = str(config.extender.permit_max_wait)
                _compare_pair(_Pair(at, entry, right, verbs, held), findings)


def _compare_verb(
    verb: VerbName,
    ours: Mapping[str, ExtenderEntry],
    wanted: ExtenderEntry | None,
    findings: Findings,
) -> None:
    """Compare one verb.

    Args:
        verb: the verb.
        ours: kubextend's entries of the file, by their paths.
        wanted: the wanted entry that has the verb; None if kubextend does not serve the verb.
        findings: gets the issues.
    """
    field = f"{verb}Verb"
    having = [
        (f"{at}.{field}", each.verbs[verb]) for at, each in ours.items() if verb in each.verbs
    ]
    if wanted and not having:
        message = f"Required value: {_NEVER_ASKED[verb]}"
        alike = (at for at, entry in ours.items() if entry.verbs.keys() & wanted.verbs.keys())
        findings.complain(f"{next(alike, 'extenders')}.{field}", message, None, f"{field}: {verb}")
    for at, value in having:
        if not wanted:
            message = f"nothing here needs {verb}, so the answer is 404: {_FAILS[verb]}"
            findings.complain(at, message, value, f"leave {field} out")
        elif value != verb:
            message = f"kubextend answers 404 there: {_FAILS[verb]}"
            findings.complain(at, message, value, f"{field}: {verb}")
    for at, value in having[1:] if verb in _ASKED_TWICE else ():
        message = f"{_ASKED_TWICE[verb]}, as another entry has it too"
        findings.complain(at, message, value, f"leave {field} out of one entry")


def _compare_last_filter(
    config: Configuration,
    found: SchedulerConfiguration,
    ours: Mapping[str, ExtenderEntry],
    findings: Findings,
) -> None:
    """Compare extender.lastFilter with the entries that kube-scheduler calls after ours."""
    # The entries with ignorable: true are called after all others.
    called = sorted(enumerate(found.extenders), key=lambda each: each[1].ignorable)
    filters = [(f"extenders[{index}]", entry) for index, entry in called if entry.filter_verb]
    ours_on = [*dropwhile(lambda each: each[0] not in ours, filters)]
    declared = config.extender.last_filter
    if len(ours_on) == 1 and not declared:
        message = "called last, so extender.lastFilter: true may shorten filter's answers"
        findings.note(f"{ours_on[0][0]}.filterVerb", message)
    for at, later in ours_on[1:] if declared else ():
        message = (
            f"kube-scheduler calls {later.url} after kubextend: nodes that extender.lastFilter "
            "leaves out have no reasons then, and no pod is evicted from them"
        )
        hint = "lastFilter: false; or call it before kubextend: ignorable entries are last"
        findings.complain(f"{at}.filterVerb", message, later.filter_verb, hint)


def _compare_pair(pair: _Pair, findings: Findings) -> None:
    """Compare two entries, except for their URLs and verbs."""
    for field, (value, consequence) in _CONSEQUENCES.items():
        found, right = value(pair.found), value(pair.wanted)
        if found != right and (message := consequence(pair)):
            hint = f"{field}: {right if isinstance(right, str) else json.dumps(right)}"
            if right == []:
                hint = f"leave {field} out"
            findings.complain(f"{pair.at}.{field}", message, found, hint)
    _compare_tls(pair, findings)


def _wrong_timeout(pair: _Pair) -> str:
    if pair.found.timeout < pair.wanted.timeout:
        said = _TOO_SHORT_FOR_BIND if pair.binds else _TOO_SHORT
    else:
        said = _TOO_LONG_FOR_BIND if pair.binds else _TOO_LONG
    return said.format(held=pair.held, found=pair.found.timeout)


def _wrong_nodes(pair: _Pair) -> str:
    named = _NO_NODES if pair.found.node_cache_capable else _WHOLE_NODES
    return "" if pair.verbs == {"bind"} else named


def _wrong_weight(pair: _Pair) -> str:
    found = pair.found.weight
    if "prioritize" not in pair.verbs or found < pair.wanted.weight:
        return ""
    return f"the scores hold the plugins' weights already and count {found} times as much"


def _wrong_ignorable(pair: _Pair) -> str:
    if not pair.found.ignorable:
        return "while kubextend does not answer, no pod is placed"
    if pair.verbs == {"preempt"}:
        return "while kubextend does not answer, kube-scheduler evicts pods unjudged"
    if pair.binds:
        return "a bind that kubextend refuses is done by kube-scheduler all the same"
    return _UNFILTERED


def _wrong_resources(pair: _Pair) -> str:
    names = {each.name for each in pair.found.managed_resources}
    if names == {each.name for each in pair.wanted.managed_resources}:
        return "kube-scheduler's NodeResourcesFit counts other resources than configured"
    if names:
        return f"kubextend hears only of pods that ask for {', '.join(sorted(names))}"
    return "kubextend is asked about every pod, not only those that ask for a resource"


def _resources(entry: ExtenderEntry) -> object:
    return sorted((each.model_dump() for each in entry.managed_resources), key=json.dumps)


# Field -> its value in an entry, and what comes of a difference; "": it does not matter.
_CONSEQUENCES: Final[
    Mapping[str, tuple[Callable[[ExtenderEntry], object], Callable[[_Pair], str]]]
] = {
    "httpTimeout": (lambda entry: str(entry.timeout), _wrong_timeout),
    "nodeCacheCapable": (lambda entry: entry.node_cache_capable, _wrong_nodes),
    "weight": (lambda entry: entry.weight, _wrong_weight),
    "ignorable": (lambda entry: entry.ignorable, _wrong_ignorable),
    "managedResources": (_resources, _wrong_resources),
}


def _compare_tls(pair: _Pair, findings: Findings) -> None:
    """Compare the field tlsConfig of two extender entries that both use https.

    If only one entry uses https, that is reported as a wrong urlPrefix elsewhere.
    """
    url, right_url = _Url.of(pair.found.url), _Url.of(pair.wanted.url)
    if not pair.wanted.enable_https or url.scheme != "https":
        return
    at = f"{pair.at}.tlsConfig"
    found, right = (each.tls_config.model_dump(by_alias=True) for each in (pair.found, pair.wanted))
    no_ca = pair.found.enable_https and not found["caFile"] + found["caData"]
    unverified = found["insecure"] or no_ca
    if unverified:
        message = "kube-scheduler verifies nothing: whoever answers there decides on pods"
        hint = f"insecure: false and caFile: {right['caFile']}"
        findings.complain(f"{at}.insecure", message, found["insecure"], hint)
    for name, otherwise in _OTHER_FILE.items():
        file, wanted, inside = found[f"{name}File"], right[f"{name}File"], found[f"{name}Data"]
        if wanted and file != wanted and not inside and not (name == "ca" and unverified):
            fails = f"{otherwise}, and every call fails, unless both files hold the same"
            hint = f"{name}File: {wanted}"
            findings.complain(f"{at}.{name}File", fails if file else otherwise, file, hint)
    server = right["serverName"] or right_url.host
    if (found["serverName"] or url.host) != server:
        message = "the server's certificate is judged by another name"
        findings.complain(f"{at}.serverName", message, found["serverName"], f"serverName: {server}")


def _compare_profiles(
    config: Configuration,
    found: SchedulerConfiguration,
    wanted: SchedulerConfiguration,
    findings: Findings,
) -> None:
    """Compare schedulerName and percentageOfNodesToScore of each profile of kube-scheduler."""
    theirs = dict(found.named_profiles())
    ours = [profile.scheduler_name for profile in config.profiles]
    for name in ours:
        if name not in theirs:
            message = f"no profile has schedulerName {name}: its pods stay pending for ever"
            findings.complain("profiles", message, list(theirs), f"schedulerName: {name}")
    for name in config.pass_through:
        if name not in theirs:
            findings.note("profiles", f"none has schedulerName {name}, which passThrough lists")
    if not wanted.extenders:
        return
    for name, index in theirs.items():
        if name not in (*ours, *config.pass_through):
            message = "no profile of kubextend has this name: filter and bind reject its pods"
            hint = f"one of {', '.join(ours)}, or passThrough: [{name}] in kubextend's file"
            findings.complain(f"profiles[{index}].schedulerName", message, name, hint)
    right = {name: wanted.percentage(at)[1] for name, at in wanted.named_profiles() if name in ours}
    seen: set[str] = set()
    for name, index in found.named_profiles():
        at, given = found.percentage(index)
        # The value 0 makes kube-scheduler stop at a sample of the nodes.
        value, percentage = given or 0, right.get(name)
        if percentage not in {None, value} and at not in seen:
            seen.add(at)
            more = f"profile {name} is to look at {percentage or 'a default'} percent of the nodes"
            message = _SAMPLE if value < (percentage or 0) else more
            findings.complain(at, message, value, f"percentageOfNodesToScore: {percentage}")


def _compare_election(
    found: SchedulerConfiguration, wanted: SchedulerConfiguration, findings: Findings
) -> None:
    """Check that a second kube-scheduler does not use the default kube-scheduler's Lease."""
    election, at = found.leader_election, "leaderElection.resourceName"
    if not election.leader_elect or election.lease != Election().lease:
        return
    if DEFAULT_SCHEDULER_NAME in [name for name, _ in found.named_profiles()]:
        message = (
            f"with a profile {DEFAULT_SCHEDULER_NAME}, this kube-scheduler takes the place of "
            "the cluster's own, whose Lease it uses: beside that one it waits for ever"
        )
        findings.note(at, message)
    elif election.lease != wanted.leader_election.lease:
        message = "the cluster's own kube-scheduler holds this lease: this one waits for ever"
        findings.complain(at, message, election.lease[1], f"resourceName: {LEASE_NAME}")


def _entries_for(
    url: str, entries: Sequence[ExtenderEntry], *, any_path: bool
) -> dict[str, ExtenderEntry]:
    """Return the extender entries of kubextend by their paths in the file.

    Args:
        url: the URL of kubextend's verbs.
        entries: all extender entries of the file.
        any_path: whether entries with another path on the server of ``url`` count, if no entry has
            exactly that URL.
    """
    placed = {f"extenders[{index}]": entry for index, entry in enumerate(entries)}
    exact = {at: entry for at, entry in placed.items() if _same_url(entry.url, url)}
    if exact or not any_path:
        return exact
    server = _Url.of(url)
    return {at: each for at, each in placed.items() if _Url.of(each.url).has_server_of(server)}


class _Url(NamedTuple):
    """The parts of a URL that decide where kube-scheduler calls."""

    scheme: str
    host: str
    port: int | None
    path: str

    @classmethod
    def of(cls, text: str) -> Self:
        """Split a URL; one that cannot be split has no host."""
        try:
            parts = urlsplit(text)
            port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
        except ValueError:
            return cls("", "", None, text)
        return cls(parts.scheme, parts.hostname or "", port, parts.path.rstrip("/"))

    def has_server_of(self, other: Self) -> bool:
        """Return whether both name one port of one host, by its name or by its addresses."""
        if self.port != other.port or self.host == other.host:
            return self.port == other.port
        return not _addresses(self.host).isdisjoint(_addresses(other.host))


def _same_url(one: str, other: str) -> bool:
    ours, theirs = _Url.of(one), _Url.of(other)
    same = (ours.scheme, ours.path) == (theirs.scheme, theirs.path)
    return same and ours.has_server_of(theirs)


def _addresses(host: str) -> set[str]:
    if host == "localhost":
        return {"127.0.0.1", "::1"}
    try:
        return {str(info[4][0]) for info in socket.getaddrinfo(host, None)}
    except (OSError, ValueError):
        return set()
