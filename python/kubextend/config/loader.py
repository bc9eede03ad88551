"""Loads a configuration file, or the default, and checks it; reports all issues in one error."""

import copy
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pydantic import JsonValue, ValidationError

from kubextend.config.checks import check
from kubextend.config.issues import Findings, Location, issues_of, suggestion
from kubextend.config.model import API_VERSION, KIND, ExtenderConfiguration
from kubextend.config.out_of_tree import FIELD, with_out_of_tree
from kubextend.config.plugin_catalog import Catalog
from kubextend.config.resolve import resolve
from kubextend.config.scheduler_file import (
    SCHEDULER_API_VERSIONS,
    SCHEDULER_KIND,
    extender_tree,
    scheduler_tree,
)
from kubextend.config.yaml_document import read_document, read_file
from kubextend.errors import ConfigError, Issue
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

# A list of texts is repaired as a whole: no single text has a default.
_TEXT_LISTS: Final[tuple[Location, ...]] = (
    (FIELD,),
    ("server", "waitingPods", "allowedNames"),
    ("server", "decisions", "allowedNames"),
)

# A document without its wrong values has no further type errors; more rounds would be a bug.
_ROUNDS = 3


def load(
    path: str | Path | None,
    *,
    known: Mapping[str, RegisteredPlugin],
    overrides: Mapping[str, JsonValue] | None = None,
    runs_here: bool = True,
) -> ExtenderConfiguration:
    """Load a configuration file, check the configuration, and return it typed.

    Args:
        path: an ExtenderConfiguration or a KubeSchedulerConfiguration; None for ``DEFAULT``, ``-``
            for standard input.
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
) -> ExtenderConfiguration:
    """Check a configuration given as a JSON object, and return the typed configuration.

    Args:
        tree: an ExtenderConfiguration or a KubeSchedulerConfiguration as a JSON object.
        known: the known plugins by name, without those of the file's own ``outOfTree``.
        overrides: values that override those of the file, by path, as ``{"server.port": 9000}``.
        runs_here: whether the files that the configuration names must be readable here; if False,
            an unreadable file is only noted.

    Raises: ConfigError: the configuration cannot run; the error has all issues of the file.
    """
    findings, later = Findings(), Findings()
    of_scheduler = tree.get("kind") == SCHEDULER_KIND
    _check_type(tree, findings)
    ours = extender_tree(tree, findings) if of_scheduler else tree
    ours = {**ours, "apiVersion": API_VERSION, "kind": KIND}
    config, broken = _typed(_prepared(ours, overrides or {}, findings), findings)
    plugins, missing = with_out_of_tree(config.out_of_tree, known, findings)
    catalog = Catalog(plugins, of_scheduler=of_scheduler, missing=missing)
    resolved = resolve(config.profiles, catalog, later)
    check(config.with_resolved(resolved), later, broken, runs_here=runs_here)
    issues = findings.issues + [issue for issue in later.issues if _adds(issue, broken)]
    if issues:
        sections = list(tree)
        raise ConfigError(sorted(issues, key=lambda issue: _section(issue.path, sections)))
    part = scheduler_tree(tree, catalog.is_ours) if catalog.of_scheduler else {}
    return config.with_resolved(resolved, (*findings.notes, *later.notes), part, plugins)


def _check_type(tree: Mapping[str, JsonValue], findings: Findings) -> None:
    kind, version = tree.get("kind"), tree.get("apiVersion")
    versions = SCHEDULER_API_VERSIONS if kind == SCHEDULER_KIND else (API_VERSION,)
    kinds = (KIND, SCHEDULER_KIND)
    if kind not in kinds:
        hint = suggestion(str(kind), kinds, "kinds") if kind else f"kind: {KIND}"
        message = f'no kind "{kind}" is known' if kind else "Required value"
        findings.complain(("kind",), message, kind, hint)
    if version not in versions:
        message = f'no version "{version}" of {kind} is known' if version else "Required value"
        hint = f"apiVersion: {' or '.join(versions)}"
        findings.complain(("apiVersion",), message, version, hint)


def _prepared(
    tree: Mapping[str, JsonValue], overrides: Mapping[str, JsonValue], findings: Findings
) -> dict[str, JsonValue]:
    """Return a configuration without nulls, with overrides and nodeCacheCapable's default.

    ``extender.nodeCacheCapable`` defaults to whether there is a ``cluster`` section. ``findings``
    gets a note about an empty ``cluster`` section.
    """
    if "cluster" in tree and tree["cluster"] is None and "cluster.kubeconfig" not in overrides:
        findings.note(("cluster",), "empty, so there is no access to the API; {} switches it on")
    prepared = {key: without_nulls(value) for key, value in tree.items() if value is not None}
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


def _typed(
    tree: dict[str, JsonValue], findings: Findings
) -> tuple[ExtenderConfiguration, frozenset[str]]:
    """Return the typed configuration, and the paths of the wrong values that defaults replaced.

    Each wrong value is reported in ``findings``, and removed from ``tree``.
    """
    broken: set[str] = set()
    for _ in range(_ROUNDS):
        try:
            config = ExtenderConfiguration.model_validate_json(json.dumps(tree))
        except ValidationError as error:
            issues = issues_of(error, ExtenderConfiguration)
            findings.issues += issues
            broken.update(issue.path for issue in issues)
            for details in error.errors(include_url=False, include_context=False):
                _repair(tree, details["loc"])
        else:
            return config, frozenset(broken)
    raise ConfigError(findings.issues)


def _repair(tree: dict[str, JsonValue], location: Location) -> None:
    """Remove the wrong value at a location of a configuration, so that the rest can be checked."""
    location = next((at for at in _TEXT_LISTS if location[: len(at)] == at), location)
    value: JsonValue = tree
    for part in location[:-1]:
        if isinstance(value, dict):
            value = value.get(str(part))
        elif isinstance(value, list) and isinstance(part, int):
            value = value[part]
    last = location[-1] if location else ""
    if isinstance(value, dict):
        value.pop(str(last), None)
    elif isinstance(value, list) and isinstance(last, int):
        value[last] = {}


def _section(path: str, sections: list[str]) -> int:
    name = re.split(r"[.\[]", path, maxsplit=1)[0]
    return sections.index(name) if name in sections else len(sections)


def _adds(issue: Issue, broken: frozenset[str]) -> bool:
    """Return whether an issue is new, and no mere consequence of a field that pydantic refused.

    Args:
        issue: an issue of a check that ran after pydantic's validation.
        broken: paths of the fields that pydantic refused.
    """
    if any(
        issue.path == path or issue.path.startswith((f"{path}.", f"{path}[")) for path in broken
    ):
        return False
    parent = issue.path.rpartition(".")[0]
    return issue.message != "Required value" or not any(
        path.rpartition(".")[0] == parent for path in broken
    )
