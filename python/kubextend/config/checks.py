"""Checks of a configuration that compare several fields, or that open the files it names.

When these checks run, each field has passed its own check. Files are opened only to see whether
they are readable.
"""

import ipaddress
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias, get_args
from urllib.parse import SplitResult, urlsplit

from kubextend.config.configuration import Configuration
from kubextend.config.duration import Duration
from kubextend.config.issues import Findings
from kubextend.config.model import Callers, Queue, Server, VerbName

__all__ = ["check", "is_extended_resource", "is_wildcard"]

_EVERY_NODE: Final = 100
_ZERO: Final = Duration(0)
_LONG_TIMEOUT: Final = Duration.parse("10s")
_LONGEST_PERMIT_WAIT: Final = Duration.parse("15m")
# Kubernetes kills a container 30 s after SIGTERM, and requests in flight need some of that time.
_LONGEST_DRAIN_DELAY: Final = Duration.parse("20s")
_QUALIFIED_NAME: Final = re.compile(
    r"(?P<domain>[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*)"
    r"/[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)
# The longest DNS name, less the "requests." that a quota puts before it.
_MAX_DOMAIN: Final = 253 - len("requests.")
_ADD_CLUSTER: Final = "add cluster: {}"
_NAME_SOMEBODY: Final = "set allowedNames to names of client certificates, or tokenFile, or both"
_NOBODY_WAITS: Final = "no profile has a Permit plugin, so no pod will ever"

_Readable: TypeAlias = Callable[[str, str | None], None]
"""Checks that the file at a path of the configuration can be read."""


def check(config: Configuration, findings: Findings, *, runs_here: bool) -> None:
    """Check the fields of a configuration against each other; add the issues to ``findings``.

    Args:
        config: the configuration.
        findings: gets the issues and notes.
        runs_here: True makes an unreadable file an issue; False makes it a note.
    """

    def readable(at: str, file: str | None) -> None:
        _check_readable(at, file, findings, runs_here=runs_here)

    _check_server(config, findings)
    _check_lease(config, findings)
    _check_tls(config, findings, readable)
    _check_waiting_pods(config, findings, readable)
    _check_decisions(config, findings, readable)
    _check_cluster(config, findings, readable)
    _check_url_prefix(config, findings)
    _check_extender(config, findings)
    _check_managed_resources(config, findings)
    _check_queue(config, findings)
    _check_profiles(config, findings)


def is_wildcard(host: str) -> bool:
    """Return whether ``host`` is a wildcard address, ``0.0.0.0`` or ``::``.

    A server can listen on such an address, but a client cannot connect to it.
    """
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def is_extended_resource(name: str) -> bool:
    """Return whether kube-scheduler accepts the name as an extended resource.

    Source: kubernetes v1.36 pkg/apis/core/v1/helper/helpers.go IsExtendedResourceName
    """
    matched = _QUALIFIED_NAME.fullmatch(name)
    native = "kubernetes.io/" in name or name.startswith("requests.")
    return matched is not None and not native and len(matched["domain"]) <= _MAX_DOMAIN


def _check_server(config: Configuration, findings: Findings) -> None:
    server = config.server
    same_port = server.port == server.health_port
    if same_port and _overlap(server.host, server.health_host or server.host):
        hint = "null serves health and metrics on server.port"
        message = "must not be the port of the verbs"
        findings.complain("server.healthPort", message, server.health_port, hint)
    if server.health_host and not server.health_port:
        findings.complain("server.healthHost", "needs server.healthPort", server.health_host)
    guarded = [verb for verb in config.verbs if verb in {"bind", "preempt"}]
    open_to_all = not server.insecure and not server.tls.client_ca_file
    if guarded and open_to_all and not _is_loopback(server.host):
        verbs = " and ".join(guarded)
        message = f"other machines can reach it, so {verbs} must ask for client certificates"
        anyone = "or accept anyone with server.insecure: true"
        hint = f"set server.tls.certFile, keyFile and clientCAFile, {anyone}"
        findings.complain("server.host", message, server.host, hint)
    if server.max_in_flight_bytes < server.max_body_bytes:
        message = f"must be at least maxBodyBytes, {server.max_body_bytes}"
        hint = "a body between the two would be refused for ever"
        findings.complain("server.maxInFlightBytes", message, server.max_in_flight_bytes, hint)
    delay = server.drain_delay
    if not _ZERO <= delay <= _LONGEST_DRAIN_DELAY:
        hint = "Kubernetes kills a container 30s after it told it to end"
        findings.complain("server.drainDelay", "must be 0s to 20s", str(delay), hint)


def _check_lease(config: Configuration, findings: Findings) -> None:
    if config.server.lease is None:
        return
    if config.cluster is None:
        message = "Required value: server.lease names an object of the Kubernetes API"
        findings.complain("cluster", message, hint=_ADD_CLUSTER)
    if not config.needs_leader:
        message = "no profile needs a leader: without it every replica answers"
        findings.note("server.lease", message)


def _check_tls(config: Configuration, findings: Findings, readable: _Readable) -> None:
    tls, at = config.server.tls, "server.tls"
    _check_both(at, tls.cert_file, tls.key_file, findings)
    if tls.client_ca_file and not tls.cert_file:
        message, hint = "client certificates need TLS", "set certFile and keyFile too"
        findings.complain(f"{at}.clientCAFile", message, tls.client_ca_file, hint)
    readable(f"{at}.certFile", tls.cert_file)
    readable(f"{at}.keyFile", tls.key_file)
    readable(f"{at}.clientCAFile", tls.client_ca_file)


def _check_waiting_pods(config: Configuration, findings: Findings, readable: _Readable) -> None:
    given, at = config.server.waiting_pods, "server.waitingPods"
    if given is None:
        return
    if not given.allowed_names and not given.token_file:
        message = "names nobody who may decide on waiting pods"
        findings.complain(at, message, {}, _NAME_SOMEBODY)
    _check_callers(config.server, at, given, findings)
    readable(f"{at}.tokenFile", given.token_file)
    if not config.any_at("permit"):
        findings.note(at, f"{_NOBODY_WAITS} wait")


def _check_decisions(config: Configuration, findings: Findings, readable: _Readable) -> None:
    given, at = config.server.decisions, "server.decisions"
    readers = given.allowed_names or given.token_file
    if readers and not given.max_pods:
        hint = "set maxPods, or leave out allowedNames and tokenFile"
        findings.complain(f"{at}.maxPods", "records nothing that anybody could read", 0, hint)
    if given.page and not readers:
        message = "shows nothing, as nobody may read decisions"
        findings.complain(f"{at}.page", message, value=True, hint=_NAME_SOMEBODY)
    _check_callers(config.server, at, given, findings)
    readable(f"{at}.tokenFile", given.token_file)


def _check_callers(server: Server, at: str, given: Callers, findings: Findings) -> None:
    """Check who may call: names of client certificates, and a file of bearer tokens."""
    for index, name in enumerate(given.allowed_names):
        if not name:
            findings.complain(f"{at}.allowedNames[{index}]", "must not be empty", name)
    if given.allowed_names and not server.tls.client_ca_file:
        message = "needs server.tls.clientCAFile: nobody else asks clients for a certificate"
        hint = "set server.tls.certFile, keyFile and clientCAFile, or use tokenFile"
        findings.complain(f"{at}.allowedNames", message, list(given.allowed_names), hint)
    open_to_all = not _is_loopback(server.host) and not server.insecure
    if given.token_file and open_to_all and not server.tls.cert_file:
        message = "its tokens would cross the network in plain text"
        hint = "set server.tls.certFile and keyFile, or accept that with server.insecure: true"
        findings.complain(f"{at}.tokenFile", message, given.token_file, hint)


def _check_cluster(config: Configuration, findings: Findings, readable: _Readable) -> None:
    if config.cluster:
        readable("cluster.kubeconfig", config.cluster.kubeconfig)
        return
    if config.extender.node_cache_capable:
        message = "needs cluster: kube-scheduler would send names of unknown nodes"
        hint = f"{_ADD_CLUSTER}, or set nodeCacheCapable: false"
        findings.complain("extender.nodeCacheCapable", message, value=True, hint=hint)
    for needed, what in (
        ("bind" in config.verbs, "bind writes to the Kubernetes API"),
        (config.queues, "the queue watches pods and takes their gates off"),
    ):
        if needed:
            findings.complain("cluster", f"Required value: {what}", hint=_ADD_CLUSTER)


def _check_url_prefix(config: Configuration, findings: Findings) -> None:
    text, at = config.extender.url_prefix, "extender.urlPrefix"
    if text is None:
        return
    if wrong := _wrong_with(text):
        hint = "such as http://127.0.0.1:8888 or https://kubextend.example.svc:8888"
        findings.complain(at, wrong, text, hint)
        return
    url, server = urlsplit(text), config.server
    path, own_path = (each.rstrip("/") for each in (url.path, server.path))
    before, _, last = path.rpartition("/")
    # A server.path that ends with a verb is no mistake.
    if last in get_args(VerbName) and path != own_path:
        message = f"must not end with a verb: kube-scheduler would call {path}/{last}"
        right = url._replace(path=before).geturl()
        hint = f"write {right}: kube-scheduler appends the verb itself"
        findings.complain(at, message, text, hint)
    if url.scheme == "https" and not config.extender.tls_config.ca_file:
        message = "https needs tlsConfig.caFile: without a CA kube-scheduler verifies nothing"
        hint = "set extender.tlsConfig.caFile to a path on kube-scheduler's machine"
        findings.complain(at, message, text, hint)
    for why in _unlike_own(config, url, same_path=path == own_path):
        findings.note(at, f"{why}: right only behind a proxy")


def _unlike_own(config: Configuration, url: SplitResult, *, same_path: bool) -> list[str]:
    """Return a phrase for each part of ``extender.urlPrefix`` that is not the server's own."""
    server = config.server
    port = url.port or (443 if url.scheme == "https" else 80)
    parts = {
        f"its path is not server.path, {server.path}": same_path,
        f"its port is not server.port, {server.port}": port == server.port
        or not _is_loopback(url.hostname or ""),
        f"kubextend itself serves {config.scheme}": url.scheme == config.scheme,
    }
    return [why for why, alike in parts.items() if not alike]


def _wrong_with(text: str) -> str:
    """Return what is wrong with a URL; empty if nothing is."""
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


def _check_extender(config: Configuration, findings: Findings) -> None:
    extender, at = config.extender, "extender"
    tls, timeout, wait = extender.tls_config, extender.http_timeout, extender.permit_max_wait
    _check_both(f"{at}.tlsConfig", tls.cert_file, tls.key_file, findings)
    if config.verbs and config.url_prefix.startswith("https:"):
        # Beside a urlPrefix, a missing caFile is an issue.
        missing = [] if tls.ca_file or extender.url_prefix else ["caFile"]
        if config.server.tls.client_ca_file and not (tls.cert_file or tls.key_file):
            missing += ["certFile", "keyFile"]
        needs = "kube-scheduler needs it, as a path on its own machine; scheduler-config does too"
        for field in missing:
            findings.note(f"{at}.tlsConfig.{field}", f"not set: {needs}")
    if timeout <= _ZERO:
        hint = "kube-scheduler reads 0s as 5s"
        findings.complain(f"{at}.httpTimeout", "must be more than 0", str(timeout), hint)
    elif timeout > _LONG_TIMEOUT:
        message = "one hanging call holds up all scheduling for that long"
        findings.note(f"{at}.httpTimeout", message)
    if extender.ignorable and "filter" in config.verbs:
        message = "while kubextend does not answer, pods are placed as if it had no plugins"
        findings.note(f"{at}.ignorable", message)
    if not _ZERO < wait <= _LONGEST_PERMIT_WAIT:
        message, hint = "must be above 0 and at most 15m", "kube-scheduler's own limit is 15m"
        findings.complain(f"{at}.permitMaxWait", message, str(wait), hint)
    if config.marks_held_pods and not config.any_at("permit"):
        findings.note("autoscaler.markHeldPods", f"{_NOBODY_WAITS} be held")


def _check_managed_resources(config: Configuration, findings: Findings) -> None:
    at = "extender.managedResources"
    names: list[str] = []
    for index, resource in enumerate(config.extender.managed_resources):
        where = f"{at}[{index}].name"
        if not is_extended_resource(resource.name):
            message = "is an invalid extended resource name"
            findings.complain(where, message, resource.name, "such as example.com/gpu")
        elif resource.name in names:
            findings.complain(where, "duplicate extender managed resource name", resource.name)
        names.append(resource.name)
    if names and "bind" in config.verbs and len(config.verbs) > 1:
        message = (
            "cannot be told to kube-scheduler together with bind: bind is an extender entry of its "
            "own, and no two entries may name the same resource"
        )
        findings.complain(at, message, names, "leave one of them out")


def _check_queue(config: Configuration, findings: Findings) -> None:
    queue = config.queue
    if not config.queues:
        if queue != Queue():
            findings.note("queue", "not used: no profile enables a queueSort plugin")
        return
    if queue.max_hold <= _ZERO:
        hint = "how long an unschedulable pod may hold up those behind it, such as 60s"
        findings.complain("queue.maxHold", "must be more than 0", str(queue.max_hold), hint)
    if queue.fair_queuing == "ByNamespace" and queue.window > 1:
        message = "kube-scheduler sorts a larger window, whatever the turns of namespaces"
        findings.note("queue.window", message)


def _check_profiles(config: Configuration, findings: Findings) -> None:
    if not config.profiles:
        hint = "add a profile that enables a plugin"
        findings.complain("profiles", "Required value", [], hint)
    for index, profile in enumerate(config.profiles):
        percentage = profile.percentage_of_nodes_to_score
        if percentage is not None and percentage < _EVERY_NODE:
            message = "kube-scheduler stops at a sample, which may hold no node that fits"
            findings.note(f"profiles[{index}].percentageOfNodesToScore", message)


def _check_both(at: str, cert_file: str | None, key_file: str | None, findings: Findings) -> None:
    given = {"certFile": cert_file, "keyFile": key_file}
    for field, other in (("keyFile", "certFile"), ("certFile", "keyFile")):
        if given[other] and not given[field]:
            findings.complain(f"{at}.{field}", f"must be set, because {other} is set")


def _check_readable(at: str, file: str | None, findings: Findings, *, runs_here: bool) -> None:
    try:
        if file:
            with Path(file).open("rb") as opened:
                opened.read(1)
    except OSError as error:
        message = f"cannot be read: {error.strerror or type(error).__name__}"
        hint = "" if Path(str(file)).is_absolute() else f"looked for {Path(str(file)).absolute()}"
        if str(file).startswith("~"):
            hint = "~ is not expanded here"
        if runs_here:
            findings.complain(at, message, file, hint)
        else:
            why = f"{message}; {hint}" if hint else message
            findings.note(at, f"{file} {why}; `kubextend serve` will need it")
    except ValueError as error:
        findings.complain(at, f"is no name of a file: {error}", file)


def _is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a server that listens on ``host``."""
    try:
        return host.lower() == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _overlap(host: str, other: str) -> bool:
    """Return whether two hosts share an address, so that two servers cannot use the same port."""
    loopback = {"localhost": "127.0.0.1"}
    same = loopback.get(host, host) == loopback.get(other, other)
    return same or is_wildcard(host) or is_wildcard(other)
