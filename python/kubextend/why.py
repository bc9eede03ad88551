"""Gathers what ``kubextend why`` needs to know of a pod, and writes the answer as lines of text."""

import contextlib
import json
import socket
import ssl
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode, urlsplit

from kubextend import cluster, core
from kubextend.admission.rules import Requirement, RuleDecision, requirements_of
from kubextend.decisions.captured_facts import wrong_field
from kubextend.decisions.explanation import Explanation, Facts, explain
from kubextend.errors import ClusterError, KubextendError

if TYPE_CHECKING:
    from kubextend.cluster.client import Cluster

__all__ = [
    "Replicas",
    "Server",
    "captured",
    "gathered",
    "lines_of",
    "read_capture",
    "unanswered",
    "with_rules",
]

_TIMEOUT_S: Final = 10.0
_MOST_BYTES: Final = 64 * 1024 * 1024
_MOST_ROWS: Final = 20
_MOST_REPLICAS: Final = 10
_CERTIFICATE_HINT: Final = (
    "; if kubextend's server.tls.clientCAFile is set, it answers only clients with a certificate: "
    "give --cert-file and --key-file"
)
_PLAIN_HINT: Final = "; the server answers without TLS: if it speaks http, write http://"
# What OpenSSL 3.0 and OpenSSL 3.2 say where another protocol answers.
_NO_TLS: Final = {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"}
MOST_CELL: Final = 120
"""The most characters of a cell of a table."""

_Json = Mapping[str, Any]
_Row = Sequence[str]
Table = tuple[_Row, list[_Row]]
"""The head of a table and its rows."""
Dial = Callable[[], socket.socket]


@dataclass(frozen=True, slots=True)
class Server:
    """Where kubextend answers, and the credentials of a reader.

    Attributes:
        url: the URL below which the verbs are.
        ca_file: CA certificates to trust; None: those of the system.
        cert_file: the reader's certificate; None: none is shown.
        key_file: the key of ``cert_file``; None: it is in ``cert_file``.
        token_file: a file whose first line is a bearer token; None: no token is sent.
        dial: returns a socket to the server; None: the URL says where the server is.
        server_name: the name that the server's certificate must have; None: the host of the URL.
    """

    url: str
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    token_file: str | None = None
    dial: Dial | None = None
    server_name: str | None = None

    def get(self, path: str, query: Mapping[str, str]) -> dict[str, Any]:
        """Return the JSON object that kubextend answers to a GET request.

        Raises: KubextendError: kubextend refused, or could not be asked; the message says why.
        """
        if not self.url.startswith(("http://", "https://")):
            message = f"{self.url} is no URL of a server: use http:// or https://"
            raise KubextendError(message)
        target = f"{urlsplit(self.url).path.rstrip('/')}{path}?{urlencode(query)}"
        headers = self._headers()
        try:
            with contextlib.closing(self._connected()) as connection:
                connection.request("GET", target, headers=headers)
                response = connection.getresponse()
                body = response.read(_MOST_BYTES)
            if response.status != HTTPStatus.OK:
                message = f"{self.url}: {_refusal(response.status, body)}"
                raise KubextendError(message)
            answer = json.loads(body)
        except (OSError, ValueError, HTTPException) as error:
            message = f"{self.url} cannot be asked: {error}{self._hint(error)}"
            raise KubextendError(message) from error
        if not isinstance(answer, dict):
            message = f"{self.url}: the answer is no JSON object"
            raise KubextendError(message)
        return answer

    def _headers(self) -> dict[str, str]:
        if self.token_file is None:
            return {}
        try:
            token = Path(self.token_file).read_text().split("\n", 1)[0].strip()
        except OSError as error:
            message = f"token file {self.token_file} cannot be read: {error.strerror}"
            raise KubextendError(message) from error
        return {"Authorization": f"Bearer {token}"}

    def _hint(self, reason: object) -> str:
        """Return what may help if a request ended for a reason of the network or of TLS."""
        if not self._has_tls or isinstance(reason, ssl.SSLCertVerificationError):
            return ""
        if isinstance(reason, ssl.SSLError) and reason.reason in _NO_TLS:
            return _PLAIN_HINT
        # A server with TLS breaks off if it asks for a certificate in vain.
        hung_up = isinstance(reason, ssl.SSLError | ConnectionResetError)
        return _CERTIFICATE_HINT if hung_up and self.cert_file is None else ""

    @property
    def _has_tls(self) -> bool:
        return self.url.startswith("https://")

    def _connected(self) -> HTTPConnection:
        """Return a connection to the server: it follows no redirect, and uses no proxy."""
        url = urlsplit(self.url)
        host, port = url.hostname or "", url.port or (443 if self._has_tls else 80)
        trust = self._trust() if self._has_tls else None
        dial = self.dial or partial(socket.create_connection, (host, port), _TIMEOUT_S)
        connection = HTTPConnection(host, port)
        connection.sock = dial()
        connection.sock.settimeout(_TIMEOUT_S)
        if trust is not None:
            name = self.server_name or host
            connection.sock = trust.wrap_socket(connection.sock, server_hostname=name)
        return connection

    def _trust(self) -> ssl.SSLContext:
        """Return what the client trusts, and its certificate.

        Raises: KubextendError: a file cannot be read, or does not hold what it should.
        """
        for file in (self.ca_file, self.cert_file, self.key_file):
            if file is not None:
                _check_readable(file)
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
        except ssl.SSLError as error:
            message = f"{self.ca_file} holds no CA certificates: --ca-file needs them as PEM"
            raise KubextendError(message) from error
        if self.cert_file is None:
            return context
        try:
            context.load_cert_chain(self.cert_file, self.key_file)
        except ssl.SSLError as error:
            both = "" if self.key_file is None else f" and {self.key_file}"
            message = (
                f"{self.cert_file}{both} cannot be used: --cert-file has to hold your certificate, "
                "and --key-file (without it, --cert-file too) the private key of that certificate, "
                "both as PEM"
            )
            raise KubextendError(message) from error
        return context


def _check_readable(file: str) -> None:
    """Raise KubextendError if a file of certificates or keys cannot be read."""
    try:
        with Path(file).open("rb"):
            pass
    except OSError as error:
        message = f"{file} cannot be read: {error.strerror}"
        raise KubextendError(message) from error


@dataclass(frozen=True, slots=True)
class Replicas:
    """The pods of a Service, each reached through the Kubernetes API.

    Attributes:
        servers: kubextend in each pod; at least one.
    """

    servers: Sequence[Server]

    @classmethod
    def of(cls, server: Server, service: str, port: int, api: "Cluster") -> "Replicas":
        """Return the ready pods of a Service.

        Args:
            server: the URL by whose host the certificates of the pods are checked, and credentials.
            service: ``NAMESPACE/NAME`` of the Service.
            port: the port on which kubextend listens in its pods.
            api: the connection to the Kubernetes API.

        Raises: ClusterError: the pods could not be listed, or there are none.
        """
        namespace, _, name = service.partition("/")
        pods = cluster.ready_pods(api, namespace, name)[:_MOST_REPLICAS]
        dials = [partial(cluster.port_of_pod, api, namespace, pod, port) for pod in pods]
        return cls([replace(server, dial=dial) for dial in dials])

    def get(self, path: str, query: Mapping[str, str]) -> dict[str, Any]:
        """Return the answer of the first replica that has a record of the pod, or of another.

        Without a record, the answer is that of the replica whose records began last, since
        kube-scheduler may have asked that one before. If a replica did not answer, the answer does
        not say since when there are records.

        Raises: KubextendError: no replica answered.
        """
        found: list[dict[str, Any]] = []
        errors: list[KubextendError] = []
        for server in self.servers:
            try:
                answer = server.get(path, query)
            except KubextendError as error:
                errors.append(error)
                continue
            if answer.get("attempts") or answer.get("items"):
                return answer
            found.append(answer)
        if not found:
            raise errors[0]
        newest = max(found, key=_records_since)
        if errors and "kubextend" in newest:
            return {**newest, "kubextend": {**newest["kubextend"], "recordsSince": None}}
        return newest


def _records_since(answer: _Json) -> str:
    return str((answer.get("kubextend") or {}).get("recordsSince") or "")


def _refusal(status: int, body: bytes) -> str:
    if status == HTTPStatus.NOT_FOUND:
        return (
            "status 404: either no kubextend answers at this URL, or it tells nobody its "
            "decisions; name the readers in server.decisions.allowedNames or tokenFile"
        )
    try:
        said = json.loads(body)["Error"]
    except (ValueError, KeyError, TypeError):
        said = ""
    return f"status {status}: {said}"


def gathered(
    namespace: str,
    name: str,
    server: Server | Replicas,
    connect: Callable[[], "Cluster"],
    gate: str,
    forbidden_hint: str = "",
) -> Facts:
    """Ask kubextend and the Kubernetes API about a pod; what cannot be asked is noted.

    Args:
        namespace: the namespace of the pod.
        name: the name of the pod.
        server: where kubextend answers.
        connect: connects to the Kubernetes API.
        gate: the gate of kubextend's queue.
        forbidden_hint: what to add to an error if the Kubernetes API refuses the user's request.
    """
    decisions, unreached, pod, unknown = None, "", None, ""
    events: list[dict[str, Any]] = []
    awaited: dict[str, list[str]] = {}
    try:
        api = connect()
        pod = cluster.read_manifest(api, namespace, name)
        if pod is not None:
            awaited = cluster.awaited(api, pod)
            events = cluster.pod_events(api, namespace, pod["metadata"]["uid"])
    except ClusterError as error:
        unknown = str(error)
        if error.status in {401, 403} and forbidden_hint:
            unknown += f"; {forbidden_hint}"
    uid = "" if pod is None else pod["metadata"]["uid"]
    try:
        decisions = server.get("/decisions", {"pod": uid or f"{namespace}/{name}"})
    except KubextendError as error:
        unreached = str(error)
    return Facts(namespace, name, decisions, unreached, pod, unknown, events, gate, awaited=awaited)


def with_rules(
    facts: Facts, decisions: Sequence[RuleDecision], connect: Callable[[], "Cluster"]
) -> Facts:
    """Return the facts with the compiled rules that are on the pod, if the pod waits for a node.

    A rule is on a pod if the pod is for the profile, if the labels of the pod match the rule's
    selector of pods, and if the pod's node affinity has what the rule requires.

    Args:
        facts: what is known of the pod.
        decisions: the rules of the configuration.
        connect: connects to the Kubernetes API, which counts the nodes that meet a rule.
    """
    pod = facts.pod or {}
    spec, labels = pod.get("spec") or {}, (pod.get("metadata") or {}).get("labels") or {}
    name, terms = spec.get("schedulerName") or "default-scheduler", _required_terms(spec)
    if spec.get("nodeName") or not terms:
        return facts
    on_pod = []
    for each in decisions:
        rule = each.required
        if rule is None or each.why_called or each.scheduler_name != name:
            continue
        needed = set(requirements_of(rule.node_selector))
        matches = core.Selector(rule.pod_selector).matches(labels)
        if matches and needed and all(needed <= term for term in terms):
            on_pod.append((each.plugin, rule.node_selector))
    meeting = _meeting([nodes for _, nodes in on_pod], connect)
    rules = [
        {"plugin": plugin, "profile": name, "nodes": nodes, "meeting": meeting[nodes]}
        for plugin, nodes in on_pod
    ]
    return replace(facts, rules=rules)


def _required_terms(spec: _Json) -> list[set[Requirement]]:
    """Return the requirements on labels of each term of a pod's required node affinity.

    A term without any requirement matches no node, and is left out.
    """
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    return [
        {
            (each["key"], each["operator"], tuple(each.get("values") or ()))
            for each in term.get("matchExpressions") or ()
        }
        for term in required.get("nodeSelectorTerms") or ()
        if term.get("matchExpressions") or term.get("matchFields")
    ]


def _meeting(selectors: Sequence[str], connect: Callable[[], "Cluster"]) -> dict[str, int | None]:
    """Return how many nodes have labels that match each selector; None if nobody may tell."""
    meeting: dict[str, int | None] = dict.fromkeys(selectors)
    if not meeting:
        return {}
    with contextlib.suppress(ClusterError):
        api = connect()
        for selector in meeting:
            with contextlib.suppress(ClusterError):
                meeting[selector] = len(cluster.list_node_names(api, selector))
    return meeting


def unanswered(facts: Facts) -> str:
    """Return why nothing is known of the pod if no source answered; "" if a source did."""
    # Where the API told the pod and refused the Events, it answered.
    if not (facts.unreached and facts.pod_unknown) or facts.pod is not None:
        return ""
    return (
        f"kubextend: {facts.unreached}; the Kubernetes API: {facts.pod_unknown}; "
        f"so nothing is known of the pod {facts.namespace}/{facts.name}"
    )


def node_of(facts: Facts, node: str, server: Server | Replicas) -> dict[str, Any] | None:
    """Ask kubextend what it decided about one node; None if there is nothing on record.

    Raises: KubextendError: kubextend could not be asked.
    """
    uid = ((facts.decisions or {}).get("pod") or {}).get("uid")
    if not uid:
        return None
    found = server.get(f"/decisions/{quote(uid, safe='')}/nodes", {"node": node})["items"]
    return found[0] if found else None


def captured(facts: Facts, explanation: Explanation) -> dict[str, Any]:
    """Return facts and explanation as a JSON object that ``read_capture`` reads again."""
    return {
        "apiVersion": "kubextend.dev/v1alpha1",
        "kind": "Explanation",
        "podGroup": facts.pod_group or None,
        **explanation.as_json(),
        "facts": asdict(facts),
    }


def read_capture(file: Path) -> Facts:
    """Return the facts of a file that ``kubextend why --output json`` wrote.

    Raises: KubextendError: the file cannot be read, or is no such file; the message names a field
    of a wrong type.
    """
    other = f"{file} is not what kubextend why --output json writes"
    try:
        facts = json.loads(file.read_bytes())["facts"]
        if wrong := wrong_field(facts):
            message = f"{other}: {wrong}"
            raise KubextendError(message)
        # A file of an earlier version has fewer fields.
        known = [each.name for each in fields(Facts) if each.name in facts]
        found = Facts(**{name: facts[name] for name in known})
        # A field that is missing shows only when it is read.
        deque(lines_of(found, explain(found)), maxlen=0)
    except OSError as error:
        message = f"{file}: cannot be read: {error.strerror}"
        raise KubextendError(message) from error
    except KeyError as error:
        message = f"{other}: the field {error} is missing"
        raise KubextendError(message) from error
    except (ValueError, TypeError, AttributeError) as error:
        raise KubextendError(other) from error
    return found


def lines_of(facts: Facts, explanation: Explanation) -> Iterator[str | Table]:
    """Yield the lines and tables of the answer; the texts are as clients and plugins gave them."""
    group = f" of pod group {facts.pod_group}" if facts.pod_group else ""
    yield f"pod {facts.namespace}/{facts.name}{group}: {explanation.cause}"
    yield f"  {explanation.sentence}"
    if facts.unreached:
        yield f"  not known: what kubextend decided: {facts.unreached}"
    if facts.pod_unknown:
        yield f"  not known: the pod itself: {facts.pod_unknown}"
    decisions = facts.decisions or {}
    server = decisions.get("kubextend") or {}
    for what, why in list((server.get("notReady") or {}).items())[:_MOST_ROWS]:
        yield f"  kubextend is not ready: {what}: {why}"
    scheduler = ((facts.pod or {}).get("spec") or {}).get("schedulerName") or "default-scheduler"
    own = (server.get("profiles") or {}).get(scheduler) or ()
    for plugin in [each for each in server.get("openBreakers") or () if each in own][:_MOST_ROWS]:
        yield f"  the breaker of {plugin} is open: the plugin is not called"
    if rejections := _rejections(decisions, explanation):
        yield ""
        yield ("REJECTED BY", "NODES", "REASON", "DETAIL", "SUCH AS"), rejections
    if explanation.unblock:
        yield ""
        yield "to unblock:"
        for each in explanation.unblock[:_MOST_ROWS]:
            yield f"  {each}"
    if best := _best(decisions):
        yield ""
        yield ("NODE", "TOTAL", "SCORES"), best
    if calls := _calls(decisions):
        yield ""
        yield ("AT", "VERB", "TOOK", "RESULT"), calls


def node_lines(node: str, verdict: _Json | None) -> Iterator[str]:
    """Yield the lines about one node that was asked for by name."""
    if verdict is None:
        yield f"node {node}: nothing is on record of it in the pod's last attempt"
        return
    if verdict["reason"]:
        by = verdict["plugin"] or "kubextend"
        yield f"node {node}: rejected by {by}: {verdict['reason']} {verdict['detail']}".rstrip()
    else:
        yield f"node {node}: passed, total {verdict['total']}"
    for plugin, score in list(verdict["scores"].items())[:_MOST_ROWS]:
        yield f"  {plugin}: {_score(score)}"


def _last(decisions: _Json, verb: str) -> _Json:
    """Return the last call of a verb with nodes; empty without one."""
    for attempt in decisions.get("attempts") or ():
        for call in attempt["calls"]:
            if call["verb"] == verb and call["nodes"]:
                found: _Json = call
                return found
    return {}


def _rejections(decisions: _Json, explanation: Explanation) -> list[_Row]:
    groups = (_last(decisions, "filter").get("nodes") or {}).get("rejected") or ()
    rows: list[_Row] = [
        (
            group["plugin"] or "kubextend",
            str(group["nodes"]),
            group["reason"],
            group["detail"] or "-",
            ", ".join(group["examples"][:3]),
        )
        for group in groups[:_MOST_ROWS]
    ]
    rows += [
        ("kube-scheduler", str(count), reason, "-", "-")
        for reason, count in list(explanation.kube_scheduler.items())[:_MOST_ROWS]
    ]
    return rows


def _best(decisions: _Json) -> list[_Row]:
    best = (_last(decisions, "prioritize").get("nodes") or {}).get("best") or ()
    return [
        (
            each["node"],
            str(each["total"]),
            ", ".join(f"{plugin} {_score(score)}" for plugin, score in each["scores"].items()),
        )
        for each in best
    ]


def _score(score: _Json) -> str:
    return f"{score['weighted']} (raw {score['raw']}, normalized {score['normalized']})"


def _calls(decisions: _Json) -> list[_Row]:
    rows = [
        (str(call["at"])[:23], call["verb"], _took(call), _result(call))
        for attempt in decisions.get("attempts") or ()
        for call in reversed(attempt["calls"])
    ]
    return list(rows[:_MOST_ROWS])


def _took(call: _Json) -> str:
    # A verb that was given up has no end of its own.
    return f"{call['tookSeconds'] * 1e3:.1f} ms" if call["tookSeconds"] else "-"


def _result(call: _Json) -> str:
    if not call["done"]:
        return f"under way, node {call['node']}"
    if call["error"]:
        return f"Error: {call['error']}"
    if call["note"]:
        return str(call["note"])
    if call["verb"] == "bind":
        held = "" if call["heldSeconds"] is None else f", held for {call['heldSeconds']:.1f} s"
        return f"bound to {call['node']}{held}"
    nodes = call["nodes"] or {}
    if call["verb"] == "filter":
        return f"{nodes.get('passed')} of {nodes.get('nodes')} nodes passed"
    return f"scored {nodes.get('nodes')} nodes"
