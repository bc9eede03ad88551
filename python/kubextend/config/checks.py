"""Checks of a configuration that compare several fields, or that open the files it names.

When these checks run, each field has passed its own check. Files are opened only to see whether
they are readable.
"""

import ipaddress
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import get_args
from urllib.parse import SplitResult, urlsplit

from kubextend.config.duration import Duration
from kubextend.config.issues import Findings, Location
from kubextend.config.model import ExtenderConfiguration, VerbName

__all__ = ["check", "is_extended_resource", "is_loopback", "is_wildcard"]

_EVERY_NODE = 100
_LONG_TIMEOUT = Duration.parse("10s")
_LONGEST_PERMIT_WAIT = Duration.parse("15m")
# Kubernetes kills a container 30 s after SIGTERM, and requests in flight need some of that time.
_LONGEST_DRAIN_DELAY = Duration.parse("20s")
_QUALIFIED_NAME = re.compile(
    r"(?P<domain>[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*)"
    r"/[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)
# The longest DNS name, less the "requests." that a quota puts before it.
_MAX_DOMAIN = 253 - len("requests.")


def check(
    config: ExtenderConfiguration,
    findings: Findings,
    *,
    runs_here: bool,
) -> None:
    """Check the fields of a configuration against each other; add the issues to ``findings``.

    Args:
        config: the resolved configuration.
        findings: gets the issues and notes.
        runs_here: True makes an unreadable file an issue; False makes it a note.
    """
    checks = _Checks(config, findings, runs_here=runs_here)
    checks.server()
    checks.server_limits()
    checks.server_lease()
    checks.server_tls()
    checks.waiting_pods()
    checks.decisions()
    checks.cluster()
    checks.url_prefix()
    checks.extender()
    checks.permit_max_wait()
    checks.autoscaler()
    checks.managed_resources()
    checks.queue()
    checks.profiles()


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a server that listens on ``host``."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_wildcard(host: str) -> bool:
    """Return whether ``host`` is a wildcard address, ``0.0.0.0`` or ``::``.

    A server can listen on such an address, but a client cannot connect to it.
    """
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


class _Checks:
    """The checks of one configuration, one method for each section or concern."""

    def __init__(
        self,
        config: ExtenderConfiguration,
        findings: Findings,
        *,
        runs_here: bool,
    ) -> None:
        self._runs_here = runs_here
        self._config = config
        self._findings = findings

    def server(self) -> None:
        server = self._config.server
        same_port = server.port == server.health_port
        if same_port and _overlap(server.host, server.health_host or server.host):
            message = "must not be the port of the verbs"
            hint = "null serves health and metrics on server.port"
            self._complain(("server", "healthPort"), message, server.health_port, hint)
        if server.health_host and not server.health_port:
            message = "needs server.healthPort"
            self._complain(("server", "healthHost"), message, server.health_host)
        guarded = [verb for verb in self._config.verbs if verb in {"bind", "preempt"}]
        open_to_all = not server.insecure and not server.tls.client_ca_file
        if guarded and open_to_all and not is_loopback(server.host):
            verbs = " and ".join(guarded)
            message = f"other machines can reach it, so {verbs} must ask for client certificates"
            hint = (
                "set server.tls.certFile, keyFile and clientCAFile, or accept anyone with "
                "server.insecure: true"
            )
            self._complain(("server", "host"), message, server.host, hint)

    def server_limits(self) -> None:
        server = self._config.server
        if server.max_in_flight_bytes < server.max_body_bytes:
            message = f"must be at least maxBodyBytes, {server.max_body_bytes}"
            hint = "a body between the two would be refused for ever"
            at: Location = ("server", "maxInFlightBytes")
            self._complain(at, message, server.max_in_flight_bytes, hint)
        delay = server.drain_delay
        if not Duration(0) <= delay <= _LONGEST_DRAIN_DELAY:
            hint = "Kubernetes kills a container 30s after it told it to end"
            self._complain(("server", "drainDelay"), "must be 0s to 20s", str(delay), hint)

    def server_lease(self) -> None:
        config = self._config
        if config.server.lease is None:
            return
        if config.cluster is None:
            message = "Required value: server.lease names an object of the Kubernetes API"
            self._complain(("cluster",), message, hint="add cluster: {}")
        if not config.needs_leader:
            message = "no profile needs a leader: without it every replica answers"
            self._findings.note(("server", "lease"), message)

    def server_tls(self) -> None:
        tls = self._config.server.tls
        at: Location = ("server", "tls")
        self._need_both(at, tls.cert_file, tls.key_file)
        if tls.client_ca_file and not tls.cert_file:
            message = "client certificates need TLS"
            hint = "set certFile and keyFile too"
            self._complain((*at, "clientCAFile"), message, tls.client_ca_file, hint)
        self._need_readable((*at, "certFile"), tls.cert_file)
        self._need_readable((*at, "keyFile"), tls.key_file)
        self._need_readable((*at, "clientCAFile"), tls.client_ca_file)

    def waiting_pods(self) -> None:
        server = self._config.server
        waiting_pods = server.waiting_pods
        at: Location = ("server", "waitingPods")
        if waiting_pods is None:
            return
        names, token_file = waiting_pods.allowed_names, waiting_pods.token_file
        if not names and not token_file:
            hint = "set allowedNames to names of client certificates, or tokenFile, or both"
            self._complain(at, "names nobody who may decide on waiting pods", {}, hint)
        self._callers(at, names, token_file)
        if not any(profile.at("permit") for profile in self._config.resolved):
            self._findings.note(at, "no profile has a Permit plugin, so no pod will ever wait")

    def decisions(self) -> None:
        decisions = self._config.server.decisions
        at: Location = ("server", "decisions")
        names, token_file = decisions.allowed_names, decisions.token_file
        if (names or token_file) and not decisions.max_pods:
            hint = "set maxPods, or leave out allowedNames and tokenFile"
            self._complain((*at, "maxPods"), "records nothing that anybody could read", 0, hint)
        if decisions.page and not names and not token_file:
            hint = "set allowedNames to names of client certificates, or tokenFile, or both"
            self._complain((*at, "page"), "shows nothing, as nobody may read decisions", True, hint)
        self._callers(at, names, token_file)

    def _callers(self, at: Location, names: Sequence[str], token_file: str | None) -> None:
        """Check who may call: names of client certificates, and a file of bearer tokens."""
        for index, name in enumerate(names):
            if not name:
                self._complain((*at, "allowedNames", index), "must not be empty", name)
        if names and not self._config.server.tls.client_ca_file:
            message = "needs server.tls.clientCAFile: nobody else asks clients for a certificate"
            hint = "set server.tls.certFile, keyFile and clientCAFile, or use tokenFile"
            self._complain((*at, "allowedNames"), message, list(names), hint)
        if token_file:
            self._token_file((*at, "tokenFile"), token_file)

    def _token_file(self, at: Location, file: str) -> None:
        server = self._config.server
        open_to_all = not is_loopback(server.host) and not server.insecure
        if open_to_all and not server.tls.cert_file:
            message = "its tokens would cross the network in plain text"
            hint = "set server.tls.certFile and keyFile, or accept that with server.insecure: true"
            self._complain(at, message, file, hint)
        self._need_readable(at, file)

    def cluster(self) -> None:
        cluster, extender = self._config.cluster, self._config.extender
        if cluster:
            self._need_readable(("cluster", "kubeconfig"), cluster.kubeconfig)
            return
        if extender.node_cache_capable:
            message = "needs cluster: kube-scheduler would send names of unknown nodes"
            hint = "add cluster: {}, or set nodeCacheCapable: false"
            self._complain(("extender", "nodeCacheCapable"), message, value=True, hint=hint)
        if "bind" in self._config.verbs:
            message = "Required value: bind writes to the Kubernetes API"
            self._complain(("cluster",), message, hint="add cluster: {}")

    def url_prefix(self) -> None:
        extender = self._config.extender
        if extender.url_prefix is None:
            return
        at: Location = ("extender", "urlPrefix")
        complaint = _url_complaint(extender.url_prefix)
        if complaint:
            hint = "such as http://127.0.0.1:8888 or https://kubextend.example.svc:8888"
            self._complain(at, complaint, extender.url_prefix, hint)
            return
        url = urlsplit(extender.url_prefix)
        self._refuse_verb(at, url)
        ca_file = extender.tls_config.ca_file
        if url.scheme == "https" and not ca_file:
            message = "https needs tlsConfig.caFile: without a CA kube-scheduler verifies nothing"
            hint = "set extender.tlsConfig.caFile to a path on kube-scheduler's machine"
            self._complain(at, message, extender.url_prefix, hint)
        self._note_other_server(at, url)

    def _refuse_verb(self, at: Location, url: SplitResult) -> None:
        """Add an issue if a URL ends with a verb, to which kube-scheduler would add another.

        A server.path that ends so is no mistake.
        """
        path = url.path.rstrip("/")
        before, _, last = path.rpartition("/")
        if last not in get_args(VerbName) or path == self._config.server.path.rstrip("/"):
            return
        message = f"must not end with a verb: kube-scheduler would call {path}/{last}"
        hint = f"write {url._replace(path=before).geturl()}: kube-scheduler appends the verb itself"
        self._complain(at, message, self._config.extender.url_prefix, hint)

    def _note_other_server(self, at: Location, url: SplitResult) -> None:
        server = self._config.server
        if url.path.rstrip("/") != server.path.rstrip("/"):
            message = f"its path is not server.path, {server.path}: right only behind a proxy"
            self._findings.note(at, message)
        port = url.port or (443 if url.scheme == "https" else 80)
        if is_loopback(url.hostname or "") and port != server.port:
            message = f"its port is not server.port, {server.port}: right only behind a proxy"
            self._findings.note(at, message)
        if url.scheme != self._config.scheme:
            message = f"kubextend itself serves {self._config.scheme}: right only behind a proxy"
            self._findings.note(at, message)

    def extender(self) -> None:
        extender = self._config.extender
        self._need_both(
            ("extender", "tlsConfig"), extender.tls_config.cert_file, extender.tls_config.key_file
        )
        self._note_unverified()
        at: Location = ("extender", "httpTimeout")
        if extender.http_timeout.nanoseconds <= 0:
            message = "must be more than 0"
            hint = "kube-scheduler reads 0s as 5s"
            self._complain(at, message, str(extender.http_timeout), hint)
        elif extender.http_timeout > _LONG_TIMEOUT:
            self._findings.note(at, "one hanging call holds up all scheduling for that long")
        if extender.ignorable and "filter" in self._config.verbs:
            message = "while kubextend does not answer, pods are placed as if it had no plugins"
            self._findings.note(("extender", "ignorable"), message)

    def _note_unverified(self) -> None:
        """Add notes about missing fields that ``kubextend scheduler-config`` needs."""
        config = self._config
        if not config.verbs or not config.url_prefix.startswith("https:"):
            return
        message = "kube-scheduler needs it, as a path on its own machine; scheduler-config does too"
        tls = config.extender.tls_config
        # Beside a urlPrefix, a missing caFile is an issue.
        missing = [] if tls.ca_file or config.extender.url_prefix else ["caFile"]
        if config.server.tls.client_ca_file and not (tls.cert_file or tls.key_file):
            missing += ["certFile", "keyFile"]
        for field in missing:
            self._findings.note(("extender", "tlsConfig", field), f"not set: {message}")

    def autoscaler(self) -> None:
        at: Location = ("autoscaler", "markHeldPods")
        if not self._config.marks_held_pods:
            return
        if not any(profile.at("permit") for profile in self._config.resolved):
            self._findings.note(at, "no profile has a Permit plugin, so no pod will ever be held")

    def permit_max_wait(self) -> None:
        wait = self._config.extender.permit_max_wait
        if wait > _LONGEST_PERMIT_WAIT or wait <= Duration(0):
            hint = "kube-scheduler's own limit is 15m"
            at: Location = ("extender", "permitMaxWait")
            self._complain(at, "must be above 0 and at most 15m", str(wait), hint)

    def managed_resources(self) -> None:
        resources = self._config.extender.managed_resources
        at: Location = ("extender", "managedResources")
        counts = Counter[str]()
        for index, resource in enumerate(resources):
            where: Location = (*at, index, "name")
            counts[resource.name] += 1
            if not is_extended_resource(resource.name):
                message = "is an invalid extended resource name"
                self._complain(where, message, resource.name, "such as example.com/gpu")
            elif counts[resource.name] > 1:
                message = "duplicate extender managed resource name"
                self._complain(where, message, resource.name)
        names = [resource.name for resource in resources]
        if names and "bind" in self._config.verbs and len(self._config.verbs) > 1:
            message = (
                "cannot be told to kube-scheduler together with bind: bind is an extender entry of "
                "its own, and no two entries may name the same resource"
            )
            self._complain(at, message, names, "leave one of them out")

    def queue(self) -> None:
        config = self._config
        if not config.queues:
            if "queue" in config.model_fields_set:
                message = "not used: no profile enables a queueSort plugin"
                self._findings.note(("queue",), message)
            return
        if config.cluster is None:
            message = "Required value: the queue watches pods and takes their gates off"
            self._complain(("cluster",), message, hint="add cluster: {}")
        hold = config.queue.max_hold
        if hold <= Duration(0):
            hint = "how long an unschedulable pod may hold up those behind it, such as 60s"
            self._complain(("queue", "maxHold"), "must be more than 0", str(hold), hint)
        if config.queue.fair_queuing == "ByNamespace" and config.queue.window > 1:
            message = "kube-scheduler sorts a larger window, whatever the turns of namespaces"
            self._findings.note(("queue", "window"), message)

    def profiles(self) -> None:
        if not self._config.profiles:
            hint = "add a profile that enables a plugin"
            self._complain(("profiles",), "Required value", [], hint)
        for index, profile in enumerate(self._config.profiles):
            percentage = profile.percentage_of_nodes_to_score
            if percentage is not None and percentage < _EVERY_NODE:
                at: Location = ("profiles", index, "percentageOfNodesToScore")
                message = "kube-scheduler stops at a sample, which may hold no node that fits"
                self._findings.note(at, message)

    def _need_both(self, at: Location, cert_file: str | None, key_file: str | None) -> None:
        if cert_file and not key_file:
            self._complain((*at, "keyFile"), "must be set, because certFile is set")
        if key_file and not cert_file:
            self._complain((*at, "certFile"), "must be set, because keyFile is set")

    def _need_readable(self, at: Location, file: str | None) -> None:
        if not file:
            return
        try:
            with Path(file).open("rb") as opened:
                opened.read(1)
        except OSError as error:
            hint = _where_looked(file)
            message = f"cannot be read: {error.strerror or type(error).__name__}"
            if self._runs_here:
                self._complain(at, message, file, hint)
            else:
                wrong = f"; {hint}" if hint else ""
                self._findings.note(at, f"{file} {message}{wrong}; `kubextend serve` will need it")
        except ValueError as error:
            self._complain(at, f"is no name of a file: {error}", file)

    def _complain(self, at: Location, message: str, value: object = None, hint: str = "") -> None:
        self._findings.complain(at, message, value, hint)


def _overlap(host: str, other: str) -> bool:
    """Return whether two hosts share an address, so that two servers cannot use the same port."""
    loopback = {"localhost": "127.0.0.1"}
    same = loopback.get(host, host) == loopback.get(other, other)
    return same or is_wildcard(host) or is_wildcard(other)


def _where_looked(file: str) -> str:
    """Return where a file was looked for, if its path does not say so; else ""."""
    if file.startswith("~"):
        return "~ is not expanded here"
    if Path(file).is_absolute():
        return ""
    return f"looked for {Path(file).absolute()}"


def _url_complaint(text: str) -> str:
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError as error:
        return str(error)
    if url.scheme not in {"http", "https"}:
        return "must start with http:// or https://"
    if not url.hostname or port == 0:
        return "names no server"
    if url.username is not None or url.password is not None:
        return "must hold no credentials: kube-scheduler proves itself by certificate only"
    if url.query or url.fragment or set(text) & set(" \\?#"):
        return "must end with a path: kube-scheduler appends /filter and so on"
    return ""


def is_extended_resource(name: str) -> bool:
    """Return whether kube-scheduler accepts the name as an extended resource.

    Source: kubernetes v1.36 pkg/apis/core/v1/helper/helpers.go IsExtendedResourceName
    """
    matched = _QUALIFIED_NAME.fullmatch(name)
    native = "kubernetes.io/" in name or name.startswith("requests.")
    return matched is not None and not native and len(matched["domain"]) <= _MAX_DOMAIN
