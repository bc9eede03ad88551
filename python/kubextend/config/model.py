"""The typed configuration: one pydantic model for each kind of object in the file.

The models check each field by itself. The modules beside this one do the rest: ``checks`` compares
fields, ``resolve`` looks up the names of plugins, ``loader`` reads files.
"""

import hashlib
import ipaddress
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    PlainSerializer,
    PlainValidator,
    PrivateAttr,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel

from kubextend.config.duration import Duration
from kubextend.framework.kept_parts import NO_PARTS, KeptParts
from kubextend.framework.known_plugins import KnownPlugins

__all__ = [
    "API_VERSION",
    "KIND",
    "Autoscaler",
    "Cluster",
    "Decisions",
    "EnabledPlugin",
    "Extender",
    "ExtenderConfiguration",
    "ExtenderTLSConfig",
    "GoDuration",
    "Guard",
    "ManagedResource",
    "Plugin",
    "PluginConfig",
    "PluginSet",
    "Plugins",
    "Queue",
    "QueueLease",
    "ResolvedProfile",
    "SchedulerProfile",
    "Server",
    "ServerLease",
    "ServerTLS",
    "VerbName",
    "WaitingPods",
    "qualified_name",
]

API_VERSION: Final = "kubextend.dev/v1alpha1"
KIND: Final = "ExtenderConfiguration"

VerbName = Literal["filter", "preempt", "prioritize", "bind"]

# How much longer bind's timeout is than permitMaxWait: the bind request is open while Permit waits.
# kube-scheduler schedules other pods meanwhile.
_BEYOND_PERMIT: Final = Duration.parse("1m")
# How much longer preempt's timeout is than httpTimeout, before which kubextend answers: where
# kube-scheduler gives up preempt, it evicts pods without kubextend's verdict.
_BEYOND_PREEMPT: Final = Duration.parse("5s")

_HOST_NAME = re.compile(r"(?=.{1,253}$)[A-Za-z0-9_-]{1,63}(?:\.[A-Za-z0-9_-]{1,63})*\.?")
_DNS_NAME = re.compile(
    r"(?=.{1,253}$)[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*"
)
# Source: apimachinery v0.36 pkg/api/validate/content/kube.go IsLabelKey, which validates gates
_GATE_NAME = re.compile(r"(?=.{1,63}$)[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")
_BINDING_POINTS = ("reserve", "permit", "preBind", "bind", "postBind")
# Permit is here because the next filter call of a pod answers that Permit rejected it.
_FILTER_POINTS = ("preFilter", "filter", "postFilter", "permit")
_REJECTING_POINTS = ("preFilter", "filter")


@dataclass(frozen=True, slots=True)
class EnabledPlugin:
    """A plugin that runs at one extension point of a profile.

    Attributes:
        name: the name of the plugin.
        weight: the factor of the plugin's scores; 1 at any point other than score.
    """

    name: str
    weight: int = 1


@dataclass(frozen=True, slots=True)
class ResolvedProfile:
    """A profile with multiPoint expanded: the plugins of each extension point in running order.

    Attributes:
        scheduler_name: the ``spec.schedulerName`` of the pods that the profile is for.
        points: extension point -> its plugins in running order; points without plugins are absent.
        args: name of an enabled plugin -> its checked arguments; None if the plugin takes none.
        needs_pods: whether a plugin of the profile has ``needs_pods = True``.
        counts_pods: whether a plugin with ``needs_pods = True`` is enabled at PreFilter or Filter.
            Then kubextend must bind the pods, so that a pod counts on its node before its binding
            is known.
        parts: the optional parts of pods and nodes that plugins of the profile need.
        state: for each plugin that keeps what other replicas do not know, a phrase such as ``NAME
            holds pods``. Empty: no plugin of the profile does.
        ignored: names of the plugins with ``failurePolicy: Ignore``.
    """

    scheduler_name: str
    points: Mapping[str, tuple[EnabledPlugin, ...]] = field(default_factory=dict)
    args: Mapping[str, BaseModel | None] = field(default_factory=dict)
    needs_pods: bool = False
    counts_pods: bool = False
    parts: KeptParts = field(default_factory=NO_PARTS.copy)
    state: tuple[str, ...] = ()
    ignored: frozenset[str] = frozenset()

    def at(self, point: str) -> tuple[EnabledPlugin, ...]:
        """Return the plugins that run at an extension point, in order; empty if none runs there."""
        return self.points.get(point, ())


class _Model(BaseModel):
    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        alias_generator=to_camel,
        validate_by_alias=True,
        validate_by_name=False,
        serialize_by_alias=True,
        hide_input_in_errors=True,
        use_attribute_docstrings=True,
    )


def _duration(value: object) -> Duration:
    if isinstance(value, Duration):
        return value
    if isinstance(value, str):
        try:
            return Duration.parse(value)
        except ValueError as error:
            message = f'{error}: the units are ns, us, ms, s, m and h, such as "1m30s"'
            raise ValueError(message) from error
    message = f'expected a duration such as "2s" or "1m30s", found {value!r}'
    raise ValueError(message)


def _server_path(path: str) -> str:
    if not path.startswith("/"):
        message = "must start with /"
        raise ValueError(message)
    if set(path) & set('?#%\\"{} ') or "//" in path or {".", ".."} & set(path.split("/")):
        message = "must be a plain path such as /v1"
        raise ValueError(message)
    return path


def _host(host: str) -> str:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        if not _HOST_NAME.fullmatch(host):
            message = "must be an address such as 127.0.0.1 or ::1, or a name"
            raise ValueError(message) from None
    return host


def _dns_name(name: str) -> str:
    if not _DNS_NAME.fullmatch(name):
        message = "must be a name of lower case letters, digits, - and ."
        raise ValueError(message)
    return name


def qualified_name(name: str) -> str:
    """Check a name as kube-apiserver checks keys of labels and names of gates, and return it."""
    prefix, slash, last = name.rpartition("/")
    if not _GATE_NAME.fullmatch(last) or (slash and not _DNS_NAME.fullmatch(prefix)):
        message = "must be a qualified name such as kubextend.dev/queue"
        raise ValueError(message)
    return name


_FilePath = Annotated[str | None, AfterValidator(lambda path: path or None)]
GoDuration = Annotated[
    Duration,
    PlainValidator(_duration),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "examples": ["2s", "1m30s"]}),
]
_Port = Annotated[int, Field(ge=1, le=65535)]
_Percentage = Annotated[int, Field(ge=0, le=100)]


class ServerTLS(_Model):
    """Certificates of the server. With `clientCAFile`, every client needs a certificate as well."""

    cert_file: _FilePath = None
    """Certificate of the server, with its chain, as PEM. Null: the server speaks plain HTTP."""
    key_file: _FilePath = None
    """Private key of `certFile`, as PEM."""
    client_ca_file: _FilePath = Field(default=None, alias="clientCAFile")
    """CA certificates, as PEM. Every client needs a certificate of one of these CAs."""


class WaitingPods(_Model):
    """Access over HTTP to waiting pods, those that Permit plugins hold: list, allow and reject."""

    allowed_names: tuple[str, ...] = ()
    """Common names or DNS names of client certificates, in the spelling of the certificate."""
    token_file: _FilePath = None
    """File of bearer tokens, one on each line. The server reads the file at every request."""


class Decisions(_Model):
    """The record of what the verbs decided about each pod, and who may read it over HTTP."""

    max_bytes: Annotated[int, Field(ge=0)] = 64 << 20
    """Bytes of memory for the records of all pods. 0 turns the record off."""
    allowed_names: tuple[str, ...] = ()
    """Common names or DNS names of the client certificates whose owners may read."""
    token_file: _FilePath = None
    """File of bearer tokens of readers, one on each line. The server reads it at every request."""
    page: bool = False
    """Whether the server has the page `ui/`, which shows in a browser what readers may read."""


class ServerLease(_Model):
    """The Lease whose holder is the leader: the replica that decides where plugins keep state.

    kubextend then runs in a pod only: it takes its pod's name and namespace from `POD_NAME` and
    `POD_NAMESPACE` in the environment.
    """

    name: Annotated[str, AfterValidator(_dns_name)] = "kubextend"
    """Name of the Lease."""
    namespace: Annotated[str, AfterValidator(_dns_name)] | None = None
    """Namespace of the Lease. Null: that of kubextend's pod."""


class Server(_Model):
    """Where and how kubextend serves the verbs: filter, prioritize, preempt and bind."""

    host: Annotated[str, Field(min_length=1), AfterValidator(_host)] = "127.0.0.1"
    """Address or name to listen on. Away from loopback, preempt and bind need `tls.clientCAFile` or
    `insecure`."""
    port: _Port = 8888
    """TCP port of the verbs."""
    path: Annotated[str, AfterValidator(_server_path)] = "/"
    """Path below which the verbs are: `/` makes them `/filter` and so on."""
    health_port: _Port | None = None
    """A second TCP port, which serves `/livez`, `/readyz` and `/metrics` over plain HTTP, and no
    verb. `port` serves them with or without it."""
    health_host: Annotated[str, Field(min_length=1), AfterValidator(_host)] | None = None
    """Address to listen on for `healthPort`. Null: `host`. Set this field where `host` is loopback,
    and probes and Prometheus call from elsewhere.
    """
    max_body_bytes: Annotated[int, Field(ge=1)] = 512 << 20
    """Bytes of the largest request body; a larger body gets the status 413. 15,000 whole nodes are
    285 MB, their names 1 MB.
    """
    max_in_flight_bytes: Annotated[int, Field(ge=1)] = 1 << 30
    """Bytes that all requests together may hold at a time: bodies, and heads above 4 KiB; at least
    `maxBodyBytes`. A request beyond gets the status 503.
    """
    # kube-scheduler drops an idle connection after 90 s; a server that drops it earlier fails a
    # call.
    keep_alive_seconds: Annotated[int, Field(ge=95, le=86_400)] = 120
    """Seconds before the server closes an idle connection; kube-scheduler does so after 90."""
    drain_delay: GoDuration = Duration(0)
    """Time after SIGTERM in which `/readyz` fails and the server answers requests, 20s at most."""
    insecure: bool = False
    """Whether anyone who reaches the port may call preempt and bind."""
    tls: ServerTLS = ServerTLS()
    """Certificates of the server and of its clients."""
    waiting_pods: WaitingPods | None = None
    """Who may list, allow and reject pods that Permit plugins hold, over HTTP. Null: nobody."""
    decisions: Decisions = Decisions()
    """The record of what the verbs decided about each pod, which `kubextend why` reads."""
    lease: ServerLease | None = None
    """Lease that decides which of several replicas is the leader. Null: no leader is elected, so
    where plugins keep state kube-scheduler must call one replica only."""


class Cluster(_Model):
    """Access to the Kubernetes API. The section, even an empty one, switches the access on."""

    kubeconfig: _FilePath = None
    """Path of a kubeconfig. Null: the service account of the pod, else the default kubeconfig."""
    context: _FilePath = None
    """Context of the kubeconfig. Null: the kubeconfig's current context."""


class QueueLease(_Model):
    """The Lease whose holder is the one replica that releases pods from the queue."""

    name: Annotated[str, AfterValidator(_dns_name)] = "kubextend-queue"
    """Name of the Lease."""
    namespace: Annotated[str, AfterValidator(_dns_name)] | None = None
    """Namespace of the Lease. Null: that of kubextend's pod; outside a pod, `kube-system`."""


class Queue(_Model):
    """How the queue releases pods to kube-scheduler, where a profile enables a queueSort plugin."""

    strategy: Literal["StrictFIFO", "BestEffortFIFO"] = "BestEffortFIFO"
    """What the queue does while kube-scheduler finds no node for a released pod: `StrictFIFO` keeps
    later pods waiting, with `fairQueuing: ByNamespace` those of the pod's namespace.
    `BestEffortFIFO` goes on.
    """
    window: Annotated[int, Field(ge=1, le=10_000)] = 1
    """Number of released pods that kubextend waits for at a time. kube-scheduler decides in which
    order it tries these pods.
    """
    max_hold: GoDuration = Duration(60_000_000_000)
    """Longest time for which the queue waits for one released pod before it releases the next."""
    fair_queuing: Literal["None", "ByNamespace"] = "None"
    """`ByNamespace`: namespaces take turns, and the order of the queueSort plugin holds within a
    namespace. `None`: that order holds among the pods of all namespaces."""
    gate: Annotated[str, AfterValidator(qualified_name)] = "kubextend.dev/queue"
    """Scheduling gate that an admission policy puts on new pods; kubextend removes the gate. The
    files of deploy/queue name the default."""
    lease: QueueLease = QueueLease()
    """Lease that decides which one of kubextend's replicas releases pods. With `server.lease`, the
    leader releases them, and this Lease is not used.
    """


class ManagedResource(_Model):
    """An extended resource; kube-scheduler sends only pods that request a listed resource."""

    name: str = ""
    """Name of the extended resource, such as `example.com/gpu`."""
    ignored_by_scheduler: bool = False
    """Whether kube-scheduler leaves the resource out of its own fit check."""


class ExtenderTLSConfig(_Model):
    """TLS of kube-scheduler as a client of kubextend. The paths are on kube-scheduler's machine."""

    ca_file: _FilePath = None
    """CA of the server certificate, as PEM."""
    cert_file: _FilePath = None
    """Client certificate of kube-scheduler, as PEM."""
    key_file: _FilePath = None
    """Private key of `certFile`, as PEM."""
    server_name: _FilePath = None
    """Name that kube-scheduler expects in the server certificate. Null: the host of `urlPrefix`."""


class Extender(_Model):
    """Settings for the extender entry in kube-scheduler's file, under its field names there."""

    url_prefix: str | None = None
    """URL at which kube-scheduler finds the verbs. Null: the URL that `server` describes."""
    node_cache_capable: Annotated[bool, Field(json_schema_extra={"default": None})] = False
    """Whether requests carry only the names of nodes, instead of whole nodes. Null: true with
    `cluster`, else false."""
    http_timeout: GoDuration = Duration(2_000_000_000)
    """Timeout of kube-scheduler for a filter, prioritize or preempt request."""
    ignorable: bool = False
    """Whether kube-scheduler places pods without kubextend's filters while kubextend does not
    answer or has not listed the nodes."""
    last_filter: bool = False
    """Whether no entry with a `filterVerb` comes after kubextend's in kube-scheduler's `extenders`,
    in which entries with `ignorable: true` come after all others. With true, filter leaves rejected
    nodes out of its answer about a pod that fits on another node."""
    preempt_groups: bool = False
    """Whether a pod may take the place of a pod group that is on several nodes. With true,
    kube-scheduler evicts pods without kubextend's filters while kubextend does not answer."""
    managed_resources: tuple[ManagedResource, ...] = ()
    """Extended resources: kube-scheduler sends only pods that request one. Empty: all pods.
    Excludes `preemptGroups`, and that kubextend binds pods beside another verb: both need an entry
    of their own, and kube-scheduler takes a resource in one entry only."""
    tls_config: ExtenderTLSConfig = ExtenderTLSConfig()
    """How kube-scheduler checks kubextend's certificate and shows its own. Paths are on
    kube-scheduler's machine.
    """
    bind: bool = False
    """Whether kubextend binds pods even where no plugin needs that."""
    permit_max_wait: GoDuration = Duration(60_000_000_000)
    """Longest time for which a Permit plugin holds a pod, 15m at most. kube-scheduler's timeout for
    a bind request is a minute longer.
    """
    max_held_pods: Annotated[int, Field(ge=1)] = 2000
    """Number of pods that Permit plugins hold at a time; each held pod costs a connection."""
    max_held_pods_per_namespace: Annotated[int, Field(ge=1)] = 1000
    """Number of pods of one namespace that Permit plugins hold at a time."""

    @property
    def preempt_timeout(self) -> Duration:
        """The timeout of preempt with preemptGroups: httpTimeout plus five seconds."""
        return Duration(self.http_timeout.nanoseconds + _BEYOND_PREEMPT.nanoseconds)

    @property
    def bind_timeout(self) -> Duration:
        """The timeout of bind in kube-scheduler's configuration: permitMaxWait plus one minute.

        ``permitMaxWait`` is the longest time for which a Permit plugin holds a pod. The bind
        request of a held pod stays open.
        """
        return Duration(self.permit_max_wait.nanoseconds + _BEYOND_PERMIT.nanoseconds)


class Autoscaler(_Model):
    """The autoscaler of nodes in the cluster, and what kubextend does for it."""

    name: Literal["ClusterAutoscaler", "Karpenter"] | None = None
    """Which autoscaler adds and removes nodes. Null: there is none."""
    mark_held_pods: bool = True
    """Whether pods that Permit plugins hold get the condition `PodScheduled` False with the reason
    `Unschedulable`, so that the autoscaler counts them. Without `name` nothing is marked."""


class Guard(_Model):
    """What kubextend checks right before it binds a pod, beside the plugins."""

    resources: bool = False
    """Whether kubextend binds a pod only if the pod's requests fit on the node with those of all
    other pods. kubextend then binds all pods, and watches all."""


class Plugin(_Model):
    """A plugin that runs at an extension point."""

    name: str = ""
    """Name of the plugin. In `disabled`, `*` stands for all plugins."""
    weight: Annotated[int, Field(ge=-(2**31), le=2**31 - 1)] = 0
    """Factor of the plugin's scores, at `score` and `multiPoint` only. Left out, it is 1; an
    enabled plugin may have no less."""


class PluginSet(_Model):
    """The plugins that one extension point adds and leaves out."""

    enabled: tuple[Plugin, ...] = ()
    """Plugins that run at this point, in order."""
    disabled: tuple[Plugin, ...] = ()
    """Plugins that `multiPoint` enables and that shall not run at this point."""


class Plugins(_Model):
    """The enabled and disabled plugins of each extension point of a profile."""

    pre_enqueue: PluginSet = PluginSet()
    """Plugins at `preEnqueue`."""
    queue_sort: PluginSet = PluginSet()
    """Plugins at `queueSort`."""
    pre_filter: PluginSet = PluginSet()
    """Plugins at `preFilter`."""
    filter: PluginSet = PluginSet()
    """Plugins at `filter`."""
    post_filter: PluginSet = PluginSet()
    """Plugins at `postFilter`."""
    pre_score: PluginSet = PluginSet()
    """Plugins at `preScore`."""
    score: PluginSet = PluginSet()
    """Plugins at `score`."""
    reserve: PluginSet = PluginSet()
    """Plugins at `reserve`."""
    permit: PluginSet = PluginSet()
    """Plugins at `permit`."""
    pre_bind: PluginSet = PluginSet()
    """Plugins at `preBind`."""
    bind: PluginSet = PluginSet()
    """Plugins at `bind`."""
    post_bind: PluginSet = PluginSet()
    """Plugins at `postBind`."""
    multi_point: PluginSet = PluginSet()
    """Plugins at every extension point that the plugin implements."""
    placement_generate: PluginSet = PluginSet()
    """Not served by kubextend: left to kube-scheduler."""
    placement_score: PluginSet = PluginSet()
    """Not served by kubextend: left to kube-scheduler."""
    pod_group_post_filter: PluginSet = PluginSet()
    """Not served by kubextend: left to kube-scheduler."""

    def at(self, point: str) -> PluginSet:
        """Return the enabled and disabled plugins of an extension point.

        Args:
            point: the name of the point in the file, such as ``preFilter``.
        """
        name = next(name for name, info in type(self).model_fields.items() if info.alias == point)
        found: PluginSet = getattr(self, name)
        return found


class PluginConfig(_Model):
    """Arguments of one plugin at all its extension points, and what its failure means."""

    name: str = ""
    """Name of the plugin."""
    args: dict[str, JsonValue] = Field(default_factory=dict)
    """Arguments of the plugin; `kubextend plugins` lists them."""
    failure_policy: Literal["Fail", "Ignore"] = "Fail"
    """What kubextend does if the plugin fails at PreFilter or Filter: `Fail` answers an Error,
    `Ignore` goes on without the plugin. At PostFilter a failure changes no answer: `Fail` ends
    PostFilter, `Ignore` goes on with the next plugin. At PreEnqueue `Fail` keeps the pod in the
    queue.
    """


class SchedulerProfile(_Model):
    """The plugins for the pods of one scheduler name, as in a KubeSchedulerConfiguration."""

    scheduler_name: str | None = None
    """`spec.schedulerName` of the pods that the profile is for. May be left out where there is one
    profile."""
    percentage_of_nodes_to_score: _Percentage | None = None
    """Value of this field for kube-scheduler. Null: 100 where a filter of kubextend runs."""
    plugins: Plugins = Plugins()
    """Plugins enabled and disabled at each extension point."""
    plugin_config: tuple[PluginConfig, ...] = ()
    """Arguments and failure policies of plugins."""


class ExtenderConfiguration(_Model):
    """Configuration of kubextend, as one YAML document."""

    api_version: Literal["kubextend.dev/v1alpha1"] = API_VERSION
    """Version of this format."""
    kind: Literal["ExtenderConfiguration"] = KIND
    """Kind of this document."""
    out_of_tree: tuple[str, ...] = ()
    """Plugin classes that no installed package announces, as `package.module:Class`."""
    server: Server = Server()
    """Where and how kubextend serves the verbs: filter, prioritize, preempt and bind."""
    cluster: Cluster | None = None
    """Access to the Kubernetes API. Null: no access; `{}`: access with the defaults."""
    extender: Extender = Extender()
    """Settings for the extender entry in kube-scheduler's file."""
    autoscaler: Autoscaler = Autoscaler()
    """The autoscaler of nodes in the cluster, and what kubextend does for it."""
    guard: Guard = Guard()
    """What kubextend checks right before it binds a pod, where other schedulers use the same
    nodes."""
    queue: Queue = Queue()
    """How the queue releases pods, where a profile enables a queueSort plugin."""
    score_scale: Literal["additive", "strict10"] = "additive"
    """Scale of scores: `additive` for kube-scheduler; `strict10`, 0 to 10, for other clients."""
    profiles: tuple[SchedulerProfile, ...] = ()
    """Profiles, as in a KubeSchedulerConfiguration."""
    pass_through: tuple[str, ...] = ()
    """Names of further schedulers, whose pods kubextend leaves alone; it rejects all others."""

    _resolved: tuple[ResolvedProfile, ...] = PrivateAttr(default=())
    _notes: tuple[str, ...] = PrivateAttr(default=())
    _plugins: KnownPlugins = PrivateAttr(default_factory=KnownPlugins)

    def with_resolved(
        self,
        resolved: tuple[ResolvedProfile, ...],
        notes: tuple[str, ...] = (),
        plugins: KnownPlugins | None = None,
    ) -> Self:
        """Return a copy of the configuration that has its profiles with multiPoint expanded.

        Args:
            resolved: the profiles with multiPoint expanded, in the file's order.
            notes: one sentence for each field that has no effect, or deserves a warning.
            plugins: all known plugins by name; None means no plugins.
        """
        copy = self.model_copy()
        copy._resolved = resolved  # noqa: SLF001  of the same class
        copy._notes = notes  # noqa: SLF001
        copy._plugins = plugins or KnownPlugins()  # noqa: SLF001
        return copy

    def with_profiles(self, resolved: tuple[ResolvedProfile, ...]) -> Self:
        """Return a copy of the configuration whose profiles run other plugins."""
        return self.with_resolved(resolved, self._notes, self._plugins)

    @property
    def resolved(self) -> tuple[ResolvedProfile, ...]:
        """The profiles with multiPoint expanded, in the file's order."""
        return self._resolved

    @property
    def plugins(self) -> KnownPlugins:
        """All known plugins by name, those of the file's ``outOfTree`` included."""
        return self._plugins

    @property
    def notes(self) -> tuple[str, ...]:
        """One sentence for each field that has no effect in kubextend, or deserves a warning."""
        return self._notes

    @property
    def scheme(self) -> Literal["http", "https"]:
        """The URL scheme of the server: ``https`` if it has a certificate, else ``http``."""
        return "https" if self.server.tls.cert_file else "http"

    @property
    def url_prefix(self) -> str:
        """The URL at which kube-scheduler calls the verbs, without a slash at its end.

        The URL is ``extender.urlPrefix`` if that is set, else it follows from ``server``.
        """
        host = f"[{self.server.host}]" if ":" in self.server.host else self.server.host
        own = f"{self.scheme}://{host}:{self.server.port}{self.server.path}"
        scheme, colon, rest = (self.extender.url_prefix or own).partition(":")
        return (scheme.lower() + colon + rest).rstrip("/")

    @property
    def verbs(self) -> tuple[VerbName, ...]:
        """The verbs, such as ``filter``, that the enabled plugins need; no others are served."""
        verbs: list[VerbName] = []
        if self._any_at(_FILTER_POINTS):
            verbs.append("filter")
        if self.rejects_nodes:
            verbs.append("preempt")
        if self._any_at(("score",)):
            verbs.append("prioritize")
        binds = self.extender.bind or self.guard.resources
        if binds or self._any_at(_BINDING_POINTS) or self.counts_pods:
            verbs.append("bind")
        return tuple(verbs)

    @property
    def rejects_nodes(self) -> bool:
        """Whether a profile enables a PreFilter or Filter plugin of kubextend."""
        return self._any_at(_REJECTING_POINTS)

    @property
    def queues(self) -> bool:
        """Whether kubextend runs its queue: a profile enables a QueueSort plugin of kubextend."""
        return self._any_at(("queueSort",))

    @property
    def counts_pods(self) -> bool:
        """Whether a profile enables a plugin with ``needs_pods = True`` at PreFilter or Filter."""
        return any(profile.counts_pods for profile in self.resolved)

    @property
    def needs_leader(self) -> bool:
        """Whether plugins of a profile, or the guard, keep what other replicas do not know."""
        return self.guard.resources or any(profile.state for profile in self.resolved)

    @property
    def needs_pods(self) -> bool:
        """Whether kubextend must watch the pods of the cluster.

        kubextend must do so if a profile enables a plugin with ``needs_pods = True``, or any plugin
        at Reserve or Permit, or if the guard compares requests with the room on nodes.
        """
        asked_for = any(profile.needs_pods for profile in self.resolved) or self.guard.resources
        return asked_for or self._any_at(("reserve", "permit"))

    @property
    def sha256(self) -> str:
        """The hash of the configuration, in which the order of the fields makes no difference."""
        fields = json.dumps(self.model_dump(mode="json", by_alias=True), sort_keys=True)
        return hashlib.sha256(fields.encode()).hexdigest()

    @property
    def informers(self) -> tuple[str, ...]:
        """The resources whose objects the enabled plugins read, sorted.

        Raises: KubextendError: a plugin's ``informers`` hold something else.
        """
        enabled = {name for profile in self.resolved for name in profile.args}
        return tuple(sorted({each for name in enabled for each in self.plugins[name].informers}))

    @property
    def kept_parts(self) -> KeptParts:
        """The optional parts of pods and nodes that a plugin of any profile needs."""
        return KeptParts(
            details=any(profile.parts["details"] for profile in self.resolved),
            raw=any(profile.parts["raw"] for profile in self.resolved),
        )

    @property
    def marks_held_pods(self) -> bool:
        """Whether pods that Permit plugins hold are marked for an autoscaler."""
        return self.autoscaler.name is not None and self.autoscaler.mark_held_pods

    def _any_at(self, points: tuple[str, ...]) -> bool:
        return any(profile.at(point) for profile in self.resolved for point in points)
