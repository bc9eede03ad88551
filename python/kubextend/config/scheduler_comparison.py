"""Compares a KubeSchedulerConfiguration with the file that kubextend would generate.

``scheduler_configuration`` generates the wanted text.
"""

import dataclasses
import json
import socket
from collections.abc import Iterator, Mapping, Sequence
from itertools import dropwhile
from pathlib import Path
from typing import Final, NamedTuple, Self
from urllib.parse import urlsplit

from kubextend.config.issues import Findings, Location
from kubextend.config.kube_versions import BETA_API_VERSIONS
from kubextend.config.model import ExtenderConfiguration, VerbName
from kubextend.config.resolve import DEFAULT_SCHEDULER_NAME
from kubextend.config.scheduler import LEASE_NAME, scheduler_configuration
from kubextend.config.scheduler_file import (
    VERBS,
    Election,
    ExtenderEntry,
    SchedulerConfiguration,
    read_scheduler_configuration,
)
from kubextend.config.scheduler_validation import validate
from kubextend.config.yaml_document import read_document, read_file
from kubextend.errors import Issue

__all__ = [
    "SchedulerDifferences",
    "scheduler_differences",
    "scheduler_lease",
    "scheduler_names",
]

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
_ASKED_TWICE: Final[Mapping[VerbName, str]] = {  # of bind, scheduler_validation tells
    "filter": "each pod is filtered twice",
    "preempt": "each preemption is judged twice",
    "prioritize": "the scores count twice",
}


class _Pair(NamedTuple):
    """An extender entry of the file and the wanted entry with which it is compared.

    Attributes:
        at: the location of the found entry in the file.
        found: the entry in the file.
        wanted: the entry that kubextend would generate.
        verbs: the verbs that the found and the wanted entry have in common.
    """

    at: Location
    found: ExtenderEntry
    wanted: ExtenderEntry
    verbs: frozenset[VerbName]


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


def scheduler_differences(config: ExtenderConfiguration, file: str | Path) -> SchedulerDifferences:
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
    tree = read_document(data, source)
    findings = Findings()
    found = read_scheduler_configuration(tree, findings)
    if found is not None:
        ours = {name for profile in config.resolved for name in profile.args}
        validate(found, ours, findings)
        text = scheduler_configuration(config)
        wanted = SchedulerConfiguration.model_validate_json(
            json.dumps(read_document(text.encode(), "what scheduler-config writes"))
        )
        comparison = _Comparison(config, found, wanted, findings)
        comparison.extenders()
        comparison.profiles()
        comparison.percentages()
        comparison.election()
        _note_where_it_starts(found, findings)
    return SchedulerDifferences(
        tuple(
            dataclasses.replace(issue, path=f"{source}: {issue.path}") for issue in findings.issues
        ),
        tuple(f"{source}: {note}" for note in findings.notes),
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
        message = (
            f"only kube-scheduler {releases} reads {found.api_version}; 1.25 and later read v1. "
            "The names and arguments of its own plugins were not checked"
        )
        findings.note(("apiVersion",), message)
    if not found.client_connection.kubeconfig:
        message = "none, so kube-scheduler starts only inside a cluster"
        findings.note(("clientConnection", "kubeconfig"), message)


class _Comparison:
    """Compares a KubeSchedulerConfiguration with the wanted file, one method for each section.

    Args:
        config: kubextend's configuration.
        found: the parsed file.
        wanted: the parsed text that kubextend would generate.
        findings: gets the issues.
    """

    def __init__(
        self,
        config: ExtenderConfiguration,
        found: SchedulerConfiguration,
        wanted: SchedulerConfiguration,
        findings: Findings,
    ) -> None:
        self._config = config
        self._found = found
        self._wanted = wanted
        self._complain = findings.complain
        self._note = findings.note

    def extenders(self) -> None:
        """Check urlPrefix, verbs, timeouts and other settings of kubextend's extender entries."""
        url = self._config.url_prefix
        wanted = self._wanted.extenders
        ours = _entries_for(url, self._found.extenders, any_path=bool(wanted))
        if wanted and not ours:
            message = f"none has the urlPrefix {url}: kube-scheduler never asks kubextend"
            urls = [entry.url_prefix for entry in self._found.extenders]
            hint = (
                "put in what `kubextend scheduler-config` writes, or set extender.urlPrefix to "
                "the address that kube-scheduler calls"
            )
            self._complain(("extenders",), message, urls, hint)
            return
        for at, entry in ours:
            if not _same_url(entry.url, url):
                message = f"kubextend answers at {url}: every call fails"
                self._complain((*at, "urlPrefix"), message, entry.url_prefix, f"urlPrefix: {url}")
        for verb in VERBS:
            self._verb(verb, ours, next((entry for entry in wanted if verb in entry.verbs), None))
        self._last_filter(ours)
        for pair in _pairs(ours, wanted):
            self._timeout(pair)
            self._nodes(pair)
            self._weight(pair)
            self._ignorable(pair)
            self._managed_resources(pair)
            self._tls(pair)

    def _verb(
        self,
        verb: VerbName,
        ours: Sequence[tuple[Location, ExtenderEntry]],
        wanted: ExtenderEntry | None,
    ) -> None:
        """Compare one verb.

        Args:
            verb: the verb.
            ours: kubextend's entries of the file, with their locations.
            wanted: the wanted entry that has the verb; None if kubextend does not serve the verb.
        """
        field = f"{verb}Verb"
        having = [((*at, field), entry.verbs[verb]) for at, entry in ours if verb in entry.verbs]
        if wanted and not having:
            message = f"Required value: {_NEVER_ASKED[verb]}"
            alike = (at for at, entry in ours if entry.verbs.keys() & wanted.verbs.keys())
            at = next(alike, ("extenders",))
            self._complain((*at, field), message, None, f"{field}: {verb}")
        for at, value in having:
            if not wanted:
                message = f"nothing here needs {verb}, so the answer is 404: {_FAILS[verb]}"
                self._complain(at, message, value, f"leave {field} out")
            elif value != verb:
                message = f"kubextend answers 404 there: {_FAILS[verb]}"
                self._complain(at, message, value, f"{field}: {verb}")
        for at, value in having[1:]:
            if verb in _ASKED_TWICE:
                message = f"{_ASKED_TWICE[verb]}, as another entry has it too"
                self._complain(at, message, value, f"leave {field} out of one entry")

    def _last_filter(self, ours: Sequence[tuple[Location, ExtenderEntry]]) -> None:
        """Compare extender.lastFilter with the entries that kube-scheduler calls after ours."""
        # The entries with ignorable: true are called after all others.
        called = sorted(enumerate(self._found.extenders), key=lambda each: each[1].ignorable)
        filters = [(("extenders", index), entry) for index, entry in called if entry.filter_verb]
        ours_on = [*dropwhile(lambda each: each not in ours, filters)]
        declared = self._config.extender.last_filter
        if len(ours_on) == 1 and not declared:
            message = "called last, so extender.lastFilter: true may shorten filter's answers"
            self._note((*ours_on[0][0], "filterVerb"), message)
        for at, later in ours_on[1:] if declared else ():
            message = (
                f"kube-scheduler calls {later.url} after kubextend: nodes that extender.lastFilter "
                "leaves out have no reasons then, and no pod is evicted from them"
            )
            hint = "lastFilter: false; or call it before kubextend: ignorable entries are last"
            self._complain((*at, "filterVerb"), message, later.filter_verb, hint)

    def _timeout(self, pair: _Pair) -> None:
        found, right = pair.found.timeout, pair.wanted.timeout
        binds = "bind" in pair.verbs
        if found == right:
            return
        if found < right and binds:
            held = self._config.extender.permit_max_wait
            message = f"kube-scheduler gives up a bind before Permit's limit, {held}, has passed"
        elif found < right:
            message = (
                "kube-scheduler gives up before kubextend answers in the place of a plugin that "
                "hangs, so failurePolicy has no say"
            )
        elif binds:
            message = f"a bind whose answer is lost keeps its place on the node for {found}"
        else:
            message = f"one call that hangs holds up the scheduling of all pods for {found}"
        self._complain((*pair.at, "httpTimeout"), message, str(found), f"httpTimeout: {right}")

    def _nodes(self, pair: _Pair) -> None:
        found, right = pair.found.node_cache_capable, pair.wanted.node_cache_capable
        if found == right or pair.verbs == {"bind"}:
            return
        if found:
            message = (
                "requests carry names of nodes, and kubextend watches no nodes: every call is an "
                "error"
            )
        else:
            message = (
                "requests carry whole nodes: megabytes for each pod, and kube-scheduler 1.33 and "
                "later scores by resources as if every node were empty "
                "(kubernetes/kubernetes#141781)"
            )
        hint = f"nodeCacheCapable: {json.dumps(right)}"
        self._complain((*pair.at, "nodeCacheCapable"), message, found, hint)

    def _weight(self, pair: _Pair) -> None:
        found, right = pair.found.weight, pair.wanted.weight
        if "prioritize" in pair.verbs and found > right:
            message = (
                f"the scores hold the plugins' weights already and count {found} times as much"
            )
            self._complain((*pair.at, "weight"), message, found, f"weight: {right}")

    def _ignorable(self, pair: _Pair) -> None:
        found, right = pair.found.ignorable, pair.wanted.ignorable
        if found == right:
            return
        if not found:
            message = "while kubextend does not answer, no pod is placed"
        elif pair.verbs == {"preempt"}:
            message = "while kubextend does not answer, kube-scheduler evicts pods unjudged"
        elif "bind" in pair.verbs:
            message = "a bind that kubextend refuses is done by kube-scheduler all the same"
        else:
            message = (
                "while kubextend does not answer or answers an error, pods are placed as if it had "
                "no plugins"
            )
        hint = f"ignorable: {json.dumps(right)}"
        self._complain((*pair.at, "ignorable"), message, found, hint)

    def _managed_resources(self, pair: _Pair) -> None:
        found, right = set(pair.found.managed_resources), set(pair.wanted.managed_resources)
        if found == right:
            return
        at: Location = (*pair.at, "managedResources")
        value = [each.model_dump() for each in pair.found.managed_resources]
        names = {each.name for each in pair.found.managed_resources}
        if names == {each.name for each in right}:
            message = "kube-scheduler's NodeResourcesFit counts other resources than configured"
        elif names:
            message = f"kubextend hears only of pods that ask for {', '.join(sorted(names))}"
        else:
            message = "kubextend is asked about every pod, not only those that ask for a resource"
        wanted = [each.model_dump() for each in pair.wanted.managed_resources]
        hint = f"managedResources: {json.dumps(wanted)}" if wanted else "leave managedResources out"
        self._complain(at, message, value, hint)

    def _tls(self, pair: _Pair) -> None:
        """Compare the field tlsConfig of two extender entries that both use https.

        If only one entry uses https, that is reported as a wrong urlPrefix elsewhere.
        """
        found, right = pair.found.tls_config, pair.wanted.tls_config
        url = _Url.of(pair.found.url)
        if not pair.wanted.enable_https or url.scheme != "https":
            return
        at: Location = (*pair.at, "tlsConfig")
        if found.insecure or (pair.found.enable_https and not found.ca_file + found.ca_data):
            message = "kube-scheduler verifies nothing: whoever answers there decides on pods"
            hint = f"insecure: false and caFile: {right.ca_file}"
            self._complain((*at, "insecure"), message, found.insecure, hint)
        elif not found.ca_data:
            self._file((*at, "caFile"), found.ca_file, right.ca_file, "the server is not trusted")
        if not found.cert_data:
            refused = "the server refuses kube-scheduler's certificate"
            self._file((*at, "certFile"), found.cert_file, right.cert_file, refused)
        if not found.key_data:
            message = "the key has to be that of certFile"
            self._file((*at, "keyFile"), found.key_file, right.key_file, message)
        name = right.server_name or _Url.of(pair.wanted.url).host
        if (found.server_name or url.host) != name:
            message = "the server's certificate is judged by another name"
            hint = f"serverName: {name}"
            self._complain((*at, "serverName"), message, found.server_name, hint)

    def _file(self, at: Location, found: str, right: str, otherwise: str) -> None:
        if right and found != right:
            message = f"{otherwise}, and every call fails, unless both files hold the same"
            self._complain(at, message if found else otherwise, found, f"{at[-1]}: {right}")

    def profiles(self) -> None:
        """Check that kubextend knows the schedulerName of each of kube-scheduler's profiles."""
        found = dict(self._found.named_profiles())
        ours = [profile.scheduler_name for profile in self._config.resolved]
        for name in ours:
            if name not in found:
                message = f"no profile has schedulerName {name}: its pods stay pending for ever"
                self._complain(("profiles",), message, list(found), f"schedulerName: {name}")
        for name in self._config.pass_through:
            if name not in found:
                self._note(("profiles",), f"none has schedulerName {name}, which passThrough lists")
        for name, index in found.items():
            if name not in (*ours, *self._config.pass_through) and self._wanted.extenders:
                at: Location = ("profiles", index, "schedulerName")
                message = "no profile of kubextend has this name: filter and bind reject its pods"
                hint = f"one of {', '.join(ours)}, or passThrough: [{name}] in kubextend's file"
                self._complain(at, message, name, hint)

    def percentages(self) -> None:
        """Check that each profile has the percentageOfNodesToScore that kubextend would write."""
        wanted = {
            name: self._wanted.percentage(at)[1] for name, at in self._wanted.named_profiles()
        }
        seen: set[Location] = set()
        for name, index in self._found.named_profiles():
            # The value 0 makes kube-scheduler stop at a sample of the nodes.
            at, found = self._found.percentage(index)[0], self._found.percentage(index)[1] or 0
            right = None if name in self._config.pass_through else wanted.get(name)
            if right in {None, found} or at in seen or not self._wanted.extenders:
                continue
            seen.add(at)
            message = (
                "kube-scheduler stops at a sample of the nodes, which may hold none that a plugin "
                "accepts, and not the best"
                if found < (right or 0)
                else f"profile {name} is to look at {right or 'a default'} percent of the nodes"
            )
            self._complain(at, message, found, f"percentageOfNodesToScore: {right}")

    def election(self) -> None:
        """Check that a second kube-scheduler does not use the default kube-scheduler's Lease."""
        found, wanted = self._found.leader_election, self._wanted.leader_election
        if not found.leader_elect or found.lease != Election().lease:
            return
        at: Location = ("leaderElection", "resourceName")
        if DEFAULT_SCHEDULER_NAME in [name for name, _ in self._found.named_profiles()]:
            message = (
                f"with a profile {DEFAULT_SCHEDULER_NAME}, this kube-scheduler takes the place of "
                "the cluster's own, whose Lease it uses: beside that one it waits for ever"
            )
            self._note(at, message)
        elif found.lease != wanted.lease:
            message = "the cluster's own kube-scheduler holds this lease: this one waits for ever"
            self._complain(at, message, found.lease[1], f"resourceName: {LEASE_NAME}")


def _entries_for(
    url: str, entries: Sequence[ExtenderEntry], *, any_path: bool
) -> list[tuple[Location, ExtenderEntry]]:
    """Return the extender entries of kubextend, with their locations in the file.

    Args:
        url: the URL of kubextend's verbs.
        entries: all extender entries of the file.
        any_path: whether entries with another path on the server of ``url`` count, if no entry has
            exactly that URL.
    """
    placed: list[tuple[Location, ExtenderEntry]] = [
        (("extenders", index), entry) for index, entry in enumerate(entries)
    ]
    exact = [each for each in placed if _same_url(each[1].url, url)]
    if exact or not any_path:
        return exact
    return [each for each in placed if _Url.of(each[1].url).has_server_of(_Url.of(url))]


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


def _pairs(
    ours: Sequence[tuple[Location, ExtenderEntry]], wanted: Sequence[ExtenderEntry]
) -> Iterator[_Pair]:
    for at, found in ours:
        for right in wanted:
            if verbs := frozenset(found.verbs.keys() & right.verbs.keys()):
                yield _Pair(at, found, right, verbs)
