"""Resolves profiles: checks plugin names, expands multiPoint, validates the plugins' arguments.

The error messages are those of kube-scheduler, where kube-scheduler checks the same. No plugin is
constructed.

Source: kubernetes v1.36 pkg/scheduler/apis/config/validation/validation.go,
pkg/scheduler/framework/runtime/framework.go NewFramework
"""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from pydantic import BaseModel, JsonValue, ValidationError

from kubextend.config.expansion import check_weights_and_disabled, complain_of_unknown, expand
from kubextend.config.issues import Findings, Location, issues_of, path_of
from kubextend.config.model import EnabledPlugin, PluginConfig, ResolvedProfile, SchedulerProfile
from kubextend.config.plugin_catalog import Catalog
from kubextend.config.queueing import (
    QUEUE_POINTS,
    check_common_order,
    check_queue_points,
    check_queue_sort,
)
from kubextend.config.scheduler_plugins import PLUGIN_TYPES
from kubextend.framework.kept_parts import kept_parts
from kubextend.framework.spelling import misspelt_methods

__all__ = ["DEFAULT_SCHEDULER_NAME", "check_scheduler_names", "resolve"]

DEFAULT_SCHEDULER_NAME = "default-scheduler"
# Bytes. The store of pods cuts a longer spec.schedulerName, so no profile would match such a pod.
_LONGEST_NAME = 253
_NEVER_IGNORED: Final = ("reserve", "permit", "preBind", "bind")
# kube-scheduler names itself so in Events, where kube-apiserver takes such names alone.
_PASSED = re.compile(r"[a-z0-9]([\w./-]*[a-z0-9])?", re.ASCII | re.IGNORECASE)


_Points: TypeAlias = Mapping[str, Sequence[EnabledPlugin]]
"""The enabled plugins of a profile by extension point, in order."""


class _Args(NamedTuple):
    """The arguments of one plugin as they stand in the file.

    Attributes:
        at: the location of the arguments in the file.
        raw: the arguments as a JSON object.
        given: whether the file has a pluginConfig entry for the plugin.
    """

    at: Location
    raw: Mapping[str, JsonValue]
    given: bool


def resolve(
    profiles: Sequence[SchedulerProfile], catalog: Catalog, findings: Findings
) -> tuple[ResolvedProfile, ...]:
    """Return each profile with multiPoint expanded and arguments validated, in the file's order.

    Args:
        profiles: the profiles as in the file.
        catalog: looks up plugin names.
        findings: gets issues and notes; if there is any issue, do not use the resolved profiles.
    """
    check_queue_sort([(each.scheduler_name, each.plugins) for each in profiles], findings)
    resolved = tuple(
        _resolved(("profiles", index), profile, catalog, findings)
        for index, profile in enumerate(profiles)
    )
    check_common_order(profiles, resolved, findings)
    return resolved


def check_scheduler_names(
    names: Sequence[str | None], findings: Findings, passed: Sequence[str] = ()
) -> None:
    """Check that each profile has a name of its own; one that stands alone needs none.

    Args:
        names: the schedulerNames of the profiles.
        findings: gets the issues.
        passed: the names in passThrough, which no profile has.
    """
    default = DEFAULT_SCHEDULER_NAME if len(names) == 1 else None
    first: dict[str, Location] = {}
    for index, given in enumerate((*names, *passed)):
        name = default if given is None else given
        at: Location = ("passThrough", index - len(names))
        if index < len(names):
            at = ("profiles", index, "schedulerName")
        if not name:
            hint = "the spec.schedulerName of the pods that this profile is for"
            findings.complain(at, "Required value", name, hint)
        elif len(name.encode()) > _LONGEST_NAME:
            hint = f"may not be more than {_LONGEST_NAME} bytes long, as the names of all objects"
            findings.complain(at, "Too long", name, hint)
        elif index >= len(names) and not _PASSED.fullmatch(name):
            findings.complain(at, "Invalid value", name, "the full spec.schedulerName of pods")
        elif name in first:
            hint = f"{path_of(first[name][:2])} has this name already"
            findings.complain(at, f'Duplicate value: "{name}"', name, hint)
        else:
            first[name] = at


def _resolved(
    at: Location, profile: SchedulerProfile, catalog: Catalog, findings: Findings
) -> ResolvedProfile:
    points = expand(profile.plugins, (*at, "plugins"), catalog, findings)
    check_weights_and_disabled(profile.plugins, (*at, "plugins"), catalog, findings)
    name = profile.scheduler_name or DEFAULT_SCHEDULER_NAME
    check_queue_points(at, name, profile.plugins, points, findings)
    enabled = _names(points, *points)
    where: Location = (*at, "pluginConfig")
    found = _args_by_name(where, profile, enabled, catalog, findings)
    _check_policies(where, profile.plugin_config, points, findings)
    args = {
        name: _checked(name, found.get(name, _Args(where, {}, given=False)), catalog, findings)
        for name in enabled
    }
    infos = {plugin: catalog.find(plugin) for plugin in enabled}
    needing = {name for name, info in infos.items() if info is not None and info.needs_pods}
    counting = needing & _names(points, "preFilter", "filter").keys()
    _note_own_reservations((*at, "plugins"), points, needing, findings)
    for plugin, info in infos.items():
        for what in misspelt_methods(getattr(info, "plugin_class", None)):
            findings.note((*at, "plugins"), f"{plugin}: {what}")
    configs = [config for config in profile.plugin_config if config.name in enabled]
    return ResolvedProfile(
        name,
        points,
        args,
        needs_pods=bool(needing),
        counts_pods=bool(counting),
        parts=kept_parts(infos.values()),
        state=_state(points, needing),
        ignored=frozenset(each.name for each in configs if each.failure_policy == "Ignore"),
    )


def _check_policies(
    at: Location, configs: Sequence[PluginConfig], points: _Points, findings: Findings
) -> None:
    """Check that no failure is ignored of a plugin that decides about the binding of pods."""
    for index, config in enumerate(configs):
        named = [each for each in _NEVER_IGNORED if config.name in _names(points, each)]
        if config.failure_policy == "Ignore" and named:
            bound_at = ", ".join(PLUGIN_TYPES[each].removesuffix("Plugin") for each in named)
            message = f"must be Fail: {config.name} is enabled at {bound_at}"
            hint = "a pod would be bound as if the plugin had agreed"
            findings.complain((*at, index, "failurePolicy"), message, "Ignore", hint)


def _names(points: _Points, *which: str) -> dict[str, None]:
    """Return the names of the plugins at some extension points, in order and each once."""
    return {plugin.name: None for point in which for plugin in points.get(point, ())}


def _note_own_reservations(
    at: Location, points: _Points, needing: Collection[str], findings: Findings
) -> None:
    """Add a note about each plugin that filters and reserves, and does not read pods.

    Reserve runs in bind, after filter was called for all members of a PodGroup.
    """
    reserving = _names(points, "reserve")
    for name in _names(points, "preFilter", "filter"):
        if name in reserving and name not in needing:
            message = (
                f"{name} filters and reserves without needs_pods: if its filter counts what its "
                "reserve took, kube-scheduler 1.37 may bind a part of a PodGroup only; count the "
                "pods on nodes instead, with needs_pods = True"
            )
            findings.note(at, message)


def _state(points: _Points, needing: Collection[str]) -> tuple[str, ...]:
    """Return a sentence for each plugin that keeps what other replicas do not know.

    kubextend counts a pod on its node from before the Binding on. Other replicas see the pod there
    when their watches show it.

    Args:
        points: extension point -> its plugins.
        needing: the names of the plugins with ``needs_pods = True``.
    """
    called = _names(points, *(point for point in points if point not in QUEUE_POINTS))
    kept = {name: "looks at the pods on nodes" for name in called if name in needing}
    for point, what in (("reserve", "reserves"), ("permit", "holds pods")):
        for name in _names(points, point):
            kept.setdefault(name, what)
    return tuple(f"{name} {what}" for name, what in kept.items())


def _args_by_name(
    at: Location,
    profile: SchedulerProfile,
    enabled: Mapping[str, None],
    catalog: Catalog,
    findings: Findings,
) -> dict[str, _Args]:
    found: dict[str, _Args] = {}
    sets = [profile.plugins.at(point) for point in ("multiPoint", *PLUGIN_TYPES)]
    named = {plugin.name for plugins in sets for plugin in plugins.enabled}
    seen: set[str] = set()
    for index, config in enumerate(profile.plugin_config):
        where: Location = (*at, index, "name")
        if not config.name:
            findings.complain(where, "Required value", config.name)
        elif config.name in seen:
            message = f"repeated config for plugin {config.name}"
            findings.complain(where, message, config.name, "keep one")
        elif config.name in enabled:
            found[config.name] = _Args((*at, index, "args"), config.args, given=True)
        elif catalog.find(config.name):
            findings.note(where, f"{config.name} is not enabled in this profile: not used")
        elif config.name not in named:
            complain_of_unknown(config.name, where, catalog, findings)
        seen.add(config.name)
    return found


def _checked(name: str, args: _Args, catalog: Catalog, findings: Findings) -> BaseModel | None:
    info = catalog.find(name)
    if info is None or info.args_model is None:
        for field, value in args.raw.items():
            findings.complain((*args.at, field), f"{name} takes no arguments", value)
        return None
    try:
        return info.args_model.model_validate_json(json.dumps(args.raw))
    except ValidationError as error:
        if args.given:
            findings.issues += issues_of(error, info.args_model, args.at)
            return None
        for issue in issues_of(error, info.args_model):
            needed = f"args.{issue.path}".removesuffix(".")
            message = f"{name} needs {needed}: {issue.message}"
            findings.complain(args.at, message, hint=f"add an entry with name: {name}")
        return None
