"""LabelMatch: filters and scores nodes by their labels, as the configuration says."""

from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from kubextend import core
from kubextend.plugins.native import NativeFilter, NativeScore

__all__ = ["FilterRule", "LabelMatch", "LabelMatchArgs", "ScoreRule"]

_MAX_NODE_SCORE = 100


def _parses(selector: str) -> str:
    core.Selector(selector)
    return selector


_Selector = Annotated[str, AfterValidator(_parses)]


class _Rule(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, validate_by_name=False
    )


class FilterRule(_Rule):
    """When a pod matches one selector, its nodes must match another.

    Attributes:
        pod_selector: a selector of pods, in the grammar of labels.Parse; empty for every pod.
        node_selector: a selector that nodes must match.
        reason: the reason of a rejected node; keep it short and free of changing numbers.
    """

    pod_selector: _Selector = ""
    node_selector: _Selector
    reason: str = Field(min_length=1)


class ScoreRule(_Rule):
    """A matching node gets a higher score.

    Attributes:
        pod_selector: a selector of pods; empty for every pod.
        node_selector: a selector of nodes.
        score: the points of a matching node, 0..100.
    """

    pod_selector: _Selector = ""
    node_selector: _Selector
    score: int = Field(ge=0, le=_MAX_NODE_SCORE)


class LabelMatchArgs(_Rule):
    """The rules of LabelMatch, at least one.

    Attributes:
        filters: rules that nodes must pass; the first that a node fails rejects it.
        scores: rules whose scores add up, to 100 at most.
    """

    filters: tuple[FilterRule, ...] = ()
    scores: tuple[ScoreRule, ...] = ()

    @model_validator(mode="after")
    def _there_are_rules(self) -> Self:
        if not self.filters and not self.scores:
            message = "without filters and scores it does nothing: give a rule, or leave it out"
            raise ValueError(message)
        return self

    @model_validator(mode="after")
    def _scores_stay_in_range(self) -> Self:
        total = sum(rule.score for rule in self.scores)
        if total > _MAX_NODE_SCORE:
            message = (
                f"the scores add up to {total}; a node that matches all of them must stay within "
                f"{_MAX_NODE_SCORE}: use smaller scores and a weight for the plugin"
            )
            raise ValueError(message)
        return self


class LabelMatch(NativeFilter, NativeScore):
    """Filters and scores by label selectors; preemption is not tried for rejected nodes."""

    name = "LabelMatch"
    Args = LabelMatchArgs

    def __init__(self, args: LabelMatchArgs) -> None:
        self._native = core.NativePlugin.label_match(
            [(rule.pod_selector, rule.node_selector, rule.reason) for rule in args.filters],
            [(rule.pod_selector, rule.node_selector, rule.score) for rule in args.scores],
        )
