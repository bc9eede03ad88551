"""The JSON Schema of the configuration: what editors and the reference page are told."""

import importlib.util
import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from config_world import document
from jsonschema import Draft202012Validator
from pydantic import BaseModel, ValidationError

from kubextend import cli
from kubextend.config import model
from kubextend.config.schema import json_schema
from kubextend.plugins import IN_TREE

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
KIND = "kind: ExtenderConfiguration"
FILES = sorted(path for path in (ROOT / "deploy").rglob("*.yaml") if KIND in path.read_text())
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.glob("*.md"), *(ROOT / "deploy").rglob("*.md")])
SECTIONS = [
    each
    for each in vars(model).values()
    if isinstance(each, type) and issubclass(each, model._Model) and each is not model._Model
]
# Where in a file one object of each kind stands.
PLACES: dict[str, tuple[str | int, ...]] = {
    "ExtenderConfiguration": (),
    "Server": ("server",),
    "ServerTLS": ("server", "tls"),
    "ServerLease": ("server", "lease"),
    "WaitingPods": ("server", "waitingPods"),
    "Decisions": ("server", "decisions"),
    "Cluster": ("cluster",),
    "Extender": ("extender",),
    "ExtenderTLSConfig": ("extender", "tlsConfig"),
    "ManagedResource": ("extender", "managedResources", 0),
    "Autoscaler": ("autoscaler",),
    "Guard": ("guard",),
    "Queue": ("queue",),
    "QueueLease": ("queue", "lease"),
    "SchedulerProfile": ("profiles", 0),
    "Plugins": ("profiles", 0, "plugins"),
    "PluginSet": ("profiles", 0, "plugins", "score"),
    "Plugin": ("profiles", 0, "plugins", "score", "enabled", 0),
    "PluginConfig": ("profiles", 0, "pluginConfig", 0),
}
FIELDS = [
    (section.__name__, info.alias or name)
    for section in SECTIONS
    for name, info in section.model_fields.items()
]
VALUES: list[Any] = [
    None,
    True,
    0,
    1,
    -1,
    70_000,
    99_999_999_999,
    "",
    "x",
    "2s",
    "/",
    "Fail",
    [],
    {},
]


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.fixture(scope="module")
def validator() -> Draft202012Validator:
    Draft202012Validator.check_schema(json_schema(IN_TREE))
    return Draft202012Validator(json_schema(IN_TREE))


def blocks(page: Path) -> Iterator[Any]:
    for text in re.findall(r"^```ya?ml\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE):
        yield from filter(None, yaml.safe_load_all(text))


def full_document() -> dict[str, Any]:
    """A file with an object at each of ``PLACES``."""
    return document(
        server={"tls": {}, "waitingPods": {}, "decisions": {}, "lease": {}},
        cluster={},
        extender={"tlsConfig": {}, "managedResources": [{"name": "example.com/gpu"}]},
        autoscaler={},
        guard={},
        queue={"lease": {}},
        profiles=[
            {
                "plugins": {"score": {"enabled": [{"name": "LabelMatch"}]}},
                "pluginConfig": [{"name": "LabelMatch"}],
            }
        ],
    )


def with_value(section: str, field: str, value: Any) -> dict[str, Any]:
    tree = full_document()
    found: Any = tree
    for step in PLACES[section]:
        found = found[step]
    found[field] = value
    return tree


def without_nulls(value: Any) -> Any:
    """What null means in Kubernetes: the field is absent."""
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return value


def is_accepted(tree: dict[str, Any]) -> bool:
    try:
        model.ExtenderConfiguration.model_validate_json(json.dumps(without_nulls(tree)))
    except ValidationError:
        return False
    return True


def test_the_command_prints_the_schema() -> None:
    result = CliRunner().invoke(cli.main, ["schema"])
    assert result.exit_code == 0
    assert json.loads(result.stdout) == json_schema(IN_TREE)
    assert json_schema(IN_TREE)["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert json_schema(IN_TREE)["$id"].startswith("https://kubextend.dev/")


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_deployed_configuration_validates_and_names_the_schema(
    path: Path, validator: Draft202012Validator
) -> None:
    validator.validate(yaml.safe_load(path.read_text()))
    (named,) = re.findall(
        r"^# yaml-language-server: \$schema=(.*)$", path.read_text(), re.MULTILINE
    )
    assert (path.parent / named).resolve() == DOCS / "kubextend.schema.json"


def test_there_are_deployed_configurations() -> None:
    assert len(FILES) >= 12


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_yaml_on_a_page_validates(page: Path, validator: Draft202012Validator) -> None:
    profile = Draft202012Validator(
        {"$ref": "#/$defs/SchedulerProfile", "$defs": json_schema(IN_TREE)["$defs"]}
    )
    for block in blocks(page):
        if block.get("kind", model.KIND) != model.KIND:
            continue
        if block.keys() & json_schema(IN_TREE)["properties"].keys():
            validator.validate(document() | block)
        elif block.keys() & json_schema(IN_TREE)["$defs"]["SchedulerProfile"]["properties"].keys():
            profile.validate(block)


@pytest.mark.parametrize(("section", "field"), FIELDS)
def test_what_the_schema_refuses_is_refused(
    section: str, field: str, validator: Draft202012Validator
) -> None:
    """A file that kubextend accepts never looks wrong in an editor."""
    for value in VALUES:
        tree = with_value(section, field, value)
        required = field in {"apiVersion", "kind", "profiles", "name"} and value in (None, "", [])
        if is_accepted(tree) and not required:
            validator.validate(tree)


@pytest.mark.parametrize(("section", "field"), FIELDS)
def test_a_field_of_another_type_is_found(
    section: str, field: str, validator: Draft202012Validator
) -> None:
    schema = next(validator.iter_errors(with_value(section, field, [[]])), None)
    assert schema is not None
    assert not is_accepted(with_value(section, field, [[]]))


@pytest.mark.parametrize("section", PLACES)
def test_an_unknown_field_is_found(section: str, validator: Draft202012Validator) -> None:
    (error,) = validator.iter_errors(with_value(section, "nobodyKnows", 1))
    found = error.context[0] if error.context else error
    assert "nobodyKnows" in found.message


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
def test_the_arguments_of_a_bundled_plugin_are_looked_at(
    args: object, message: str | None, validator: Draft202012Validator
) -> None:
    found = str(list(validator.iter_errors(with_value("PluginConfig", "args", args))))
    assert (found == "[]") is (message is None)
    assert message is None or message in found


def test_the_arguments_of_other_plugins_may_be_anything(validator: Draft202012Validator) -> None:
    tree = with_value("PluginConfig", "args", {"fliters": []})
    tree["profiles"][0]["pluginConfig"][0]["name"] = "Mine"
    validator.validate(tree)


@pytest.mark.parametrize("missing", ["apiVersion", "kind", "profiles"])
def test_a_missing_field_is_found(missing: str, validator: Draft202012Validator) -> None:
    tree = full_document()
    del tree[missing]
    (error,) = validator.iter_errors(tree)
    assert missing in error.message


def test_every_section_has_its_place() -> None:
    assert set(PLACES) == {section.__name__ for section in SECTIONS}


@pytest.mark.parametrize("section", SECTIONS, ids=lambda each: each.__name__)
def test_every_field_is_described_in_a_sentence(section: type[BaseModel]) -> None:
    for field in section.model_fields.values():
        text = " ".join(str(field.description).split())
        assert re.fullmatch(r"[A-Z`].*\.", text), text


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("configuration", DOCS / "configuration.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_is_what_make_docs_writes() -> None:
    page = (DOCS / "configuration.md").read_text()
    assert generator().page(page) == page, "run `make docs`"


def test_the_schema_for_editors_is_what_make_docs_writes() -> None:
    written = (DOCS / "kubextend.schema.json").read_text()
    assert generator().schema_file() == written, "run `make docs`"
    assert written == CliRunner().invoke(cli.main, ["schema"]).stdout
