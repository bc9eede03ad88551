"""Compares a KubeSchedulerConfiguration with the file that kubextend would generate.

``scheduler_configuration`` generates the wanted text. The classes of this module parse the file and
the wanted text. These classes refuse unknown fields, because kube-scheduler does not start with a
file that has an unknown field.
"""

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import dropwhile
from pathlib import Path
from typing import Final, NamedTuple, get_args
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError
from pydantic.alias_generators import to_camel

from kubextend.config.duration import Duration
from kubextend.config.issues import Findings, Location, issues_of
from kubextend.config.loader import without_nulls
from kubextend.config.model import ExtenderConfiguration, GoDuration, ManagedResource, VerbName
from kubextend.config.resolve import DEFAULT_SCHEDULER_NAME
from kubextend.config.scheduler import LEASE_NAME, scheduler_configuration
from kubextend.config.scheduler_file import (
    BETA_API_VERSIONS,
    SCHEDULER_API_VERSIONS,
    SCHEDULER_KIND,
    check_fields,
)
from kubextend.config.yaml_document import read_document, read_file
from kubextend.errors import Issue

__all__ = [
    "SchedulerDifferences",
    "scheduler_differences",
    "scheduler_lease",
    "scheduler_names",
]

# Source: kube-scheduler v0.36 pkg/scheduler/extender.go DefaultExtenderTimeout
_DEFAULT_TIMEOUT: Final = Duration.parse("5s")
_VERBS: Final[tuple[VerbName, ...]] = get_args(VerbName)
# Fields that v1 no longer has; source: kube-scheduler v0.25 config/v1/types.go.
_BETA_FIELDS: Final = frozenset({"healthzBindAddress", "metricsBindAddress"})

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
_ASKED_TWICE: Final[Mapping[VerbName, str]] = {
    "filter": "each pod is filtered twice",
    "preempt": "each preemption is judged twice",
    "prioritize": "the scores count twice",
    "bind": "kube-scheduler refuses a second bindVerb and does not start",
}


class _Read(BaseModel):
    """Base of the models that parse a KubeSchedulerConfiguration.

    An absent field has kube-scheduler's default; an unknown field is an error.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, alias_generator=to_camel)


class _TLS(_Read):
    insecure: bool = False
    server_name: str = ""
    ca_file: str = ""
    ca_data: str = ""
    cert_file: str = ""
    cert_data: str = ""
    key_file: str = ""
    key_data: str = ""


class _Entry(_Read):
    """Parses an extender entry; source: kube-scheduler v0.36 config/v1/types.go Extender."""

    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    bind_verb: str = ""
    weight: int = 0
    enable_https: bool = Field(default=False, alias="enableHTTPS")
    tls_config: _TLS = _TLS()
    http_timeout: GoDuration = Duration(0)
    node_cache_capable: bool = False
    managed_resources: tuple[ManagedResource, ...] = ()
    ignorable: bool = False

    @property
    def url(self) -> str:
        """The urlPrefix without a slash at its end; kube-scheduler appends ``/`` and the verb."""
        return self.url_prefix.rstrip("/")

    @property
    def verbs(self) -> Mapping[VerbName, str]:
        """The verbs that kube-scheduler calls by this entry: verb -> end of the verb's URL."""
        values = (self.filter_verb, self.preempt_verb, self.prioritize_verb, self.bind_verb)
        return {verb: value for verb, value in zip(_VERBS, values, strict=True) if value}

    @property
    def timeout(self) -> Duration:
        """How long kube-scheduler waits for a response: httpTimeout, or 5 s if that is 0."""
        return self.http_timeout if self.http_timeout > Duration(0) else _DEFAULT_TIMEOUT


class _PluginSet(_Read):
    """Parses the plugins of one extension point in a profile; does not look at ``disabled``."""

    enabled: tuple[dict[str, JsonValue], ...] = ()
    disabled: JsonValue = None


class _Profile(_Read):
    scheduler_name: str = ""
    percentage_of_nodes_to_score: int | None = None
    plugins: dict[str, _PluginSet] = {}
    plugin_config: JsonValue = None


class _Election(_Read):
    """Parses ``leaderElection``; defaults: kube-scheduler v0.36 apis/config/v1/defaults.go."""

    leader_elect: bool = True
    lease_duration: JsonValue = None
    renew_deadline: JsonValue = None
    retry_period: JsonValue = None
    resource_lock: JsonValue = None
    resource_name: str = "kube-scheduler"
    resource_namespace: str = "kube-system"


class _Connection(_Read):
    kubeconfig: str = ""
    accept_content_types: JsonValue = None
    content_type: JsonValue = None
    qps: JsonValue = None
    burst: JsonValue = None


class _SchedulerConfiguration(_Read):
    """Parses top-level fields that concern kubextend; ``check_fields`` refuses unknown ones."""

    model_config = ConfigDict(extra="ignore")

    percentage_of_nodes_to_score: int | None = None
    leader_election: _Election = _Election()
    client_connection: _Connection = _Connection()
    profiles: tuple[_Profile, ...] = ()
    extenders: tuple[_Entry, ...] = ()

    def named_profiles(self) -> Iterator[tuple[str, int]]:
        """Yield the schedulerName and index of each profile.

        The name is ``default-scheduler`` if there are no profiles, or a single profile without a
        name; of several profiles, one without a name has "".
        """
        for index, profile in enumerate(self.profiles or [_Profile()]):
            default = DEFAULT_SCHEDULER_NAME if len(self.profiles) <= 1 else ""
            yield profile.scheduler_name or default, index

    def says_percentage(self, index: int) -> bool:
        """Return whether a profile, or the file for all profiles, sets percentageOfNodesToScore.

        Args:
            index: index of the profile in ``profiles``.
        """
        own = self.profiles[index].percentage_of_nodes_to_score if self.profiles else None
        return own is not None or self.percentage_of_nodes_to_score is not None

    def percentage(self, index: int) -> tuple[Location, int]:
        """Return the location and the value of a profile's percentageOfNodesToScore.

        The value 0 makes kube-scheduler stop at a sample of the nodes.

        Args:
            index: index of the profile in ``profiles``.
        """
        own = self.profiles[index].percentage_of_nodes_to_score if self.profiles else None
        if own is not None:
            return ("profiles", index, "percentageOfNodesToScore"), own
        return ("percentageOfNodesToScore",), self.percentage_of_nodes_to_score or 0


class _Pair(NamedTuple):
    """An extender entry of the file and the wanted entry with which it is compared.

    Attributes:
        at: the location of the found entry in the file.
        found: the entry in the file.
        wanted: the entry that kubextend would generate.
        verbs: the verbs that the found and the wanted entry have in common.
    """

    at: Location
    found: _Entry
    wanted: _Entry
    verbs: frozenset[VerbName]

    @property
    def preempts(self) -> bool:
        """Whether the wanted entry is that of preempt alone."""
        return self.wanted.verbs.keys() == {"preempt"}


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
    are not compared, but unknown fields in them are issues.

    Args:
        config: a checked configuration of kubextend.
        file: the path of a KubeSchedulerConfiguration; ``-`` for standard input.

    Raises: ConfigError: the file cannot be read, or kube-scheduler could not reach or verify the
        server with any file.
    """
    data, source = read_file(file)
    tree = read_document(data, source)
    findings = Findings()
    found = _read(tree, findings)
    if found is not None:
        text = scheduler_configuration(config)
        wanted = _SchedulerConfiguration.model_validate_json(
            json.dumps(read_document(text.encode(), "what scheduler-config writes"))
        )
        comparison = _Comparison(config, found, wanted, findings)
        comparison.extenders()
        comparison.profiles()
        comparison.plugins()
        comparison.percentages()
        comparison.election()
        _note_where_it_starts(tree.get("apiVersion"), found, findings)
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
    found = _read(read_document(*read_file(file)), Findings())
    return frozenset() if found is None else frozenset(name for name, _ in found.named_profiles())


def scheduler_lease(file: str | Path) -> tuple[str, str] | None:
    """Return namespace and name of kube-scheduler's Lease; None if its file asks for no leader.

    Raises: ConfigError: the file cannot be read.
    """
    found = _read(read_document(*read_file(file)), Findings())
    if found is None or not found.leader_election.leader_elect:
        return None
    return found.leader_election.resource_namespace, found.leader_election.resource_name


def _read(tree: Mapping[str, JsonValue], findings: Findings) -> _SchedulerConfiguration | None:
    kind, version = tree.get("kind"), tree.get("apiVersion")
    if kind != SCHEDULER_KIND:
        findings.complain(("kind",), "is not a kube-scheduler's", kind, f"kind: {SCHEDULER_KIND}")
        return None
    if version not in SCHEDULER_API_VERSIONS:
        hint = f"apiVersion: {' or '.join(SCHEDULER_API_VERSIONS)}"
        findings.complain(("apiVersion",), f"no such version of {kind} is known", version, hint)
    check_fields(tree, findings)
    if version not in BETA_API_VERSIONS:
        for field in _BETA_FIELDS & tree.keys():
            message = f'unknown field "{field}": kube-scheduler refuses it and does not start'
            findings.complain((field,), message, tree[field], f"leave {field} out")
    try:
        return _SchedulerConfiguration.model_validate_json(json.dumps(without_nulls(dict(tree))))
    except ValidationError as error:
        findings.issues += issues_of(error, _SchedulerConfiguration)
        return None


def _note_where_it_starts(
    version: JsonValue, found: _SchedulerConfiguration, findings: Findings
) -> None:
    if isinstance(version, str) and (releases := BETA_API_VERSIONS.get(version)):
        message = f"only kube-scheduler {releases} reads {version}; 1.25 and later read v1"
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
        found: _SchedulerConfiguration,
        wanted: _SchedulerConfiguration,
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
        wanted = [entry for entry in self._wanted.extenders if entry.url == url]
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
            if entry.url != url:
                message = f"kubextend answers at {url}: every call fails"
                self._complain((*at, "urlPrefix"), message, entry.url_prefix, f"urlPrefix: {url}")
        for verb in _VERBS:
            self._verb(verb, ours, next((entry for entry in wanted if verb in entry.verbs), None))
        self._last_filter(ours)
        for pair in _pairs(ours, wanted):
            if pair.preempts and len(pair.found.verbs) > 1:
                self._preempt_beside(pair)
                continue
            self._timeout(pair)
            self._nodes(pair)
            self._weight(pair)
            self._ignorable(pair)
            self._managed_resources(pair)
            self._tls(pair)

    def _verb(
        self, verb: VerbName, ours: Sequence[tuple[Location, _Entry]], wanted: _Entry | None
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
            message = f"{_ASKED_TWICE[verb]}, as another entry has it too"
            self._complain(at, message, value, f"leave {field} out of one entry")

    def _last_filter(self, ours: Sequence[tuple[Location, _Entry]]) -> None:
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

    def _preempt_beside(self, pair: _Pair) -> None:
        """Note what happens where preempt shares an entry, which was written so before.

        kubextend answers the requests of such an entry as ever.
        """
        message = (
            "not in an entry of its own: kube-scheduler 1.37 refuses an answer about a pod group "
            "with the disruptionMode all that is on several nodes, and "
        ) + ("evicts pods unjudged" if pair.found.ignorable else "never evicts the group")
        self._note((*pair.at, "preemptVerb"), message)

    def _timeout(self, pair: _Pair) -> None:
        found, right = pair.found.timeout, pair.wanted.timeout
        binds = "bind" in pair.verbs
        if found == right:
            return
        if found < right and binds:
            held = self._config.extender.permit_max_wait
            message = f"kube-scheduler gives up a bind before Permit's limit, {held}, has passed"
        elif found < right and pair.preempts:
            message = "kube-scheduler evicts pods unjudged where the answer comes later"
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
        if pair.preempts:
            message = (
                "requests do not say where victims are: kube-scheduler refuses an answer with one "
                "on another node, and evicts pods unjudged"
            )
        elif found:
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
        if "prioritize" not in pair.verbs or found == right:
            return
        message = (
            "kube-scheduler refuses it beside prioritizeVerb and does not start"
            if found <= 0
            else f"the scores hold the plugins' weights already and count {found} times as much"
        )
        self._complain((*pair.at, "weight"), message, found, f"weight: {right}")

    def _ignorable(self, pair: _Pair) -> None:
        found, right = pair.found.ignorable, pair.wanted.ignorable
        if found == right:
            return
        if pair.preempts:
            message = "kube-scheduler never evicts a pod group that is on several nodes"
        elif not found:
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
        if not pair.wanted.enable_https or not pair.found.url.startswith("https:"):
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
        if found.server_name != right.server_name:
            message = "the server's certificate is judged by another name"
            hint = f"serverName: {right.server_name}" if right.server_name else "leave it out"
            self._complain((*at, "serverName"), message, found.server_name, hint)

    def _file(self, at: Location, found: str, right: str, otherwise: str) -> None:
        if right and found != right:
            message = f"{otherwise}, and every call fails, unless both files hold the same"
            self._complain(at, message if found else otherwise, found, f"{at[-1]}: {right}")

    def profiles(self) -> None:
        """Check that kube-scheduler's and kubextend's profiles have the same schedulerNames."""
        found = dict(self._found.named_profiles())
        ours = [profile.scheduler_name for profile in self._config.resolved]
        for name in ours:
            if name not in found:
                message = f"no profile has schedulerName {name}: its pods stay pending for ever"
                hint = f"schedulerName: {name}"
                self._complain(("profiles",), message, list(found), hint)
        for name, index in self._found.named_profiles():
            if name and index != found[name]:
                again: Location = ("profiles", found[name], "schedulerName")
                message = "Duplicate value: kube-scheduler does not start"
                self._complain(again, message, name, f"profiles[{index}] has this name already")
        for name, index in found.items():
            if name not in ours and self._wanted.extenders:
                at: Location = ("profiles", index, "schedulerName")
                message = "no profile here has this name: its pods are placed untouched by plugins"
                hint = (
                    f"one of {', '.join(ours)}; or, if that is meant, a profile "
                    f"`schedulerName: {name}` without plugins in kubextend's configuration"
                )
                self._complain(at, message, name, hint)

    def plugins(self) -> None:
        """Check that kube-scheduler's profiles in the file enable no plugin of kubextend."""
        ours = {name for profile in self._config.resolved for name in profile.args}
        for index, profile in enumerate(self._found.profiles):
            for point, plugins in profile.plugins.items():
                for place, plugin in enumerate(plugins.enabled):
                    name = plugin.get("name")
                    if name not in ours:
                        continue
                    at: Location = ("profiles", index, "plugins", point, "enabled", place, "name")
                    message = "kube-scheduler has no plugin of this name and does not start"
                    hint = "take it out here: kubextend runs it, and extenders calls kubextend"
                    self._complain(at, message, name, hint)

    def percentages(self) -> None:
        """Check that each profile has the percentageOfNodesToScore that kubextend would write."""
        wanted = {
            name: self._wanted.percentage(at)[1]
            for name, at in self._wanted.named_profiles()
            if self._wanted.says_percentage(at)
        }
        seen: set[Location] = set()
        for name, index in self._found.named_profiles():
            at, found = self._found.percentage(index)
            right = wanted.get(name, found)
            if found == right or at in seen or not self._wanted.extenders:
                continue
            seen.add(at)
            message = (
                "kube-scheduler stops at a sample of the nodes, which may hold none that a plugin "
                "accepts, and not the best"
                if found < right
                else f"profile {name} is to look at {right or 'a default'} percent of the nodes"
            )
            self._complain(at, message, found, f"percentageOfNodesToScore: {right}")

    def election(self) -> None:
        """Check that a second kube-scheduler does not use the default kube-scheduler's Lease."""
        found, wanted = self._found.leader_election, self._wanted.leader_election
        default = _Election()
        if not found.leader_elect or (found.resource_name, found.resource_namespace) != (
            default.resource_name,
            default.resource_namespace,
        ):
            return
        at: Location = ("leaderElection", "resourceName")
        if DEFAULT_SCHEDULER_NAME in [name for name, _ in self._found.named_profiles()]:
            message = (
                f"with a profile {DEFAULT_SCHEDULER_NAME}, this kube-scheduler takes the place of "
                "the cluster's own, whose Lease it uses: beside that one it waits for ever"
            )
            self._note(at, message)
        elif found != wanted:
            message = "the cluster's own kube-scheduler holds this lease: this one waits for ever"
            self._complain(at, message, found.resource_name, f"resourceName: {LEASE_NAME}")


def _entries_for(
    url: str, entries: Sequence[_Entry], *, any_path: bool
) -> list[tuple[Location, _Entry]]:
    """Return the extender entries of kubextend, with their locations in the file.

    Args:
        url: the URL of kubextend's verbs.
        entries: all extender entries of the file.
        any_path: whether entries with another path on the server of ``url`` count, if no entry has
            exactly that URL.
    """
    placed: list[tuple[Location, _Entry]] = [
        (("extenders", index), entry) for index, entry in enumerate(entries)
    ]
    exact = [each for each in placed if each[1].url == url]
    if exact or not any_path:
        return exact
    return [each for each in placed if _server(each[1].url) == _server(url)]


def _server(url: str) -> str:
    """Return host and port of a URL in lower case, with 127.0.0.1 for localhost; "" for no URL."""
    try:
        return urlsplit(url).netloc.casefold().replace("localhost", "127.0.0.1")
    except ValueError:
        return ""


def _pairs(ours: Sequence[tuple[Location, _Entry]], wanted: Sequence[_Entry]) -> Iterator[_Pair]:
    for at, found in ours:
        for right in wanted:
            if verbs := frozenset(found.verbs.keys() & right.verbs.keys()):
                yield _Pair(at, found, right, verbs)
