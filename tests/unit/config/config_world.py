from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, Field

from kubextend import config
from kubextend.errors import Issue

Parse = Callable[[Mapping[str, Any]], config.ExtenderConfiguration]
Refusal = Callable[[Mapping[str, Any]], tuple[Issue, ...]]


@dataclass(frozen=True)
class Info:
    extension_points: frozenset[str]
    args_model: type[BaseModel] | None = None
    needs_pods: bool = False


class Rule(BaseModel, extra="forbid"):
    node_selector: Annotated[str, Field(alias="nodeSelector")]


class LabelMatchArgs(BaseModel, extra="forbid"):
    filters: tuple[Rule, ...] = ()
    limit: int = 0


class NeedyArgs(BaseModel, extra="forbid"):
    endpoint: str


# What the test plugin of kube-scheduler's own tests implements.
_EVERYTHING = frozenset(
    {"queueSort", "preFilter", "filter", "postFilter", "preScore", "score", "placementScore"}
    | {"reserve", "permit", "preBind", "bind", "postBind", "placementGenerate"}
)


KNOWN = {
    "HighCommPodFilter": Info(frozenset({"filter"})),
    "RdmaAware": Info(frozenset({"filter"})),
    "LabelMatch": Info(frozenset({"filter", "score"}), LabelMatchArgs),
    "Needy": Info(frozenset({"score"}), NeedyArgs),
    "Gang": Info(frozenset({"preFilter", "permit"})),
    "SortA": Info(frozenset({"queueSort"})),
    "SortB": Info(frozenset({"queueSort"})),
    "test-plugin": Info(_EVERYTHING),
    "score-plugin-1": Info(frozenset({"preScore", "score"})),
    "score-with-normalize-plugin-1": Info(frozenset({"score"})),
    "bind-plugin": Info(frozenset({"bind"})),
    "queue-sort-plugin": Info(frozenset({"queueSort"})),
}


def document(**sections: Any) -> dict[str, Any]:
    """Return a valid configuration with the sections that a test gives."""
    sections.setdefault("profiles", [filter_profile("HighCommPodFilter")])
    return {
        "apiVersion": "kubextend.dev/v1alpha1",
        "kind": "ExtenderConfiguration",
        **sections,
    }


def filter_profile(*names: str, **fields: Any) -> dict[str, Any]:
    return {"plugins": {"filter": {"enabled": [{"name": name} for name in names]}}, **fields}
