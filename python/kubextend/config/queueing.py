"""Checks the queueSort and preEnqueue plugins of profiles: all profiles share one queue order.

Source: kubernetes v1.36 pkg/scheduler/apis/config/validation/validation.go validateCommonQueueSort,
pkg/scheduler/framework/runtime/framework.go NewFramework
"""

from collections.abc import Iterable, Sequence

from kubextend.config.issues import Findings, Location
from kubextend.config.model import EnabledPlugin, Plugins, ResolvedProfile, SchedulerProfile

__all__ = [
    "QUEUE_POINTS",
    "check_common_order",
    "check_queue_points",
    "check_queue_sort",
]

_SORT = "queueSort"
_ENQUEUE = "preEnqueue"
QUEUE_POINTS = (_SORT, _ENQUEUE)
"""The extension points that the scheduling queue calls, and no verb."""

_Points = dict[str, tuple[EnabledPlugin, ...]]


def check_queue_sort(profiles: Sequence[tuple[str | None, Plugins]], findings: Findings) -> None:
    """Check the profiles' ``queueSort`` sections: at most one plugin, equal in all profiles.

    The check looks at no plugins that multiPoint enables.

    Args:
        profiles: schedulerName and plugins of each profile.
        findings: gets the issues.
    """
    for index, (_, plugins) in enumerate(profiles):
        at: Location = ("profiles", index, "plugins", _SORT)
        names = [plugin.name for plugin in plugins.queue_sort.enabled]
        if index == 0 and len(names) > 1:
            message = "only one queue sort plugin can be enabled"
            findings.complain((*at, "enabled"), message, names)
        first_name, first = profiles[0]
        if plugins.queue_sort != first.queue_sort:
            enabled = ", ".join(plugin.name for plugin in first.queue_sort.enabled)
            hint = f"kube-scheduler has one queue; profile {first_name} has"
            findings.complain(
                at, "must be the same for all profiles", names, f"{hint} {enabled or 'none'}"
            )


def check_queue_points(
    at: Location, scheduler_name: str, plugins: Plugins, points: _Points, findings: Findings
) -> None:
    """Check that a profile has at most one queueSort plugin, and preEnqueue only with queueSort.

    Args:
        at: the location of the profile in the file.
        scheduler_name: the scheduler name of the profile.
        plugins: the profile's ``plugins`` section as in the file.
        points: the enabled plugins by extension point, multiPoint expanded.
        findings: gets the issues and notes.
    """
    sorting = [plugin.name for plugin in points.get(_SORT, ())]
    if len(sorting) > 1 and len(plugins.queue_sort.enabled) <= 1:
        message = (
            "only one queue sort plugin required for profile with scheduler name "
            f'"{scheduler_name}", but got {len(sorting)}'
        )
        hint = "name those that it is not to be in queueSort.disabled"
        findings.complain((*at, "plugins", "multiPoint"), message, sorting, hint)
    if sorting or _ENQUEUE not in points:
        return
    holding = [plugin.name for plugin in points[_ENQUEUE]]
    where: Location = (*at, "plugins", _ENQUEUE)
    message = "PreEnqueue plugins hold pods back in the queue, and no queueSort plugin turns it on"
    if plugins.pre_enqueue.enabled:
        hint = "enable one, such as PrioritySort, which is kube-scheduler's own order"
        findings.complain(where, message, holding, hint)
    elif names := ", ".join(_not_used_elsewhere(points[_ENQUEUE], points)):
        findings.note(where, f"{names} not used: {message}")


def _not_used_elsewhere(plugins: Iterable[EnabledPlugin], points: _Points) -> list[str]:
    """Return the names of those plugins that are enabled only at queueSort and preEnqueue."""
    elsewhere = {
        plugin.name
        for point, enabled in points.items()
        if point not in {_ENQUEUE, _SORT}
        for plugin in enabled
    }
    return [plugin.name for plugin in plugins if plugin.name not in elsewhere]


def check_common_order(
    profiles: Sequence[SchedulerProfile], resolved: Sequence[ResolvedProfile], findings: Findings
) -> None:
    """Check that all profiles run the same queueSort plugin with the same arguments.

    Args:
        profiles: the profiles of the file; a profile whose ``queueSort`` section differs from that
            of the first profile is reported already, and is not checked here.
        resolved: the profiles of ``profiles`` with multiPoint expanded.
        findings: gets the issues.
    """
    for index in range(1, len(profiles)):
        first, own = ([plugin.name for plugin in resolved[at].at(_SORT)] for at in (0, index))
        if profiles[index].plugins.queue_sort != profiles[0].plugins.queue_sort:
            continue
        if own != first:
            at: Location = ("profiles", index, "plugins", _SORT)
            findings.complain(at, "must be the same for all profiles", own)
        elif any(resolved[index].args[name] != resolved[0].args[name] for name in own):
            at = ("profiles", index, "pluginConfig", "args")
            findings.complain(at, "queueSort must be the same for all profiles")
