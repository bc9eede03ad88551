"""The JSON answers about decisions as pydantic models, from which their JSON Schema is made.

No answer is built of these models, so that a reader waits for no second check of 20,000 nodes.
"""

from datetime import datetime
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from pydantic.alias_generators import to_camel

from kubextend.decisions.decision_reader import API_VERSION

__all__ = ["ANSWER", "json_schema"]

_SCHEMA_ID: Final = "https://kubextend.dev/schemas/v1alpha1/decisions.json"
_DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"


class _Object(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel, extra="forbid", use_attribute_docstrings=True
    )


class _Answer(_Object):
    api_version: Literal["kubextend.dev/v1alpha1"]


class Kubextend(_Object):
    """The kubextend that answers."""

    version: str
    verbs: list[str]
    """The verbs that kube-scheduler calls."""
    profiles: dict[str, list[str]]
    """schedulerName -> names of plugins."""
    not_ready: dict[str, str]
    """Condition -> what is missing; empty: kubextend is ready."""
    open_breakers: list[str]
    """The plugins that are not called, because they hung or kept failing."""
    queue_gate: str
    """The scheduling gate of the queue; empty: this kubextend has no queue."""
    configuration_sha256: Annotated[str, Field(alias="configurationSha256")]
    records_since: datetime | None
    """Since this time, each pod that kube-scheduler asked this kubextend about has a record. Null:
    nothing is recorded, or another replica may lead."""


class Pod(_Object):
    """A pod by name and UID."""

    namespace: str
    name: str
    uid: str


class RecordedPod(Pod):
    """A pod with a record."""

    scheduler_name: str
    pod_group: str | None
    """The PodGroup in spec.schedulingGroup; null: a pod without one."""


class Wait(_Object):
    """What a pod waits for that Permit holds."""

    node: str
    pending_plugins: list[str]
    """The plugins whose Permit holds the pod."""
    since: datetime
    deadline: datetime | None
    """Null: the pod is about to leave."""


class WaitingPod(Pod, Wait):
    """A pod that Permit holds."""


class PluginCall(_Object):
    """An extension point of a plugin."""

    plugin: str
    extension_point: str


class PluginFailure(PluginCall):
    """A plugin that failed, and how."""

    detail: str


class PluginTime(PluginCall):
    """How long the calls of a plugin took in one call of a verb."""

    seconds: float


class RejectedNodes(_Object):
    """The nodes that one plugin rejected for one reason."""

    plugin: str
    """Empty: kubextend itself."""
    reason: str
    detail: str
    unresolvable: bool
    """Whether no eviction can cure the rejection."""
    nodes: int
    examples: list[str]
    """The names of at most five of the nodes."""


class ToldReason(_Object):
    """A reason that kube-scheduler was told, which may be that of an earlier attempt."""

    reason: str
    nodes: int


class Score(_Object):
    """What one plugin gave one node."""

    raw: int
    normalized: int
    weighted: int


class ScoredNode(_Object):
    """A node with its scores."""

    node: str
    total: int
    scores: dict[str, Score]
    """Plugin -> score."""


class Nodes(_Object):
    """What one call of a verb decided about the nodes that kube-scheduler asked about."""

    nodes: int
    passed: int
    rejected: list[RejectedNodes]
    rejected_for_other_reasons: int
    """The nodes beyond the 64 reasons of ``rejected``."""
    told: list[ToldReason]
    best: list[ScoredNode]
    """At most five nodes, the best first."""


class Call(_Object):
    """One call of a verb about a pod, and what was answered."""

    verb: Literal["filter", "prioritize", "preempt", "bind"]
    at: datetime
    took_seconds: float
    done: bool
    """Whether the call was answered."""
    error: str
    note: str
    """What happened in words, where the other fields do not say it."""
    failed: PluginFailure | None
    left_out: list[str]
    """Plugins that failed, and without which the verb went on."""
    plugins: list[PluginTime]
    nodes: Nodes | None
    node: str
    """The node of a bind."""
    rejected_by: PluginCall | None
    """The plugin that rejected the pod at bind."""
    held_seconds: float | None
    """How long Permit held the pod."""
    api_seconds: float | None
    """How long the Kubernetes API worked on the Binding."""


class Attempt(_Object):
    """One try of kube-scheduler to place a pod."""

    calls: list[Call]


class Lack(_Object):
    """What a pod lacks on every node, as a plugin says it."""

    plugin: str
    lacks: str


class NodeLack(Lack):
    """What a pod lacks on one node, as a plugin says it."""

    reason: str
    """The reason of the rejection, for a plugin that does not say what is lacking."""


class NearNode(_Object):
    """A node that few plugins reject now."""

    node: str
    lacks: list[NodeLack]


class PodDecisions(_Answer):
    """The last attempts of a pod."""

    kind: Literal["PodDecisions"]
    kubextend: Kubextend
    pod: RecordedPod | None
    """Null: there is no record of the pod."""
    waiting: Wait | None
    """Null: Permit does not hold the pod."""
    queued: str
    """What the pod waits for in the queue; empty: nothing but its turn is known."""
    last_bind: Call | None
    """The last call of bind, which may be older than the attempts."""
    attempts: list[Attempt]
    """The newest first, at most four."""
    lacks: list[Lack]
    nearest: list[NearNode]


class NodeDecision(ScoredNode):
    """What the last attempt decided about one node."""

    plugin: str
    """The plugin that rejected the node; empty if none did, or if kubextend itself did."""
    reason: str
    """Empty: the node passed."""
    detail: str
    unresolvable: bool


class NodeDecisions(_Answer):
    """What the last attempt of a pod decided about each node."""

    kind: Literal["NodeDecisions"]
    kept: bool
    """Whether the nodes of the last attempt are kept."""
    items: list[NodeDecision]


class Quantiles(_Object):
    """Quantiles of durations in seconds."""

    p50: float
    p90: float
    p99: float
    max: float


class PointState(_Object):
    """The last calls of one extension point of a plugin."""

    extension_point: str
    failures: int
    calls: int
    seconds: Quantiles | None


class PluginState(_Object):
    """The health of a plugin."""

    name: str
    profiles: list[str]
    breaker_open: bool
    stuck_threads: int
    extension_points: list[PointState]


class PluginStates(_Answer):
    """The health and the last durations of each plugin."""

    kind: Literal["PluginStates"]
    items: list[PluginState]


class QueueState(_Object):
    """The scheduling queue of kubextend."""

    leads: bool
    """Whether this replica releases pods."""
    pods: dict[str, int]
    """State in the queue -> number of pods."""


class LatestPod(RecordedPod):
    """Where a pod is on its way."""

    state: Literal["Passed", "Rejected", "Failed", "Waiting", "Binding", "Bound", "NotBound"]
    verb: str
    at: datetime
    nodes: int | None
    passed: int | None
    node: str
    said: str


class WaitingPods(_Object):
    """The pods that Permit holds."""

    total: int
    items: list[WaitingPod]


class LatestPods(_Object):
    """The pods with a record, the latest call first."""

    total: int
    items: list[LatestPod]


class Overview(_Answer):
    """The state of kubextend, of its queue, and of the latest pods."""

    kind: Literal["Overview"]
    kubextend: Kubextend
    queue: QueueState | None
    """Null: this kubextend has no queue."""
    waiting: WaitingPods
    pods: LatestPods


_AnyAnswer: TypeAlias = Annotated[
    PodDecisions | NodeDecisions | PluginStates | Overview, Field(discriminator="kind")
]
ANSWER: Final[TypeAdapter[Any]] = TypeAdapter(_AnyAnswer)
"""Checks an answer; a field that no model has is an error."""


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of the answers, draft 2020-12, as a JSON object.

    The schema allows further fields, which later versions of kubextend may add.
    """
    generated = ANSWER.json_schema()
    for each in generated["$defs"].values():
        each.pop("additionalProperties", None)
        each.pop("title", None)
        for value in each["properties"].values():
            value.pop("title", None)
    return {
        "$schema": _DRAFT,
        "$id": _SCHEMA_ID,
        "title": f"Decisions of {API_VERSION}",
    } | generated
