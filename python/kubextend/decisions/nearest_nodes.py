"""Finds what would let a pending pod run: the nodes that lack least, and what each of them lacks.

A plugin may define ``unblock(pod, node)``, which returns in a few words what is missing. For a
node that the plugin rejects, that is a label or room; with None in place of a node, that is what
the pod lacks on every node, such as members of its gang.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial, reduce
from operator import or_
from typing import Final, Protocol, TypeAlias, runtime_checkable

from kubextend import core
from kubextend.errors import KubextendError
from kubextend.framework.plugin import Plugin, Rejection
from kubextend.profile import Profile
from kubextend.profile.guarded_calls import guarded
from kubextend.verbs.decision_records import Recent, short
from kubextend.verbs.filter_outside_request import LookAgain

__all__ = ["InTime", "nearest_nodes", "what_the_pod_lacks"]

_MOST_NEAREST: Final = 5

InTime: TypeAlias = Callable[[Callable[[], str]], str]
"""Calls a function that calls a plugin, and returns the result.

Raises KubextendError: the plugin hangs; TimeoutError: it takes too long.
"""


@runtime_checkable
class _Unblocks(Protocol):
    """A plugin that says what a pod lacks."""

    name: str

    def unblock(self, pod: core.Pod, node: core.NodeInfo | None) -> str:
        """Return what the pod lacks on a node, or, without a node, on every node; "": nothing."""


def what_the_pod_lacks(
    profile: Profile,
    pod: core.Pod,
    holding: Sequence[str],
    recent: Recent | None,
    in_time: InTime,
) -> list[dict[str, object]]:
    """Return what the pod lacks on every node, by plugin.

    The plugins are those that rejected every node, and those whose Permit holds the pod.

    Args:
        profile: the profile of the pod.
        pod: the pod.
        holding: the names of the plugins whose Permit holds the pod.
        recent: what the last attempt decided; None if it is not kept.
        in_time: calls the plugins' ``unblock``.
    """
    rejections = () if recent is None else recent.verdicts[0].rejections
    stopping = {each.plugin for each in rejections if each.nodes.all()}.union(holding)
    return [
        {"plugin": plugin.name, "lacks": lacks}
        for plugin in profile.plugins
        if plugin.name in stopping and (lacks := _lacks(plugin, pod, None, in_time))
    ]


def nearest_nodes(
    profile: Profile, recent: Recent, look_again: LookAgain, in_time: InTime
) -> list[dict[str, object]]:
    """Return up to five nodes that the fewest plugins reject now, each with what it lacks.

    Each filter runs again over the nodes as they are now, because a request's filters stop at the
    first plugin that rejects a node. The result is empty if a node passed, if PreFilter rejected
    the pod, or if only the names of the nodes are kept.
    """
    pod, first = recent.pod, recent.verdicts[0]
    rejections, filters = first.rejections, {plugin.name for plugin in profile.filter}
    if isinstance(first.nodes, bytes) or not any(each.plugin in filters for each in rejections):
        return []
    if not reduce(or_, (each.nodes for each in rejections)).all():
        return []
    nodes = first.nodes.latest()
    found: list[tuple[Plugin, Rejection]] = []
    for plugin in profile.filter:
        try:
            _, outcome = look_again(replace(profile, filter=[plugin]), pod, nodes)
        except (KubextendError, TimeoutError):
            continue
        found += [(plugin, each) for each in outcome.rejections if each.plugin == plugin.name]
    counts = Counter(row for _, each in found for row in each.nodes.indices())
    rows = sorted(sorted(counts), key=counts.__getitem__)
    return [
        {
            "node": nodes[row].name,
            "lacks": [
                {
                    "plugin": plugin.name,
                    "reason": short(each.status.reason),
                    "lacks": _lacks(plugin, pod, nodes[row], in_time),
                }
                for plugin, each in found
                if each.nodes[row]
            ],
        }
        for row in rows[:_MOST_NEAREST]
    ]


def _lacks(plugin: Plugin, pod: core.Pod, node: core.NodeInfo | None, in_time: InTime) -> str:
    """Return what a plugin says that the pod lacks; "" if it says nothing, fails or hangs."""
    if not isinstance(plugin, _Unblocks):
        return ""
    try:
        return in_time(partial(_asked, plugin, pod, node))
    except (KubextendError, TimeoutError):
        return ""


def _asked(plugin: _Unblocks, pod: core.Pod, node: core.NodeInfo | None) -> str:
    with guarded(plugin, "unblock", pod):
        said: object = plugin.unblock(pod, node)
    return short(said) if isinstance(said, str) else ""
