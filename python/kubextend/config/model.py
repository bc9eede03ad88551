"""The typed configuration: one class per object of the file, fields spelled as in the file.

Says what a field may hold by itself. What fields mean together is in ``checks``, what plugin names
mean in ``resolve``; reading files is in ``loader``.
"""

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal, Protocol, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    PlainSerializer,
    PlainValidator,
    PrivateAttr,
)
from pydantic.alias_generators import to_camel

from kubextend.config.duration import Duration

__all__ = [
    "API_VERSION",
    "KIND",
    "Cluster",
    "EnabledPlugin",
    "Extender",
    "ExtenderConfiguration",
    "ExtenderTLSConfig",
    "GoDuration",
    "ManagedResource",
    "Plugin",
    "PluginConfig",
    "PluginInfo",
    "PluginSet",
    "Plugins",
    "Queue",
    "QueueLease",
    "ResolvedProfile",
    "SchedulerProfile",
    "Server",
    "ServerTLS",
    "Verb",
    "WaitingPods",
]

API_VERSION: Final = "kubextend.dev/v1alpha1"
KIND: Final = "ExtenderConfiguration"

Verb = Literal["filter", "preempt", "prioritize", "bind"]

# Bind has to outlast the wait of a Permit plugin; nothing in kube-scheduler is held up by it.
_BEYOND_PERMIT: Final = Duration.parse("1m")

_HOST_NAME = re.compile(r"(?=.{1,253}$)[A-Za-z0-9_-]{1,63}(?:\.[A-Za-z0-9_-]{1,63})*\.?")
_DNS_NAME = re.compile(
    r"(?=.{1,253}$)[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*"
)
# Source: apimachinery v0.36 pkg/api/validate/content/kube.go IsLabelKey, by which gates are judged
_GATE_NAME = re.compile(r"(?=.{1,63}$)[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")
_BINDING_POINTS = ("reserve", "permit", "preBind", "bind", "postBind")
# A pod that Permit rejected hears of it at its next filter call.
_FILTER_POINTS = ("preFilter", "filter", "postFilter", "permit")
_REJECTING_POINTS = ("preFilter", "filter")


class PluginInfo(Protocol):
    """What the configuration has to know of a plugin; the registry of plugins tells it."""

    @property
    def extension_points(self) -> frozenset[str]:
        """The points it implements, as the file spells them: ``filter``, ``preScore``."""

    @property
    def args_model(self) -> type[BaseModel] | None:
        """What its ``pluginConfig[].args`` must look like; None if it takes none."""

    @property
    def needs_pods(self) -> bool:
        """Whether it looks at the pods on nodes."""

    @property
    def why_not_isolated(self) -> str:
        """Why it cannot run in a process of its own, to be said after its name; empty: it can."""


@dataclass(frozen=True, slots=True)
class EnabledPlugin:
    """A plugin at one extension point.

    Attributes:
        weight: what its scores are multiplied by; 1 at any other point than score.
    """

    name: str
    weight: int = 1


@dataclass(frozen=True, slots=True)
class ResolvedProfile:
    """A profile with multiPoint expanded: what runs, in the order in which it runs.

    Attributes:
        points: for each extension point that has plugins, those plugins in order.
        args: for each enabled plugin its checked arguments, None where it takes none.
        needs_pods: one of its plugins looks at pods.
        counts_pods: one of its filters does, so pods that are on their way to a node have to be
            known: we have to bind them.
        ignored: names of the plugins whose failure filter may ignore.
        isolated: names of the plugins that run in a process of their own.
    """

    scheduler_name: str
    points: Mapping[str, tuple[EnabledPlugin, ...]] = field(default_factory=dict)
    args: Mapping[str, BaseModel | None] = field(default_factory=dict)
    needs_pods: bool = False
    counts_pods: bool = False
    ignored: frozenset[str] = frozenset()
    isolated: frozenset[str] = frozenset()

    def at(self, point: str) -> tuple[EnabledPlugin, ...]:
        """The plugins at an extension point; none is no error."""
        return self.points.get(point, ())

    def points_of(self, plugin: str) -> frozenset[str]:
        """The extension points at which a plugin is enabled."""
        points = self.points.items()
        return frozenset(
            point for point, enabled in points if any(each.name == plugin for each in enabled)
        )


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
    )


def _duration(value: object) -> Duration:
    if isinstance(value, Duration):
        return value
    if isinstance(value, str):
        return Duration.parse(value)
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


def _gate(name: str) -> str:
    prefix, slash, last = name.rpartition("/")
    if not _GATE_NAME.fullmatch(last) or (slash and not _DNS_NAME.fullmatch(prefix)):
        message = "must be a qualified name such as kubextend.dev/queue"
        raise ValueError(message)
    return name


_FilePath = Annotated[str | None, AfterValidator(lambda path: path or None)]
GoDuration = Annotated[Duration, PlainValidator(_duration), PlainSerializer(str, return_type=str)]
_Port = Annotated[int, Field(ge=1, le=65535)]
_Percentage = Annotated[int, Field(ge=0, le=100)]


class ServerTLS(_Model):
    """Certificates of the server; a client CA makes it ask every client for one too."""

    cert_file: _FilePath = None
    key_file: _FilePath = None
    client_ca_file: _FilePath = Field(default=None, alias="clientCAFile")


class WaitingPods(_Model):
    """Who may list, allow and reject waiting pods over HTTP; its presence switches that on.

    Attributes:
        allowed_names: common names or DNS names of client certificates, spelled as there.
        token_file: bearer tokens, one a line; what it holds may change at any time.
    """

    allowed_names: tuple[str, ...] = ()
    token_file: _FilePath = None


class Server(_Model):
    """Where and how the verbs are served.

    Attributes:
        path: what the verbs are under; ``/`` makes them ``/filter`` and so on.
        health_port: a port of its own for livez, readyz and metrics, over plain HTTP.
        health_host: where that port listens; None for ``host``. It serves no verb, so a pod whose
            verbs stay on loopback may open it to probes and to Prometheus.
        max_in_flight_bytes: bodies that are held at the same time; beyond it requests get 503.
        drain_delay: from SIGTERM on it is not ready, yet goes on for so long.
        insecure: bind and preempt may be reached from other machines without a certificate.
        waiting_pods: who may decide on waiting pods; None: nobody.
    """

    host: Annotated[str, Field(min_length=1), AfterValidator(_host)] = "127.0.0.1"
    port: _Port = 8888
    path: Annotated[str, AfterValidator(_server_path)] = "/"
    health_port: _Port | None = None
    health_host: Annotated[str, Field(min_length=1), AfterValidator(_host)] | None = None
    max_body_bytes: Annotated[int, Field(ge=1)] = 512 << 20
    max_in_flight_bytes: Annotated[int, Field(ge=1)] = 1 << 30
    # kube-scheduler drops an idle connection after 90 s; a server that is first fails a call.
    keep_alive_seconds: Annotated[int, Field(ge=95, le=86_400)] = 120
    drain_delay: GoDuration = Duration(0)
    insecure: bool = False
    tls: ServerTLS = ServerTLS()
    waiting_pods: WaitingPods | None = None


class Cluster(_Model):
    """Access to the Kubernetes API; its presence is what switches the access on."""

    kubeconfig: _FilePath = None
    context: _FilePath = None


class QueueLease(_Model):
    """The Lease that says which replica releases pods.

    Attributes:
        namespace: None: the one that kubextend runs in, and outside of any pod kube-system.
    """

    name: Annotated[str, AfterValidator(_dns_name)] = "kubextend-queue"
    namespace: Annotated[str, AfterValidator(_dns_name)] | None = None


class Queue(_Model):
    """How pods are released, where a profile enables a queueSort plugin.

    Attributes:
        strategy: what an unschedulable pod means to those behind it: they wait, or they do not.
        window: how many released pods kube-scheduler may have at a time. Their order among
            themselves is kube-scheduler's.
        max_hold: no released pod is waited for longer.
        gate: the scheduling gate that is put on pods at their creation, and taken off here.
    """

    strategy: Literal["StrictFIFO", "BestEffortFIFO"] = "BestEffortFIFO"
    window: Annotated[int, Field(ge=1, le=10_000)] = 1
    max_hold: GoDuration = Duration(60_000_000_000)
    gate: Annotated[str, AfterValidator(_gate)] = "kubextend.dev/queue"
    lease: QueueLease = QueueLease()


class ManagedResource(_Model):
    """An extended resource: pods that ask for none of those listed are not sent to us."""

    name: str = ""
    ignored_by_scheduler: bool = False


class ExtenderTLSConfig(_Model):
    """How kube-scheduler checks us and proves itself; the paths are on its machine, not ours."""

    ca_file: _FilePath = None
    cert_file: _FilePath = None
    key_file: _FilePath = None
    server_name: _FilePath = None


class Extender(_Model):
    """What kube-scheduler is told of us, under its own field names.

    Attributes:
        url_prefix: where kube-scheduler finds us; None: as ``server`` says.
        node_cache_capable: kube-scheduler sends node names only. On by default with ``cluster``.
        http_timeout: of filter, prioritize and preempt; bind has a longer one.
        bind: kubextend binds pods even where no plugin needs it.
        permit_max_wait: no Permit plugin holds a pod for longer; bind's timeout is a minute more.
        max_held_pods: how many pods Permit plugins may hold at a time; each costs a connection.
        max_held_pods_per_namespace: how many of those may be of one namespace.
    """

    url_prefix: str | None = None
    node_cache_capable: bool = False
    http_timeout: GoDuration = Duration(2_000_000_000)
    ignorable: bool = False
    managed_resources: tuple[ManagedResource, ...] = ()
    tls_config: ExtenderTLSConfig = ExtenderTLSConfig()
    bind: bool = False
    permit_max_wait: GoDuration = Duration(60_000_000_000)
    max_held_pods: Annotated[int, Field(ge=1)] = 2000
    max_held_pods_per_namespace: Annotated[int, Field(ge=1)] = 1000

    @property
    def bind_timeout(self) -> Duration:
        """What kube-scheduler is told for bind."""
        return Duration(self.permit_max_wait.nanoseconds + _BEYOND_PERMIT.nanoseconds)


class Plugin(_Model):
    """A plugin by name; the weight counts at score only, 0 being 1 to kube-scheduler."""

    name: str = ""
    weight: Annotated[int, Field(ge=-(2**31), le=2**31 - 1)] = 0


class PluginSet(_Model):
    """What one extension point adds and leaves out."""

    enabled: tuple[Plugin, ...] = ()
    disabled: tuple[Plugin, ...] = ()


class Plugins(_Model):
    """The extension points of a profile."""

    pre_enqueue: PluginSet = PluginSet()
    queue_sort: PluginSet = PluginSet()
    pre_filter: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    post_filter: PluginSet = PluginSet()
    pre_score: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    reserve: PluginSet = PluginSet()
    permit: PluginSet = PluginSet()
    pre_bind: PluginSet = PluginSet()
    bind: PluginSet = PluginSet()
    post_bind: PluginSet = PluginSet()
    multi_point: PluginSet = PluginSet()
    placement_generate: PluginSet = PluginSet()
    placement_score: PluginSet = PluginSet()

    def at(self, point: str) -> PluginSet:
        """The set of the point that the file spells so."""
        name = next(name for name, info in type(self).model_fields.items() if info.alias == point)
        found: PluginSet = getattr(self, name)
        return found


class PluginConfig(_Model):
    """Arguments of one plugin, wherever it is enabled, and what its failure means.

    Attributes:
        failure_policy: Fail: what the plugin cannot judge fails. Ignore: PreFilter, Filter and
            PostFilter go on without it. Score does in any case, as its answer has no room for an
            error; binding never does.
        isolation: where its code runs: in a thread of kubextend, or in a process of its own.
    """

    name: str = ""
    args: dict[str, JsonValue] = Field(default_factory=dict)
    failure_policy: Literal["Fail", "Ignore"] = "Fail"
    isolation: Literal["thread", "process"] = "thread"


class SchedulerProfile(_Model):
    """A profile as KubeSchedulerConfiguration has it.

    Attributes:
        scheduler_name: of the pods it is for; may be left out where there is one profile.
        percentage_of_nodes_to_score: handed on to kube-scheduler, not read by us.
    """

    scheduler_name: str | None = None
    percentage_of_nodes_to_score: _Percentage | None = None
    plugins: Plugins = Plugins()
    plugin_config: tuple[PluginConfig, ...] = ()


class ExtenderConfiguration(_Model):
    """All of it. ``config.load`` makes one; ``resolved`` is what the profiles come to.

    Attributes:
        out_of_tree: plugin classes that no package announces, as ``package.module:Class``.
    """

    api_version: Literal["kubextend.dev/v1alpha1"] = API_VERSION
    kind: Literal["ExtenderConfiguration"] = KIND
    out_of_tree: tuple[str, ...] = ()
    server: Server = Server()
    cluster: Cluster | None = None
    extender: Extender = Extender()
    queue: Queue = Queue()
    score_scale: Literal["additive", "strict10"] = "additive"
    profiles: tuple[SchedulerProfile, ...] = ()

    _resolved: tuple[ResolvedProfile, ...] = PrivateAttr(default=())
    _notes: tuple[str, ...] = PrivateAttr(default=())
    _scheduler_part: Mapping[str, JsonValue] = PrivateAttr(default_factory=dict)

    def with_resolved(
        self,
        resolved: tuple[ResolvedProfile, ...],
        notes: tuple[str, ...] = (),
        scheduler_part: Mapping[str, JsonValue] | None = None,
    ) -> Self:
        """The same configuration that also knows what its profiles come to."""
        copy = self.model_copy()
        copy._resolved = resolved  # noqa: SLF001  of the same class
        copy._notes = notes  # noqa: SLF001
        copy._scheduler_part = scheduler_part or {}  # noqa: SLF001
        return copy

    @property
    def resolved(self) -> tuple[ResolvedProfile, ...]:
        """The profiles in the file's order, every plugin in its place."""
        return self._resolved

    @property
    def notes(self) -> tuple[str, ...]:
        """What was read and understood, yet has no effect here; one sentence each."""
        return self._notes

    @property
    def scheduler_part(self) -> Mapping[str, JsonValue]:
        """Of a KubeSchedulerConfiguration all but our plugins, else nothing."""
        return self._scheduler_part

    @property
    def scheme(self) -> Literal["http", "https"]:
        """What the server speaks."""
        return "https" if self.server.tls.cert_file else "http"

    @property
    def url_prefix(self) -> str:
        """Where kube-scheduler finds the verbs, derived from ``server`` unless given."""
        host = f"[{self.server.host}]" if ":" in self.server.host else self.server.host
        own = f"{self.scheme}://{host}:{self.server.port}{self.server.path}"
        return (self.extender.url_prefix or own).rstrip("/")

    @property
    def verbs(self) -> tuple[Verb, ...]:
        """The verbs that kube-scheduler is told of, and the only ones that are served."""
        verbs: list[Verb] = []
        if self._any_at(_FILTER_POINTS):
            verbs.append("filter")
        if self._any_at(_REJECTING_POINTS):
            verbs.append("preempt")
        if self._any_at(("score",)):
            verbs.append("prioritize")
        if self.extender.bind or self._any_at(_BINDING_POINTS) or self.counts_pods:
            verbs.append("bind")
        return tuple(verbs)

    @property
    def queues(self) -> bool:
        """Whether the queue is on: a profile has a QueueSort plugin of ours."""
        return self._any_at(("queueSort",))

    @property
    def counts_pods(self) -> bool:
        """Whether a filter looks at the pods on nodes."""
        return any(profile.counts_pods for profile in self.resolved)

    @property
    def needs_pods(self) -> bool:
        """Whether pods must be watched: for a plugin that asks for them, or one that holds them."""
        asked_for = any(profile.needs_pods for profile in self.resolved)
        return asked_for or self._any_at(("reserve", "permit"))

    def _any_at(self, points: tuple[str, ...]) -> bool:
        return any(profile.at(point) for profile in self.resolved for point in points)
