"""LabelMatch: filters and scores nodes by label selectors that the configuration gives."""

from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from kubextend import core
from kubextend.framework.admission import AdmissionRules, PreferredNodes, RequiredNodes
from kubextend.framework.args_model import ArgsModel
from kubextend.plugins.native import NativeFilter, NativeScore

__all__ = ["FilterRule", "LabelMatch", "LabelMatchArgs", "ScoreRule"]

_MAX_NODE_SCORE = 100


def _parses(selector: str) -> str:
    core.Selector(selector)
    return selector


_Selector = Annotated[str, AfterValidator(_parses)]


class FilterRule(ArgsModel):
    """A filter rule: pods that match a pod selector run only on nodes that match a node selector.

    Attributes:
        pod_selector: a selector of pods, in the grammar of Go's labels.Parse; empty for every pod.
        node_selector: a selector that the labels of a node must match.
        reason: why a node is rejected; short, and without numbers that change.
    """

    pod_selector: _Selector = ""
    node_selector: _Selector
    reason: str = Field(min_length=1)


class ScoreRule(ArgsModel):
    """A score rule: for pods that match a selector, nodes that match another selector get points.

    Attributes:
        pod_selector: the selector of the pods that the rule is for; empty for every pod.
        node_selector: the selector of the nodes that get the points.
        score: the points of a matching node, 0..100.
    """

    pod_selector: _Selector = ""
    node_selector: _Selector
    score: int = Field(ge=0, le=_MAX_NODE_SCORE)


class LabelMatchArgs(ArgsModel):
    """Arguments of LabelMatch: at least one filter rule or score rule.

    Attributes:
        filters: rules that nodes must pass; a failing node gets the reason of the first rule that
            rejects the node.
        scores: rules whose points are added for each node; the points of all rules together are at
            most 100.
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
    """Filters and scores nodes by label selectors of pods and nodes.

    A rejected node gets the code UnschedulableAndUnresolvable: kube-scheduler tries no preemption
    there.
    """

    name = "LabelMatch"
    Args = LabelMatchArgs

    def __init__(self, args: LabelMatchArgs) -> None:
        self._filters = args.filters
        self._native = core.NativePlugin.label_match(
            [(rule.pod_selector, rule.node_selector, rule.reason) for rule in args.filters],
            [(rule.pod_selector, rule.node_selector, rule.score) for rule in args.scores],
        )

    def unblock(self, pod: core.Pod, node: core.NodeInfo | None) -> str:
        """Return the node selectors that a node has to match for the pod, and does not."""
        if node is None:
            return ""
        labels = node.labels
        missing = [
            rule.node_selector
            for rule in self._filters
            if pod.matches(rule.pod_selector)
            and not core.Selector(rule.node_selector).matches(labels)
        ]
        return f"labels that match {' and '.join(missing)}" if missing else ""

    @classmethod
    def admission(cls, args: LabelMatchArgs) -> AdmissionRules:
        """Return all rules: LabelMatch does nothing beyond its rules."""
        return AdmissionRules(
            tuple(RequiredNodes(rule.node_selector, rule.pod_selector) for rule in args.filters),
            tuple(
                PreferredNodes(rule.node_selector, rule.score, rule.pod_selector)
                for rule in args.scores
            ),
        )
