"""Resolves profiles: checks names, expands multiPoint, validates the plugins' arguments.

The error messages are those of kube-scheduler, where kube-scheduler checks the same. No plugin is
constructed.

Source: kubernetes v1.36 pkg/scheduler/apis/config/validation/validation.go,
pkg/scheduler/framework/runtime/framework.go NewFramework
"""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final, TypeAlias

from pydantic import BaseModel, JsonValue, ValidationError

from kubextend.config.configuration import EnabledPlugin, ResolvedProfile
from kubextend.config.expansion import Catalog, expand
from kubextend.config.issues import Findings, issues_of
from kubextend.config.model import PluginConfig, SchedulerProfile
from kubextend.config.scheduler_plugins import IN_TREE_PLUGINS, PLUGIN_TYPES
from kubextend.framework.kept_parts import kept_parts
from kubextend.framework.spelling import misspelt_methods

__all__ = ["DEFAULT_SCHEDULER_NAME", "check_scheduler_names", "resolve"]

DEFAULT_SCHEDULER_NAME: Final = "default-scheduler"
# Bytes. The store of pods cuts a longer spec.schedulerName, so no profile would match such a pod.
_LONGEST_NAME: Final = 253
# kube-scheduler names itself so in Events, where kube-apiserver takes such names alone.
_PASSED: Final = re.compile(r"[a-z0-9]([\w./-]*[a-z0-9])?", re.ASCII | re.IGNORECASE)
_NEVER_IGNORED: Final = ("reserve", "permit", "preBind", "bind")
_QUEUE_POINTS: Final = ("queueSort", "preEnqueue")
_NO_QUEUE: Final = (
    "PreEnqueue plugins hold pods back in the queue, and no queueSort plugin turns it on"
)

_Points: TypeAlias = Mapping[str, tuple[EnabledPlugin, ...]]


def resolve(
    profiles: Sequence[SchedulerProfile], catalog: Catalog, findings: Findings
) -> tuple[ResolvedProfile, ...]:
    """Return each profile with multiPoint expanded and arguments validated, in the file's order.

    Args:
        profiles: the profiles as in the file.
        catalog: looks up plugin names.
        findings: gets issues and notes; if there is any issue, do not use the resolved profiles.
    """
    _check_queue_sort(profiles, findings)
    resolved = tuple(
        _Resolution(f"profiles[{index}]", profile, catalog, findings).resolved()
        for index, profile in enumerate(profiles)
    )
    _check_common_order(profiles, resolved, findings)
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
    named = [
        (f"profiles[{index}]", ".schedulerName", default if name is None else name)
        for index, name in enumerate(names)
    ]
    named += [(f"passThrough[{index}]", "", name) for index, name in enumerate(passed)]
    first: dict[str, str] = {}
    for at, field, name in named:
        where = at + field
        if not name:
            hint = "the spec.schedulerName of the pods that this profile is for"
            findings.complain(where, "Required value", name, hint)
        elif len(name.encode()) > _LONGEST_NAME:
            hint = f"may not be more than {_LONGEST_NAME} bytes long, as the names of all objects"
            findings.complain(where, "Too long", name, hint)
        elif not field and not _PASSED.fullmatch(name):
            findings.complain(where, "Invalid value", name, "the full spec.schedulerName of pods")
        elif first.setdefault(name, at) != at:
            hint = f"{first[name]} has this name already"
            findings.complain(where, f'Duplicate value: "{name}"', name, hint)


def _check_queue_sort(profiles: Sequence[SchedulerProfile], findings: Findings) -> None:
    """Check the profiles' ``queueSort`` sections: at most one plugin, equal in all profiles."""
    for index, profile in enumerate(profiles):
        at = f"profiles[{index}].plugins.queueSort"
        given, first = (each.plugins.queue_sort for each in (profile, profiles[0]))
        names = [plugin.name for plugin in given.enabled]
        if index == 0 and len(names) > 1:
            findings.complain(f"{at}.enabled", "only one queue sort plugin can be enabled", names)
        if given != first:
            enabled = ", ".join(plugin.name for plugin in first.enabled) or "none"
            has = f"profile {profiles[0].scheduler_name} has {enabled}"
            hint = f"kube-scheduler has one queue; {has}"
            findings.complain(at, "must be the same for all profiles", names, hint)


def _check_common_order(
    profiles: Sequence[SchedulerProfile], resolved: Sequence[ResolvedProfile], findings: Findings
) -> None:
    """Check that all profiles run the same queueSort plugin with the same arguments.

    A profile whose ``queueSort`` section differs from the first profile's is reported already.
    """
    for index, (given, profile) in enumerate(zip(profiles, resolved, strict=True)):
        first, own = (_names(each.points, "queueSort") for each in (resolved[0], profile))
        at = f"profiles[{index}]"
        if given.plugins.queue_sort != profiles[0].plugins.queue_sort:
            continue
        if own != first:
            message = "must be the same for all profiles"
            findings.complain(f"{at}.plugins.queueSort", message, [*own])
        elif any(profile.args[name] != resolved[0].args[name] for name in own):
            message = "queueSort must be the same for all profiles"
            findings.complain(f"{at}.pluginConfig.args", message)


class _Resolution:
    """The resolution of one profile.

    Args:
        at: the path of the profile in the file.
        profile: the profile as in the file.
        catalog: looks up plugin names.
        findings: gets the issues and notes.
    """

    def __init__(
        self, at: str, profile: SchedulerProfile, catalog: Catalog, findings: Findings
    ) -> None:
        self._at = at
        self._profile = profile
        self._catalog = catalog
        self._findings = findings
        self._name = profile.scheduler_name or DEFAULT_SCHEDULER_NAME
        self._points = expand(profile.plugins, f"{at}.plugins", catalog, findings)
        self._enabled = _names(self._points, *self._points)

    def resolved(self) -> ResolvedProfile:
        """Return the profile with multiPoint expanded and arguments validated."""
        self._check_weights_and_disabled()
        self._check_queue_points()
        configs = self._configs()
        self._check_policies(configs)
        infos = {name: self._catalog.find(name) for name in self._enabled}
        args = {name: self._args(name, configs.get(name)) for name in self._enabled}
        needing = {name for name, info in infos.items() if info is not None and info.needs_pods}
        counting = needing & _names(self._points, "preFilter", "filter").keys()
        self._note_own_reservations(needing)
        for name, info in infos.items():
            for what in misspelt_methods(getattr(info, "plugin_class", None)):
                self._findings.note(f"{self._at}.plugins", f"{name}: {what}")
        policies = {name: config.failure_policy for name, (_, config) in configs.items()}
        return ResolvedProfile(
            self._name,
            self._points,
            args,
            needs_pods=bool(needing),
            counts_pods=bool(counting),
            parts=kept_parts(infos.values()),
            state=_state(self._points, needing),
            ignored=frozenset(name for name in policies if policies[name] == "Ignore"),
            percentage_of_nodes_to_score=self._profile.percentage_of_nodes_to_score,
        )

    def _check_weights_and_disabled(self) -> None:
        """Check what kube-scheduler leaves unchecked: weights below 1, names in ``disabled``."""
        for point, given in self._profile.plugins.by_point().items():
            at = f"{self._at}.plugins.{point}"
            for index, plugin in enumerate(given.enabled):
                if "weight" in plugin.model_fields_set and plugin.weight < 1:
                    where = f"{at}.enabled[{index}].weight"
                    keep = "to keep a plugin from running, do not enable it"
                    hint = f"kube-scheduler reads 0 as 1; {keep}"
                    self._findings.complain(where, "must be at least 1", plugin.weight, hint)
            for index, plugin in enumerate(given.disabled):
                where, name = f"{at}.disabled[{index}].name", plugin.name
                if name == "*" or self._catalog.find(name):
                    continue
                if name in IN_TREE_PLUGINS:
                    message = f"{name} is kube-scheduler's own: disabling it here has no effect"
                    self._findings.note(where, message)
                else:
                    self._catalog.complain(name, where, self._findings)

    def _check_queue_points(self) -> None:
        """Check that there is at most one queueSort plugin, and preEnqueue only with queueSort."""
        given = self._profile.plugins
        sorting, holding = ([*_names(self._points, point)] for point in _QUEUE_POINTS)
        if len(sorting) > 1 and len(given.queue_sort.enabled) <= 1:
            message = (
                "only one queue sort plugin required for profile with scheduler name "
                f'"{self._name}", but got {len(sorting)}'
            )
            hint = "name those that it is not to be in queueSort.disabled"
            self._findings.complain(f"{self._at}.plugins.multiPoint", message, sorting, hint)
        if sorting or not holding:
            return
        where = f"{self._at}.plugins.preEnqueue"
        elsewhere = _names(self._points, *(self._points.keys() - {*_QUEUE_POINTS}))
        if given.pre_enqueue.enabled:
            hint = "enable one, such as PrioritySort, which is kube-scheduler's own order"
            self._findings.complain(where, _NO_QUEUE, holding, hint)
        elif names := ", ".join(name for name in holding if name not in elsewhere):
            self._findings.note(where, f"{names} not used: {_NO_QUEUE}")

    def _configs(self) -> dict[str, tuple[str, PluginConfig]]:
        """Return path and entry in ``pluginConfig`` of each enabled plugin that has one."""
        found: dict[str, tuple[str, PluginConfig]] = {}
        given = self._profile.plugins.by_point().values()
        named = {plugin.name for each in given for plugin in each.enabled}
        seen: set[str] = set()
        for index, config in enumerate(self._profile.plugin_config):
            name, at = config.name, f"{self._at}.pluginConfig[{index}]"
            if name in seen and name:
                message = f"repeated config for plugin {name}"
                self._findings.complain(f"{at}.name", message, name, "keep one")
            elif name in self._enabled:
                found[name] = at, config
            elif self._catalog.find(name):
                message = f"{name} is not enabled in this profile: not used"
                self._findings.note(f"{at}.name", message)
            elif name not in named or not name:
                self._catalog.complain(name, f"{at}.name", self._findings)
            seen.add(name)
        return found

    def _check_policies(self, configs: Mapping[str, tuple[str, PluginConfig]]) -> None:
        """Check that no failure is ignored of a plugin that decides about the binding of pods."""
        for name, (at, config) in configs.items():
            points = [each for each in _NEVER_IGNORED if name in _names(self._points, each)]
            if config.failure_policy == "Ignore" and points:
                bound_at = ", ".join(PLUGIN_TYPES[each].removesuffix("Plugin") for each in points)
                message = f"must be Fail: {name} is enabled at {bound_at}"
                hint = "a pod would be bound as if the plugin had agreed"
                self._findings.complain(f"{at}.failurePolicy", message, "Ignore", hint)

    def _args(self, name: str, given: tuple[str, PluginConfig] | None) -> BaseModel | None:
        info = self._catalog.find(name)
        at, config = given or ("", PluginConfig())
        raw: dict[str, JsonValue] = config.args
        if info is None or info.args_model is None:
            for field, value in raw.items():
                message = f"{name} takes no arguments"
                self._findings.complain(f"{at}.args.{field}", message, value)
            return None
        try:
            return info.args_model.model_validate_json(json.dumps(raw))
        except ValidationError as error:
            issues = issues_of(error, info.args_model, f"{at}.args" if given else "args")
            if given:
                self._findings.issues += issues
                return None
            for issue in issues:
                message = f"{name} needs {issue.path}: {issue.message}"
                hint = f"add an entry with name: {name}"
                self._findings.complain(f"{self._at}.pluginConfig", message, hint=hint)
            return None

    def _note_own_reservations(self, needing: Collection[str]) -> None:
        """Add a note about each plugin that filters and reserves, and does not read pods.

        Reserve runs in bind, after filter was called for all members of a PodGroup.
        """
        reserving = _names(self._points, "reserve")
        for name in _names(self._points, "preFilter", "filter"):
            if name in reserving and name not in needing:
                message = (
                    f"{name} filters and reserves without needs_pods: if its filter counts what "
                    "its reserve took, kube-scheduler 1.37 may bind a part of a PodGroup only; "
                    "count the pods on nodes instead, with needs_pods = True"
                )
                self._findings.note(f"{self._at}.plugins", message)


def _names(points: _Points, *which: str) -> dict[str, None]:
    """Return the names of the plugins at some extension points, in order and each once."""
    return {plugin.name: None for point in which for plugin in points.get(point, ())}


def _state(points: _Points, needing: Collection[str]) -> tuple[str, ...]:
    """Return a phrase for each plugin that keeps what other replicas do not know.

    kubextend counts a pod on its node from before the Binding on. Other replicas see the pod there
    when their watches show it.

    Args:
        points: extension point -> its plugins.
        needing: the names of the plugins with ``needs_pods = True``.
    """
    called = _names(points, *(point for point in points if point not in _QUEUE_POINTS))
    kept = {name: "looks at the pods on nodes" for name in called if name in needing}
    for point, what in (("reserve", "reserves"), ("permit", "holds pods")):
        for name in _names(points, point):
            kept.setdefault(name, what)
    return tuple(f"{name} {what}" for name, what in kept.items())
