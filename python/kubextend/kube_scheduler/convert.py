"""Converts kube-scheduler's own file to kubextend's format, one way.

The file is a KubeSchedulerConfiguration, a Policy of kube-scheduler up to 1.22, or a ConfigMap that
holds one of these. The plugins of kubextend in its profiles are taken over: a name of
kube-scheduler's own plugin means that plugin, even if kubextend has one of that name. Where there
are none, kubextend takes the place of the one server that the file's extenders call. All else is
left to kube-scheduler, and a comment of the result says so.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import yaml
from pydantic import JsonValue

from kubextend.config import Duration, read_document
from kubextend.config.issues import Findings
from kubextend.config.model import API_VERSION, KIND, Plugin
from kubextend.config.scheduler_plugins import IN_TREE_PLUGINS, SCHEDULER_KIND
from kubextend.kube_scheduler.file import (
    AllPlugins,
    Profile,
    SchedulerConfiguration,
    read_scheduler_configuration,
)
from kubextend.kube_scheduler.versions import SCHEDULER_API_VERSIONS

__all__ = ["converted"]

_HEAD: Final = """\
# The plugins of kubextend in kube-scheduler's file. Take them out there, put the extenders in that
# `kubextend scheduler-config --config THIS_FILE` writes, and compare both files:
#   kubextend check THIS_FILE --scheduler KUBE_SCHEDULERS_FILE
"""
_POLICY: Final = "Policy"
_OF_ENTRIES: Final = ("httpTimeout", "nodeCacheCapable", "managedResources", "ignorable")
_OF_TLS: Final = ("caFile", "certFile", "keyFile", "serverName")
_LABEL_RULES: Final = ("labelsPresence", "labelPreference")

_Tree = Mapping[str, JsonValue]


def converted(tree: _Tree) -> str:
    """Return, as YAML, an ExtenderConfiguration for a file of kube-scheduler.

    Raises: ConfigError: kube-scheduler could not decode the file, or its kind is another.
    """
    findings = Findings()
    inner = _held(tree, findings) if tree.get("kind") == "ConfigMap" else tree
    if inner.get("kind") == _POLICY:
        inner = _of_policy(inner, findings)
    found = read_scheduler_configuration(inner, findings)
    findings.refuse_any({})
    whole: dict[str, JsonValue] = {"apiVersion": API_VERSION, "kind": KIND, "cluster": {}}
    if found is not None:
        profiles: list[JsonValue] = [_profile(each) for each in found.profiles or [Profile()]]
        whole |= _in_place_of(found, findings) | {"profiles": profiles}
        _note_the_rest(found, findings)
    notes = "".join(f"# Not taken over: {_printable(note)}\n" for note in findings.notes)
    return _HEAD + notes + yaml.safe_dump(whole, sort_keys=False, allow_unicode=True, width=1000)


def _printable(text: str) -> str:
    return "".join(each if each.isprintable() else "?" for each in text)


def _held(config_map: _Tree, findings: Findings) -> _Tree:
    """Return the one file of kube-scheduler that a ConfigMap holds, under whatever key.

    Beside a Policy, a KubeSchedulerConfiguration of v1alpha1 only names the Policy.
    """
    data = config_map.get("data")
    texts = data.items() if isinstance(data, dict) else ()
    trees = [read_document(str(text).encode(), f"data.{key}") for key, text in texts]
    of_kind = {
        kind: [tree for tree in trees if tree.get("kind") == kind]
        for kind in (_POLICY, SCHEDULER_KIND)
    }
    files = of_kind[_POLICY] or of_kind[SCHEDULER_KIND]
    if len(files) != 1:
        message = f"holds {len(files)} files of kube-scheduler, and not one"
        hint = f"give a file of the kind {SCHEDULER_KIND} or {_POLICY}"
        findings.complain("data", message, None, hint)
    findings.refuse_any({})
    return files[0]


def _of_policy(policy: _Tree, findings: Findings) -> _Tree:
    """Return a Policy as KubeSchedulerConfiguration, and note each rule, which has no place.

    Source: kube-scheduler v0.22 config/v1/legacy_types.go
    """
    for field, value in policy.items():
        if field in {"predicates", "priorities"} and isinstance(value, list):
            _note_rules(field, value, findings)
        elif field not in {"apiVersion", "kind", "extenders"}:
            findings.note(field, "kube-scheduler's own, for which 1.23 and later have plugins")
    findings.note("profiles", "a Policy has none: give schedulerName what --scheduler-name has")
    entries = policy.get("extenders")
    entries = [_entry(e) for e in entries] if isinstance(entries, list) else entries
    version = SCHEDULER_API_VERSIONS[0]
    return {"apiVersion": version, "kind": SCHEDULER_KIND, "extenders": entries}


def _note_rules(field: str, rules: list[JsonValue], findings: Findings) -> None:
    named = [each if isinstance(each, dict) else {"name": each} for each in rules]
    plain = [str(each.get("name")) for each in named if not each.get("argument")]
    if plain:
        own = "kube-scheduler's own: its plugins do this, most of them by default"
        findings.note(field, f"{', '.join(plain)}: {own}")
    for each in named:
        if (argument := each.get("argument")) and isinstance(argument, dict):
            labels = any(rule in argument for rule in _LABEL_RULES)
            advice = "LabelMatch has rules about labels" if labels else "kubextend has no such rule"
            findings.note(field, f"{each.get('name')} with {json.dumps(argument)}: {advice}")


def _entry(legacy: JsonValue) -> JsonValue:
    """Return an extender of a Policy in the form of v1: httpTimeout is no longer nanoseconds."""
    if not isinstance(legacy, dict):
        return legacy
    entry = {"enableHTTPS" if key == "enableHttps" else key: legacy[key] for key in legacy}
    entry.pop("apiVersion", None)  # old files have it, and nothing reads it
    if isinstance(timeout := entry.get("httpTimeout"), int):
        entry["httpTimeout"] = str(Duration(timeout))
    return entry


def _in_place_of(file: SchedulerConfiguration, findings: Findings) -> dict[str, JsonValue]:
    """Return the sections with which kubextend takes the place of the file's one extender.

    Empty if profiles have plugins of kubextend, or the extenders call several servers.
    """
    urls = {entry.url for entry in file.extenders}
    if len(urls) != 1 or any(_plugins(profile.plugins) for profile in file.profiles):
        for index, entry in enumerate(file.extenders):
            message = f"{entry.url} is another extender, which stays in kube-scheduler's file"
            findings.note(f"extenders[{index}]", message)
        return {}
    # The entry of bind alone has a longer timeout.
    entry = min(file.extenders, key=lambda each: each.verbs.keys() == {"bind"})
    given: dict[str, Any] = entry.model_dump(mode="json", by_alias=True, exclude_unset=True)
    extender: dict[str, JsonValue] = {"urlPrefix": entry.url_prefix}
    extender |= {field: given[field] for field in _OF_ENTRIES if field in given}
    tls = given.get("tlsConfig", {})
    if files := {field: tls[field] for field in _OF_TLS if tls.get(field)}:
        extender["tlsConfig"] = files
    for field in tls:
        if field.endswith("Data"):
            message = "kubextend takes certificates from files"
            findings.note(f"extenders[0].tlsConfig.{field}", message)
    if any(each.bind_verb for each in file.extenders):
        extender["bind"] = True
    if entry.prioritize_verb:
        findings.note("extenders[0].weight", "the plugins of kubextend have weights of their own")
    url = urlsplit(entry.url)
    if url.scheme == "https":
        findings.note("extenders[0].urlPrefix", "give kubextend its certificate in server.tls")
    port = url.port or (443 if url.scheme == "https" else 80)
    return {"server": {"port": port, "path": url.path or "/"}, "extender": extender}


def _note_the_rest(file: SchedulerConfiguration, findings: Findings) -> None:
    """Note each section and plugin that stays in kube-scheduler's file."""
    taken = {"api_version", "kind", "profiles", "extenders"}
    own = "kube-scheduler's own, which stays in its file"
    for name in type(file).model_fields:
        if name in file.model_fields_set - taken:
            findings.note(str(type(file).model_fields[name].alias), own)
    for index, profile in enumerate(file.profiles):
        named = {each.name: None for each in _entries(profile.plugins)}
        named |= {config.name: None for config in profile.plugin_config}
        if names := [name for name in named if name in IN_TREE_PLUGINS]:
            findings.note(f"profiles[{index}]", f"{', '.join(names)}: {own}")


def _entries(plugins: AllPlugins) -> Iterator[Plugin]:
    for given in plugins.by_point().values():
        yield from (*given.enabled, *given.disabled)


def _profile(profile: Profile) -> dict[str, JsonValue]:
    fields = {"scheduler_name", "percentage_of_nodes_to_score"}
    kept = profile.model_dump(include=fields, exclude_none=True, by_alias=True)
    if plugins := _plugins(profile.plugins):
        kept["plugins"] = plugins
    configs: list[JsonValue] = [
        {"name": config.name, "args": _without_type(config.args)}
        for config in profile.plugin_config
        if config.name not in IN_TREE_PLUGINS
    ]
    return kept | ({"pluginConfig": configs} if configs else {})


def _plugins(plugins: AllPlugins) -> dict[str, JsonValue]:
    """Return the plugins of kubextend by extension point.

    What a point disables is kept where it concerns a plugin that comes by multiPoint.
    """
    through = {each.name for each in plugins.multi_point.enabled} - IN_TREE_PLUGINS
    disabled = through | {"*"} if through else through
    points: dict[str, JsonValue] = {}
    for point, given in plugins.by_point().items():
        lists = {
            "enabled": [_named(each) for each in given.enabled if each.name not in IN_TREE_PLUGINS],
            "disabled": [_named(each) for each in given.disabled if each.name in disabled],
        }
        if any(lists.values()):
            points[point] = {key: entries for key, entries in lists.items() if entries}
    return points


def _named(plugin: Plugin) -> JsonValue:
    return {"name": plugin.name} | ({"weight": plugin.weight} if plugin.weight else {})


def _without_type(args: JsonValue) -> JsonValue:
    if not isinstance(args, dict):
        return {}
    return {key: value for key, value in args.items() if key not in {"apiVersion", "kind"}}
