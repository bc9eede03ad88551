"""Converts a KubeSchedulerConfiguration to kubextend's own format, one way.

Only the plugins of kubextend in the profiles are taken over: a name of kube-scheduler's own plugin
means that plugin, even if kubextend has one of that name. All else is left to kube-scheduler.
"""

from collections.abc import Mapping
from typing import Final

import yaml
from pydantic import JsonValue

from kubextend.config.issues import Findings
from kubextend.config.model import API_VERSION, KIND, Plugin, Plugins, PluginSet
from kubextend.config.scheduler_plugins import IN_TREE_PLUGINS
from kubextend.errors import ConfigError
from kubextend.kube_scheduler.file import Profile, read_scheduler_configuration

__all__ = ["converted"]

_HEAD: Final = """\
# The plugins of kubextend in kube-scheduler's file. Take them out there, put the extenders in that
# `kubextend scheduler-config --config THIS_FILE` writes, and compare both files:
#   kubextend check THIS_FILE --scheduler KUBE_SCHEDULERS_FILE
"""


def converted(tree: Mapping[str, JsonValue]) -> str:
    """Return, as YAML, an ExtenderConfiguration for a KubeSchedulerConfiguration.

    Raises: ConfigError: kube-scheduler could not decode the file, or its kind is another.
    """
    findings = Findings()
    found = read_scheduler_configuration(tree, findings)
    if found is None:
        raise ConfigError(findings.issues)
    profiles = [_profile(profile) for profile in found.profiles or [Profile()]]
    whole = {"apiVersion": API_VERSION, "kind": KIND, "cluster": {}, "profiles": profiles}
    return _HEAD + yaml.safe_dump(whole, sort_keys=False, allow_unicode=True, width=1000)


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


def _plugins(plugins: Plugins) -> dict[str, JsonValue]:
    """Return the plugins of kubextend by extension point.

    What a point disables is kept where it concerns a plugin that comes by multiPoint.
    """
    through = {each.name for each in plugins.multi_point.enabled} - IN_TREE_PLUGINS
    disabled = through | {"*"} if through else through
    points: dict[str, JsonValue] = {}
    for name, info in Plugins.model_fields.items():
        given: PluginSet = getattr(plugins, name)
        lists = {
            "enabled": [_entry(each) for each in given.enabled if each.name not in IN_TREE_PLUGINS],
            "disabled": [_entry(each) for each in given.disabled if each.name in disabled],
        }
        if any(lists.values()):
            points[str(info.alias)] = {key: entries for key, entries in lists.items() if entries}
    return points


def _entry(plugin: Plugin) -> JsonValue:
    return {"name": plugin.name} | ({"weight": plugin.weight} if plugin.weight else {})


def _without_type(args: JsonValue) -> JsonValue:
    if not isinstance(args, dict):
        return {}
    return {key: value for key, value in args.items() if key not in {"apiVersion", "kind"}}
