"""Plugins that configurations of tests name in ``outOfTree``: what they extend is all they have."""

from typing import Annotated, Final

from pydantic import BaseModel, Field

from kubextend.framework import AdmissionRules, PreferredNodes, RequiredNodes
from kubextend.framework.plugin import METHODS_OF_POINT


class Rule(BaseModel, extra="forbid"):
    node_selector: Annotated[str, Field(alias="nodeSelector")]


class MatchArgs(BaseModel, extra="forbid"):
    filters: tuple[Rule, ...] = ()
    limit: int = 0


class NeedyArgs(BaseModel, extra="forbid"):
    endpoint: str


class WaitArgs(BaseModel, extra="forbid"):
    seconds: int = 1


def _nothing(*_: object) -> None:
    """Do what every method of these plugins does."""


def _plugin(name: str, *points: str, **attributes: object) -> type:
    """Return a plugin class that extends some points."""
    methods = {method: _nothing for point in points for method in METHODS_OF_POINT[point]}
    start = {"__init__": _with_args} if "Args" in attributes else {}
    return type(name, (), {"name": name, **methods, **start, **attributes})


def _with_args(_self: object, _args: object) -> None:
    """Take the arguments of the plugin."""


Match = _plugin("Match", "filter", "score", Args=MatchArgs)
Needy = _plugin("Needy", "score", Args=NeedyArgs)
Gang = _plugin("Gang", "preFilter", "permit")
Hold = _plugin("Hold", "preEnqueue")
Both = _plugin("Both", "preEnqueue", "queueSort", "filter")
SortA = _plugin("SortA", "queueSort")
SortB = _plugin("SortB", "queueSort")
WaitSort = _plugin("WaitSort", "queueSort", Args=WaitArgs)
Everything = _plugin("Everything", *(set(METHODS_OF_POINT) - {"preEnqueue"}))
ScoreA = _plugin("ScoreA", "preScore", "score")
ScoreB = _plugin("ScoreB", "score")
BindA = _plugin("BindA", "bind")
Plain = _plugin("Plain", "filter", "score", "preBind", "postBind")
Counts = _plugin("Counts", "preFilter", "filter", "score", "preEnqueue", needs_pods=True)
Ledger = _plugin("Ledger", "filter", "reserve")
CountedLedger = _plugin("CountedLedger", "filter", "reserve", needs_pods=True)


def _admission(name: str, *points: str, answer: object) -> type:
    """Return a plugin with static rules, or with what is none."""

    def admission(_class: type, _args: None) -> object:
        if isinstance(answer, Exception):
            raise answer
        return answer

    return _plugin(name, *points, admission=classmethod(admission))


_IN_ZONE = AdmissionRules(required=(RequiredNodes("zone"),))
Half = _admission("Half", "filter", "score", "permit", answer=_IN_ZONE)
Prefers = _admission(
    "Prefers", "score", answer=AdmissionRules(preferred=(PreferredNodes("zone", 60),))
)
Raises = _admission("Raises", "filter", answer=ValueError("broken"))
Texts = _admission("Texts", "filter", answer="a text")
Selects = _admission("Selects", "filter", answer=AdmissionRules(required=(RequiredNodes("a in"),)))
Reads = _plugin(
    "Reads",
    "filter",
    informers=("persistentvolumeclaims", "scheduling.x-k8s.io/v1alpha1/podgroups"),
)
Taken = _plugin("HighCommPodFilter", "filter")

ALL: Final = [
    f"{__name__}:{name}"
    for name, each in sorted(globals().items())
    if getattr(each, "name", "") == name and not hasattr(each, "admission")
]
"""The plugins without rules for admission as ``outOfTree`` names them."""
