"""AdmissionRules: the static rules of a plugin that kube-apiserver can put on pods by itself.

``kubextend admission`` turns such rules into node affinity of pods, so kube-scheduler needs no call
of kubextend for them.
"""

from dataclasses import dataclass
from typing import Any, Protocol

__all__ = ["AdmissionPlugin", "AdmissionRules", "PreferredNodes", "RequiredNodes"]


@dataclass(frozen=True, slots=True)
class RequiredNodes:
    """A rule: pods that match a pod selector run only on nodes that match a node selector.

    Attributes:
        node_selector: a selector of nodes by their labels, in the grammar of ``labels.Parse``.
        pod_selector: a selector of pods by their labels; empty for every pod.
    """

    node_selector: str
    pod_selector: str = ""


@dataclass(frozen=True, slots=True)
class PreferredNodes:
    """A rule: for pods that match a pod selector, nodes that match a node selector get points.

    Attributes:
        node_selector: a selector of nodes by their labels, in the grammar of ``labels.Parse``.
        score: the points of a matching node, 0..100.
        pod_selector: a selector of pods by their labels; empty for every pod.
    """

    node_selector: str
    score: int
    pod_selector: str = ""


@dataclass(frozen=True, slots=True)
class AdmissionRules:
    """What the extension points Filter and Score of one plugin do, said as static rules.

    Attributes:
        required: rules for Filter, all of which a node must pass; None: Filter has no static rules.
        preferred: rules for Score, whose points are added; None: Score has no static rules.
        filter_beyond: what Filter does beyond ``required``, for which kubextend must be called;
            empty if ``required`` says all that Filter does.
    """

    required: tuple[RequiredNodes, ...] | None = None
    preferred: tuple[PreferredNodes, ...] | None = None
    filter_beyond: str = ""


class AdmissionPlugin(Protocol):
    """A plugin whose rules can be said without a call of the plugin."""

    name: str

    # Any: each plugin has an Args of its own.
    @classmethod
    def admission(cls, args: Any) -> AdmissionRules:
        """Return the rules of a plugin with these arguments.

        Args:
            args: an instance of the plugin's ``Args``; None if the plugin takes no arguments.
        """
