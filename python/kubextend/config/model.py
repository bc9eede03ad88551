"""The configuration file, ``File``: one pydantic model for each kind of object in it.

The models check each field by itself. ``profiles`` looks up the names of plugins, ``checks``
compares fields, ``loader`` puts all together to a ``Configuration``.
"""

import ipaddress
import re
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue
from pydantic.alias_generators import to_camel

from kubextend.config.duration import Duration, GoDuration

__all__ = [
    "API_VERSION",
    "KIND",
    "Autoscaler",
    "Callers",
    "Cluster",
    "Decisions",
    "Extender",
    "ExtenderTLSConfig",
    "File",
    "Guard",
    "ManagedResource",
    "Plugin",
    "PluginConfig",
    "PluginSet",
    "Plugins",
    "QualifiedName",
    "Queue",
    "QueueLease",
    "SchedulerProfile",
    "Server",
    "ServerLease",
    "ServerTLS",
    "VerbName",
    "WaitingPods",
]

API_VERSION: Final = "kubextend.dev/v1alpha1"
KIND: Final = "ExtenderConfiguration"

VerbName = Literal["filter", "preempt", "prioritize", "bind"]

# How much longer bind's timeout is than permitMaxWait: the bind request is open while Permit waits.
# kube-scheduler schedules other pods meanwhile.
_BEYOND_PERMIT: Final = Duration.parse("1m")

_HOST_NAME = re.compile(r"(?=.{1,253}$)[A-Za-z0-9_-]{1,63}(?:\.[A-Za-z0-9_-]{1,63})*\.?")
_DNS = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*"
# Source: apimachinery v0.36 pkg/api/validate/content/kube.go IsLabelKey, which validates gates
_NAME = r"(?=[^/]{1,63}$)[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?"
_LABEL_KEY = f"(?:(?=[^/]{{1,253}}/){_DNS}/)?{_NAME}"
_PLAIN_PATH = r"(?!.*//)(?!.*/\.\.?(?:/|$))[^?#%\\\"{} ]*"


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


def _matching(pattern: str, message: str) -> AfterValidator:
    """Return a validator of texts that a pattern matches as a whole."""
    compiled = re.compile(pattern, re.DOTALL)

    def check(text: str) -> str:
        if not compiled.fullmatch(text):
            raise ValueError(message)
        return text

    return AfterValidator(check)


def _host(host: str) -> str:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        if not _HOST_NAME.fullmatch(host):
            message = "must be an address such as 127.0.0.1 or ::1, or a name"
            raise ValueError(message) from None
    return host


QualifiedName = Annotated[
    str, _matching(_LABEL_KEY, "must be a qualified name such as kubextend.dev/queue")
]
"""A name as kube-apiserver checks keys of labels and names of gates."""
_DnsName = Annotated[
    str,
    _matching(rf"(?=.{{1,253}}$){_DNS}", "must be a name of lower case letters, digits, - and ."),
]
_Path = Annotated[
    str,
    _matching("/.*", "must start with /"),
    _matching(_PLAIN_PATH, "must be a plain path such as /v1"),
]
_Host = Annotated[str, Field(min_length=1), AfterValidator(_host)]
_FilePath = Annotated[str | None, AfterValidator(lambda path: path or None)]
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


class Callers(_Model):
    """Clients that may call an interface over HTTP: by their certificates, or by bearer tokens."""

    allowed_names: tuple[str, ...] = ()
    """Common names or DNS names of client certificates, in the spelling of the certificate."""
    token_file: _FilePath = None
    """File of bearer tokens, one on each line. The server reads the file at every request."""


class WaitingPods(Callers):
    """Access over HTTP to waiting pods, those that Permit plugins hold: list, allow and reject."""


class Decisions(Callers):
    """The record of what the verbs decided about each pod, and who may read it over HTTP."""

    max_pods: Annotated[int, Field(ge=0)] = 4096
    """The most pods that have a record. 0 turns the record off."""
    page: bool = False
    """Whether the server has the page `ui/`, which shows in a browser what readers may read."""


class ServerLease(_Model):
    """The Lease whose holder is the leader: the replica that decides where plugins keep state.

    kubextend then runs in a pod only: it takes its pod's name and namespace from `POD_NAME` and
    `POD_NAMESPACE` in the environment.
    """

    name: _DnsName = "kubextend"
    """Name of the Lease."""
    namespace: _DnsName | None = None
    """Namespace of the Lease. Null: that of kubextend's pod."""


class Server(_Model):
    """Where and how kubextend serves the verbs: filter, prioritize, preempt and bind."""

    host: _Host = "127.0.0.1"
    """Address or name to listen on. Away from loopback, preempt and bind need `tls.clientCAFile` or
    `insecure`."""
    port: _Port = 8888
    """TCP port of the verbs."""
    path: _Path = "/"
    """Path below which the verbs are: `/` makes them `/filter` and so on."""
    health_port: _Port | None = None
    """A second TCP port, which serves `/livez`, `/readyz` and `/metrics` over plain HTTP, and no
    verb. `port` serves them with or without it."""
    health_host: _Host | None = None
    """Address to listen on for `healthPort`. Null: `host`. Set this field where `host` is loopback,
    and probes and Prometheus call from elsewhere.
    """
    max_body_bytes: Annotated[int, Field(ge=1)] = 512 << 20
    """Bytes of the largest request body; a larger body gets the status 413. 15,000 whole nodes are
    285 MB, their names 1 MB.
    """
    max_in_flight_bytes: Annotated[int, Field(ge=1)] = 1 << 30
    """Bytes that the bodies of all requests together may hold at a time; at least `maxBodyBytes`. A
    request beyond gets the status 503.
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
    waiting_pods: WaitingPods | None = None
    """Who may list, allow and reject pods that Permit plugins hold, over HTTP. Null: nobody."""
    decisions: Decisions = Decisions()
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

    name: _DnsName = "kubextend-queue"
    """Name of the Lease."""
    namespace: _DnsName | None = None
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
    gate: QualifiedName = "kubextend.dev/queue"
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
    managed_resources: tuple[ManagedResource, ...] = ()
    """Extended resources: kube-scheduler sends only pods that request one. Empty: all pods.
    Excludes that kubextend serves bind and another verb: bind needs an entry of its own, and
    kube-scheduler takes a resource in one entry only."""
    tls_config: ExtenderTLSConfig = ExtenderTLSConfig()
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
    """Plugins at every extension point that the plugin implements."""

    def by_point(self) -> dict[str, PluginSet]:
        """Return the enabled and disabled plugins of each extension point, as the file names it."""
        fields = type(self).model_fields.items()
        return {info.alias or name: getattr(self, name) for name, info in fields}


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
    plugin_config: tuple[PluginConfig, ...] = ()
    """Arguments and failure policies of plugins."""


class File(_Model):
    """Configuration of kubextend, as one YAML document."""

    api_version: Literal["kubextend.dev/v1alpha1"] = API_VERSION
    """Version of this format."""
    kind: Literal["ExtenderConfiguration"] = KIND
    """Kind of this document."""
    out_of_tree: tuple[str, ...] = ()
    """Plugin classes that no installed package announces, as `package.module:Class`."""
    server: Server = Server()
    cluster: Cluster | None = None
    """Access to the Kubernetes API. Null: no access; `{}`: access with the defaults."""
    extender: Extender = Extender()
    autoscaler: Autoscaler = Autoscaler()
    guard: Guard = Guard()
    queue: Queue = Queue()
    score_scale: Literal["additive", "strict10"] = "additive"
    """Scale of scores: `additive` for kube-scheduler; `strict10`, 0 to 10, for other clients."""
    profiles: tuple[SchedulerProfile, ...] = ()
    """Profiles, as in a KubeSchedulerConfiguration."""
    pass_through: tuple[str, ...] = ()
    """Names of further schedulers, whose pods kubextend leaves alone; it rejects all others."""
