"""Calls one plugin alone, on given nodes and pods; raises the error if the plugin fails."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from kubextend.testing.cluster import Cluster, FilterResult, Outcome
from kubextend.testing.given_plugins import PluginLike
from kubextend.testing.objects import NodesLike, PodLike

__all__ = ["EXACT_WEIGHT", "checked", "made", "run_binding_cycle", "run_filter", "run_score"]

_T = TypeVar("_T")

# With a weight of ten the verb does not round: its answer is the score itself.
EXACT_WEIGHT = 10


def run_filter(
    plugin: PluginLike,
    pod: PodLike,
    nodes: NodesLike = 3,
    *,
    pods: Iterable[PodLike] = (),
    args: Mapping[str, Any] | None = None,
) -> FilterResult:
    """Run the filter verb with one plugin alone, and return the answer.

    Args:
        plugin: a plugin or its class.
        pod: the pod to place.
        nodes: nodes in any form that ``make_nodes`` takes.
        pods: the existing pods; a bound pod has a ``node_name``.
        args: the plugin's Args, if it is given as a class.

    Raises:
        PluginError: the plugin failed.
        KubextendError: the plugin or its Args are refused, as in a configuration file.
    """
    cluster = _alone(plugin, nodes, pods, args)
    return checked(cluster, cluster.filter(pod))


def run_score(
    plugin: PluginLike,
    pod: PodLike,
    nodes: NodesLike = 3,
    *,
    pods: Iterable[PodLike] = (),
    args: Mapping[str, Any] | None = None,
) -> dict[str, int]:
    """Return the normalised score, 0..100, that a plugin alone gives each node, by node name.

    Args:
        plugin: a plugin or its class.
        pod: the pod to place.
        nodes: nodes in any form that ``make_nodes`` takes.
        pods: the existing pods; a bound pod has a ``node_name``.
        args: the plugin's Args, if it is given as a class.

    Raises:
        PluginError: the plugin failed.
        KubextendError: the plugin or its Args are refused, as in a configuration file.
    """
    cluster = _alone(plugin, nodes, pods, args)
    return checked(cluster, cluster.prioritize(pod))


def run_binding_cycle(
    plugin: PluginLike,
    pod: PodLike,
    node: str = "node-0",
    nodes: NodesLike = 3,
    *,
    pods: Iterable[PodLike] = (),
    args: Mapping[str, Any] | None = None,
) -> Outcome:
    """Run Reserve to PostBind with one plugin alone, after filtering the node chosen for the pod.

    Args:
        plugin: a plugin or its class.
        pod: the pod to bind.
        node: the name of the chosen node.
        nodes: nodes in any form that ``make_nodes`` takes.
        pods: the existing pods; a bound pod has a ``node_name``.
        args: the plugin's Args, if it is given as a class.

    Raises:
        PluginError: the plugin failed.
        KubextendError: the plugin or its Args are refused, as in a configuration file.
    """
    cluster = _alone(plugin, nodes, pods, args)
    checked(cluster, cluster.filter(pod, [node]))
    return checked(cluster, cluster.bind(pod, node))


def _alone(
    plugin: PluginLike, nodes: NodesLike, pods: Iterable[PodLike], args: Mapping[str, Any] | None
) -> Cluster:
    """Return a cluster with one plugin, whose points are its scores without rounding."""
    name = getattr(plugin, "name", "")
    given = {} if args is None else {name: args}
    weights = {name: EXACT_WEIGHT}
    return Cluster(plugin, nodes=nodes, pods=pods, args=given, weights=weights)


def checked(cluster: Cluster, answer: _T) -> _T:
    """Return what a call of the cluster returned.

    Raises: PluginError: a plugin of the cluster failed, in this call or before.
    """
    if cluster.failures:
        raise cluster.failures[0]
    return answer


def made(plugin: PluginLike, args: Mapping[str, Any] | None = None) -> Any:
    """Return a plugin instance unchanged, or make one from a class and its Args.

    Raises: KubextendError: the plugin or its Args are refused, as in a configuration file.
    """
    [instance] = _alone(plugin, 0, (), args).plugins
    return instance
