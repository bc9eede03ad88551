"""The JSON Schema that ``kubextend schema`` prints: what editors and the reference are told."""

import copy
import json
import re
import runpy
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator
from tests.doors.command_line import ROOT, Tree, configuration, run

from kubextend import config
from kubextend.errors import ConfigError
from kubextend.plugins import IN_TREE

DOCS = ROOT / "docs"
KIND = "kind: ExtenderConfiguration"
FILES = sorted(path for path in (ROOT / "deploy").rglob("*.yaml") if KIND in path.read_text())
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.glob("*.md"), *(ROOT / "deploy").rglob("*.md")])
VALUES: list[Any] = [True, 0, 1, -1, 70_000, 99_999_999_999, "", "x", "2s", "/", "Fail", [], {}]
Path_ = tuple[str | int, ...]


@cache
def schema() -> Tree:
    result = run("schema")
    assert (result.exit_code, result.stderr) == (0, "")
    loaded: Tree = json.loads(result.stdout)
    return loaded


@cache
def validator() -> Draft202012Validator:
    Draft202012Validator.check_schema(schema())
    return Draft202012Validator(schema())


def fields(part: Tree, at: Path_ = ()) -> Iterator[Path_]:
    """Yield the path of each field of a part of the schema and of the parts below it."""
    for name, each in part.get("properties", {}).items():
        yield (*at, name)
        for below, step in ((each, ()), (each.get("items", {}), (0,))):
            options = [below, *below.get("anyOf", ())]
            for reference in filter(None, (option.get("$ref") for option in options)):
                definition = schema()["$defs"][reference.rpartition("/")[2]]
                # The sets of plugins are alike at all points.
                if name not in schema()["$defs"]["Plugins"]["properties"] or name == "score":
                    yield from fields(definition, (*at, name, *step))


FIELDS = list(fields(schema()))


def with_value(path: Path_, value: Any) -> Tree:
    """Return a configuration with a value at a path, and with right objects above it."""
    named = {"enabled": [{"name": "LabelMatch"}], "disabled": [{"name": "LabelMatch"}]}
    profile = {"plugins": {"score": named}, "pluginConfig": [{"name": "LabelMatch"}]}
    resources = {"managedResources": [{"name": "example.com/gpu"}]}
    whole = part = copy.deepcopy(configuration(extender=resources, profiles=[profile]))
    for step, below in pairwise(path):
        part = part[step] if isinstance(step, int) else part.setdefault(step, {})
        assert isinstance(part, list) is isinstance(below, int)
    part[path[-1]] = value
    return whole


def is_refused(path: Path_, value: Any) -> bool:
    """Whether kubextend has something to say about the value at the path."""
    where = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)[1:]
    try:
        config.parse(with_value(path, value), known=IN_TREE, runs_here=False)
    except ConfigError as error:
        return any(issue.path.startswith(where) for issue in error.issues)
    return False


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_schema_accepts_a_deployed_configuration_which_names_the_schema(path: Path) -> None:
    validator().validate(yaml.safe_load(path.read_text()))
    line = r"^# yaml-language-server: \$schema=(.*)$"
    (named,) = re.findall(line, path.read_text(), re.MULTILINE)
    assert (path.parent / named).resolve() == DOCS / "kubextend.schema.json"
    assert len(FILES) >= 12


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_schema_accepts_the_yaml_of_a_page(page: Path) -> None:
    definitions = schema()["$defs"]
    profile = Draft202012Validator({"$ref": "#/$defs/SchedulerProfile", "$defs": definitions})
    text = page.read_text()
    for block in re.findall(r"^```ya?ml\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        for tree in filter(None, yaml.safe_load_all(block)):
            if tree.get("kind", "ExtenderConfiguration") != "ExtenderConfiguration":
                continue
            if tree.keys() & schema()["properties"].keys():
                validator().validate(configuration() | tree)
            elif tree.keys() & definitions["SchedulerProfile"]["properties"].keys():
                profile.validate(tree)


@pytest.mark.slow
@pytest.mark.parametrize("path", FIELDS, ids=lambda path: ".".join(map(str, path)))
def test_the_schema_accepts_each_value_that_kubextend_accepts(path: Path_) -> None:
    """A file that kubextend accepts never looks wrong in an editor."""
    for value in VALUES:
        errors = [*validator().iter_errors(with_value(path, value))]
        assert not errors or is_refused(path, value), value
    assert [*validator().iter_errors(with_value(path, [[]]))]
    assert is_refused(path, [[]])


@pytest.mark.parametrize("path", sorted({path[:-1] for path in FIELDS}, key=str))
def test_the_schema_finds_an_unknown_field(path: Path_) -> None:
    (error,) = validator().iter_errors(with_value((*path, "nobodyKnows"), 1))
    found = error.context[0] if error.context else error
    assert "nobodyKnows" in found.message


@pytest.mark.parametrize("missing", ["apiVersion", "kind", "profiles"])
def test_the_schema_finds_a_missing_field(missing: str) -> None:
    tree = {key: value for key, value in configuration().items() if key != missing}
    (error,) = validator().iter_errors(tree)
    assert missing in error.message


ARGS = ("profiles", 0, "pluginConfig", 0, "args")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (None, None),
        ({}, None),
        ({"filters": [{"nodeSelector": "a", "reason": "no a"}]}, None),
        ({"scores": [{"nodeSelector": "a", "score": "50"}]}, None),
        ({"filters": [{"nodeSelector": "a"}]}, "'reason' is a required property"),
        ({"fliters": []}, "'fliters' was unexpected"),
    ],
)
def test_the_schema_looks_at_the_arguments_of_bundled_plugins_alone(
    args: object, message: str | None
) -> None:
    tree = with_value(ARGS, args)
    found = str([*validator().iter_errors(tree)])
    assert (found == "[]") is (message is None)
    assert message is None or message in found
    tree["profiles"][0]["pluginConfig"][0]["name"] = "Mine"
    validator().validate(tree)


def test_the_schema_describes_every_field_in_a_sentence() -> None:
    assert len(FIELDS) > 70
    sections = [schema(), *(each for name, each in schema()["$defs"].items() if "." not in name)]
    for section in sections:
        for name, field in section.get("properties", {}).items():
            text = " ".join(field["description"].split())
            assert re.fullmatch(r"[A-Z`].*\.", text), name


def test_the_reference_and_the_schema_of_docs_are_what_make_docs_writes() -> None:
    generator = runpy.run_path(str(DOCS / "configuration.py"))
    page = (DOCS / "configuration.md").read_text()
    assert generator["page"](page) == page, "run `make docs`"
    written = (DOCS / "kubextend.schema.json").read_text()
    assert generator["schema_file"]() == written, "run `make docs`"
    assert written == run("schema").stdout
    (complete,) = re.findall(r"^```yaml\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    result = run("check", "-", given=complete)
    assert result.exit_code == 0, result.stderr
