"""Loads a configuration file, or the default, and checks it; reports all issues in one error."""

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from pydantic import JsonValue, ValidationError

from kubextend.config.checks import check
from kubextend.config.configuration import Configuration
from kubextend.config.expansion import Catalog
from kubextend.config.issues import Findings, issues_of
from kubextend.config.model import API_VERSION, KIND, File
from kubextend.config.profiles import check_scheduler_names, resolve
from kubextend.config.scheduler_plugins import SCHEDULER_KIND
from kubextend.config.yaml_document import read_document, read_file
from kubextend.errors import ConfigError, Issue
from kubextend.framework.imports import PluginUnavailableError
from kubextend.framework.known_plugins import KnownPlugins
from kubextend.framework.registered_plugin import RegisteredPlugin

__all__ = ["DEFAULT", "load", "parse", "without_nulls"]

DEFAULT: Final = """\
apiVersion: kubextend.dev/v1alpha1
kind: ExtenderConfiguration
# Whole nodes come with every request, so no access to the Kubernetes API is needed.
extender:
  nodeCacheCapable: false
profiles:
- schedulerName: default-scheduler
  plugins:
    filter:
      enabled:
      - name: HighCommPodFilter
"""


def load(
    path: str | Path | None,
    *,
    known: Mapping[str, RegisteredPlugin],
    overrides: Mapping[str, JsonValue] | None = None,
    runs_here: bool = True,
) -> Configuration:
    """Load a configuration file, check the configuration, and return it typed.

    Args:
        path: an ExtenderConfiguration; None for ``DEFAULT``, ``-`` for standard input.
        known: the known plugins by name, without those of the file's own ``outOfTree``.
        overrides: values that override those of the file, by path, as ``{"server.port": 9000}``.
        runs_here: whether the files that the configuration names must be readable. If False, an
            unreadable file is noted only: it may exist on the machine where kubextend runs.

    Raises: ConfigError: the configuration cannot run; the error has all issues of the file.
    """
    default = DEFAULT.encode(), "the embedded default"
    data, shown = default if path is None else read_file(path)
    tree = read_document(data, shown)
    return parse(tree, known=known, overrides=overrides, runs_here=runs_here)


def parse(
    tree: Mapping[str, JsonValue],
    *,
    known: Mapping[str, RegisteredPlugin],
    overrides: Mapping[str, JsonValue] | None = None,
    runs_here: bool = True,
) -> Configuration:
    """Check a configuration given as a JSON object, and return the typed configuration.

    Args:
        tree: an ExtenderConfiguration as a JSON object.
        known: the known plugins by name, without those of the file's own ``outOfTree``.
        overrides: values that override those of the file, by path, as ``{"server.port": 9000}``.
        runs_here: whether the files that the configuration names must be readable here; if False,
            an unreadable file is only noted.

    Raises: ConfigError: the configuration cannot run. The error has all unknown fields and wrong
        values; if there are none, all classes that cannot be imported; else all other issues.
    """
    findings = Findings()
    _check_type(tree, findings)
    prepared = _prepared(tree, overrides or {}, findings)
    try:
        file = File.model_validate_json(json.dumps(prepared))
    except ValidationError as error:
        findings.issues += issues_of(error, File)
        findings.refuse_any(tree)
        raise
    plugins = _with_out_of_tree(file.out_of_tree, known)
    names = [profile.scheduler_name for profile in file.profiles]
    check_scheduler_names(names, findings, file.pass_through)
    profiles = resolve(file.profiles, Catalog(plugins), findings)
    config = Configuration.of(file, profiles, plugins)
    check(config, findings, runs_here=runs_here)
    findings.refuse_any(tree)
    return replace(config, notes=tuple(findings.notes))


def _with_out_of_tree(
    references: Sequence[str], known: Mapping[str, RegisteredPlugin]
) -> KnownPlugins:
    """Import the plugin classes of ``outOfTree``, and return all known plugins.

    Raises: ConfigError: classes cannot be imported, or are named twice.
    """
    larger, findings = KnownPlugins.of(known, "kubextend"), Findings()
    for index, reference in enumerate(references):
        at = f"outOfTree[{index}]"
        if reference in references[:index]:
            findings.complain(at, "is named twice", reference, "keep one")
            continue
        try:
            larger = larger.with_reference(reference, at)
        except PluginUnavailableError as error:
            findings.complain(at, error.message, reference, error.hint)
    findings.refuse_any({})
    return larger


def _check_type(tree: Mapping[str, JsonValue], findings: Findings) -> None:
    """Check kind and apiVersion.

    Raises: ConfigError: the file is kube-scheduler's own; no other issue would help.
    """
    if tree.get("kind") == SCHEDULER_KIND:
        message = "this is kube-scheduler's own configuration, not kubextend's"
        hint = "run kubextend convert FILE > kubextend.yaml, and give kubextend that file"
        raise ConfigError([Issue("kind", message, SCHEDULER_KIND, hint)])
    for field, right, what in (
        ("kind", KIND, "kind {} is known"),
        ("apiVersion", API_VERSION, f"version {{}} of {KIND} is known"),
    ):
        if (found := tree.get(field)) != right:
            message = "no " + what.format(f'"{found}"') if found else "Required value"
            findings.complain(field, message, found, f"{field}: {right}")


def _prepared(
    tree: Mapping[str, JsonValue], overrides: Mapping[str, JsonValue], findings: Findings
) -> dict[str, JsonValue]:
    """Return a configuration without nulls, with overrides and nodeCacheCapable's default.

    ``extender.nodeCacheCapable`` defaults to whether there is a ``cluster`` section. ``findings``
    gets a note about an empty ``cluster`` section.
    """
    if "cluster" in tree and tree["cluster"] is None and "cluster.kubeconfig" not in overrides:
        findings.note("cluster", "empty, so there is no access to the API; {} switches it on")
    prepared = {key: without_nulls(value) for key, value in tree.items() if value is not None}
    prepared |= {"apiVersion": API_VERSION, "kind": KIND}
    for path, value in overrides.items():
        _set(prepared, path.split("."), value)
    extender = prepared.setdefault("extender", {})
    if isinstance(extender, dict):
        extender.setdefault("nodeCacheCapable", "cluster" in prepared)
    return prepared


def without_nulls(value: JsonValue) -> JsonValue:
    """Return a copy of a JSON value without null fields; in Kubernetes null means absent.

    The arguments of plugins, below the key ``args``, keep their nulls: each plugin decides what
    null means.
    """
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: copy.deepcopy(item) if key == "args" else without_nulls(item)
        for key, item in value.items()
        if item is not None
    }


def _set(tree: dict[str, JsonValue], path: list[str], value: JsonValue) -> None:
    for key in path[:-1]:
        below = tree.setdefault(key, {})
        if not isinstance(below, dict):
            return
        tree = below
    tree[path[-1]] = value
