"""The types of the fields that ``explanation`` and ``kubextend why`` read of a captured file.

The file is a user's, and may be edited. docs/decisions.schema.json has the fields of ``decisions``
with the same types. A file of an earlier version lacks fields, and the Kubernetes API leaves out
empty ones, so each field has a default.
"""

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

__all__ = ["wrong_field"]


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, alias_generator=to_camel)


class _PodGroup(_Part):
    pod_group_name: str | None = None


class _Gate(_Part):
    name: str = ""


class _PodSpec(_Part):
    scheduler_name: str | None = None
    node_name: str | None = None
    scheduling_gates: list[_Gate] | None = None
    scheduling_group: _PodGroup | None = None


class _Condition(_Part):
    type: str | None = None
    reason: str | None = None
    message: str | None = None
    last_transition_time: str | None = None


class _PodStatus(_Part):
    phase: str | None = None
    conditions: list[_Condition] | None = None


class _Pod(_Part):
    metadata: dict[str, object] | None = None
    spec: _PodSpec | None = None
    status: _PodStatus | None = None


class _Event(_Part):
    at: str = ""
    reason: str = ""
    sender: str = Field("", alias="from")
    note: str = ""


class _Rule(_Part):
    plugin: str = ""
    profile: str = ""
    nodes: str = ""
    meeting: int | None = None


class _PluginCall(_Part):
    plugin: str = ""
    extension_point: str = ""
    detail: str = ""


class _RejectedNodes(_Part):
    plugin: str = ""
    reason: str = ""
    detail: str = ""
    nodes: int = 0
    examples: list[str] = []


class _ToldReason(_Part):
    reason: str = ""
    nodes: int = 0


class _Score(_Part):
    raw: int = 0
    normalized: int = 0
    weighted: int = 0


class _ScoredNode(_Part):
    node: str = ""
    total: int = 0
    scores: dict[str, _Score] = {}


class _Nodes(_Part):
    nodes: int = 0
    passed: int = 0
    rejected: list[_RejectedNodes] = []
    told: list[_ToldReason] = []
    best: list[_ScoredNode] = []


class _Call(_Part):
    verb: str = ""
    at: str = ""
    took_seconds: float = 0.0
    done: bool = True
    error: str = ""
    note: str = ""
    failed: _PluginCall | None = None
    node: str = ""
    nodes: _Nodes | None = None
    rejected_by: _PluginCall | None = None
    held_seconds: float | None = None


class _Attempt(_Part):
    calls: list[_Call] = []


class _Lack(_Part):
    plugin: str = ""
    reason: str = ""
    lacks: str = ""


class _NearNode(_Part):
    node: str = ""
    lacks: list[_Lack] = []


class _Kubextend(_Part):
    profiles: dict[str, list[str]] = {}
    pass_through: list[str] = []
    not_ready: dict[str, str] = {}
    open_breakers: list[str] = []
    queue_gate: str = ""
    records_since: str | None = None


class _RecordedPod(_Part):
    pod_group: str | None = None


class _Wait(_Part):
    node: str = ""
    pending_plugins: list[str] = []
    since: str = ""
    deadline: str | None = None


class _Decisions(_Part):
    kubextend: _Kubextend | None = None
    pod: _RecordedPod | None = None
    waiting: _Wait | None = None
    queued: str = ""
    attempts: list[_Attempt] = []
    last_bind: _Call | None = None
    lacks: list[_Lack] = []
    nearest: list[_NearNode] = []


class _Facts(_Part):
    namespace: str = ""
    name: str = ""
    decisions: _Decisions | None = None
    unreached: str = ""
    pod: _Pod | None = None
    pod_unknown: str = Field("", alias="pod_unknown")
    events: list[_Event] = []
    gate: str = ""
    rules: list[_Rule] = []
    awaited: dict[str, list[str]] = {}


def wrong_field(facts: object) -> str:
    """Return the first field of captured facts that has a wrong type, and what it should be.

    The place of the field is written as in ``decisions.attempts.0.calls.0.verb``. Without such a
    field, the result is "".
    """
    try:
        _Facts.model_validate(facts)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, ("facts", *first["loc"])))
        return f"{place}: {first['msg']}"
    return ""
