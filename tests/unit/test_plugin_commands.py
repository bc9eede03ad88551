"""``plugins`` and ``new-plugin`` as a shell sees them, and what installed packages announce."""

import json
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kubextend import cli, discovery
from kubextend.framework.imports import PluginUnavailableError
from kubextend.plugins import IN_TREE, HighCommPodFilter

MODULE = """
from typing import Literal
from pydantic import BaseModel, Field

class Inner(BaseModel, extra="forbid"):
    weight: int = Field(description="how much")

class Wide:
    name = "Wide"
    class Args(BaseModel, extra="forbid"):
        address: str
        mode: Literal["low", "high"] = "low"
        limit: int | None = None
        rules: list[Inner] = []
        best: Inner = Inner(weight=3)
    def __init__(self, args): ...
    def pre_filter(self, state, pod, nodes): ...
    def score(self, state, pod, node): ...
"""
ENTRY_POINTS = """
[kubextend.plugins]
Wide = announced_here:Wide
Broken = announced_here:Absent
"""


def of_the_announced_package(group: str) -> list[EntryPoint]:
    """What is installed in this environment besides is none of these tests' business."""
    found = entry_points(group=group)
    return [each for each in found if each.dist is not None and each.dist.name == "announced"]


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    site = tmp_path / "site"
    information = site / "announced-1.5.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: announced\nVersion: 1.5\n")
    (information / "entry_points.txt").write_text(ENTRY_POINTS)
    (site / "announced_here.py").write_text(MODULE)
    monkeypatch.syspath_prepend(site)
    monkeypatch.setattr(discovery, "entry_points", of_the_announced_package)
    yield
    sys.modules.pop("announced_here", None)


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli.main, [str(argument) for argument in arguments])


def test_plugins_lists_names_points_sources_and_arguments() -> None:
    result = run("plugins")
    lines = [line.split() for line in result.stdout.splitlines()]
    assert ["Wide", "preFilter,", "score", "package", "announced", "1.5"] in lines
    assert ["HighCommPodFilter", "filter", "kubextend"] in lines
    assert ["Wide", "address", "string", "required"] in lines
    assert ["Wide", "mode", '"low"', "or", '"high"', '"low"'] in lines
    assert ["Wide", "limit", "integer", "or", "null", "null"] in lines
    assert ["Wide", "rules[].weight", "integer", "required"] in lines
    assert ["Wide", "best", "object", '{"weight":', "3}"] in lines
    assert result.exit_code == 0


def test_a_plugin_that_cannot_be_imported_is_listed_with_the_reason() -> None:
    result = run("plugins")
    assert result.stderr == (
        "error: Broken: package announced 1.5: announced_here has no Absent (plugins there: Wide)\n"
    )


def test_plugins_are_listed_for_machines_too() -> None:
    listed = {each["name"]: each for each in json.loads(run("plugins", "--output=json").stdout)}
    assert listed["Broken"]["error"].startswith("package announced 1.5")
    wide = listed["Wide"]
    assert (wide["source"], wide["extensionPoints"]) == (
        "package announced 1.5",
        ["preFilter", "score"],
    )
    fields = {arg["name"]: arg for arg in wide["args"]}
    assert fields["address"] == {
        "name": "address",
        "type": "string",
        "default": None,
        "description": "",
        "required": True,
    }
    assert fields["rules[].weight"]["description"] == "how much"
    assert not fields["limit"]["required"]


def test_what_packages_announce_is_not_imported_by_check(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(discovery.config.DEFAULT)
    assert run("check", file).exit_code == 0
    assert "announced_here" not in sys.modules


def test_an_announced_plugin_takes_its_arguments_from_the_file(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    tree: dict[str, Any] = {
        "apiVersion": "kubextend.dev/v1alpha1",
        "kind": "ExtenderConfiguration",
        "profiles": [
            {
                "plugins": {"multiPoint": {"enabled": [{"name": "Wide"}]}},
                "pluginConfig": [{"name": "Wide", "args": {"address": "x", "limits": 1}}],
            }
        ],
    }
    file.write_text(json.dumps(tree))
    result = run("check", file)
    assert result.stderr.startswith(
        'error: profiles[0].pluginConfig[0].args.limits: unknown field "limits"'
    )
    del tree["profiles"][0]["pluginConfig"][0]["args"]["limits"]
    file.write_text(json.dumps(tree))
    assert "  preFilter: Wide\n  score: Wide (weight 1)\n" in run("check", file).stdout


def test_the_caller_adds_plugins_and_cannot_replace_any() -> None:
    class Mine:
        name = "Mine"

        def filter(self, state: object, pod: object, node: object) -> None: ...

    known = discovery.known_plugins({"Mine": Mine})
    assert known["Mine"].plugin_class is Mine
    assert known["HighCommPodFilter"].plugin_class is HighCommPodFilter
    assert discovery.known_plugins(IN_TREE)["LabelMatch"] == IN_TREE["LabelMatch"]
    assert discovery.known_plugins(known) is known
    assert "Wide" in known
    impostor = type("Impostor", (Mine,), {"name": "LabelMatch"})
    with pytest.raises(PluginUnavailableError, match="kubextend, given to kubextend by its caller"):
        discovery.known_plugins({"LabelMatch": impostor})


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("ZoneSpread", ("zone-spread", "zone_spread")),
        ("zone-spread", ("zone-spread", "zone_spread")),
        ("GPUShare", ("gpu-share", "gpu_share")),
        ("import", ("import", "import_plugin")),
    ],
)
def test_a_new_plugin_has_one_name_in_every_spelling(
    name: str, files: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("new-plugin", name)
    folder, module = files
    assert result.exit_code == 0
    assert (tmp_path / folder / "src" / module / "__init__.py").is_file()
    assert f"next: pip install -e {folder} && python -m pytest {folder}" in result.stdout


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("7up", "7up is no name for a plugin"),
        ("a b", "a b is no name for a plugin"),
        ("../up", "../up is no name for a plugin"),
        ("NodeName", "NodeName is a plugin of kube-scheduler: take another name"),
        ("LabelMatch", "LabelMatch is a plugin of kubextend: take another name"),
        ("Pydantic", "the package pydantic is installed already, and pip would replace it"),
    ],
)
def test_a_name_that_cannot_be_used_is_refused(name: str, message: str, tmp_path: Path) -> None:
    result = run("new-plugin", name, "--directory", tmp_path / "x")
    assert result.exit_code == 1
    assert message in result.stderr
    assert not (tmp_path / "x").exists()


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("mine")
    result = run("new-plugin", "Mine", "--directory", tmp_path)
    assert (result.exit_code, "is not empty" in result.stderr) == (1, True)
    assert [file.name for file in tmp_path.iterdir() if file.is_file()] == ["kept"]


MADE = """
class Picky:
    name = "Picky"
    def __init__(self, handle):
        ASKED
    def filter(self, state, pod, node): ...
"""
PICKY = """
apiVersion: kubextend.dev/v1alpha1
kind: ExtenderConfiguration
outOfTree: [picky:Picky]
profiles:
- plugins: {filter: {enabled: [{name: Picky}]}}
"""


def check_picky(code: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Result:
    """Return what ``kubextend check`` says of a configuration with the plugin in some code."""
    (folder / "picky.py").write_text(code)
    monkeypatch.syspath_prepend(folder)
    file = folder / "kubextend.yaml"
    file.write_text(PICKY)
    try:
        return CliRunner().invoke(cli.main, ["check", str(file)])
    finally:
        sys.modules.pop("picky", None)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (
            "raise ValueError('no\\n licence')",
            "cannot be made: ValueError: no licence (picky.py:5)\n",
        ),
        ("handle.pods()", "cannot be made: set needs_pods = True on Picky"),
    ],
)
def test_check_makes_the_plugins(
    asked: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = check_picky(MADE.replace("ASKED", asked), tmp_path, monkeypatch)
    assert result.exit_code == 1
    assert f'profile "default-scheduler": plugin "Picky" {says}' in result.stderr
    assert "Traceback" not in result.output


def test_check_notes_a_method_that_is_probably_mistyped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    typo = MADE.replace("ASKED", "...") + "    def post_fliter(self): ...\n"
    result = check_picky(typo, tmp_path, monkeypatch)
    assert result.exit_code == 0, result.stderr
    assert (
        "note: profiles[0].plugins: Picky: kubextend never calls post_fliter: rename it to "
    ) in result.stdout


def test_check_says_that_it_takes_the_file_without_an_option() -> None:
    for given in (["--config", "f.yaml"], ["--config=f.yaml"]):
        result = CliRunner().invoke(cli.main, ["check", *given])
        assert result.exit_code == 2
        assert "check takes the FILE itself, without --config" in result.stderr


def test_check_makes_plugins_with_a_client_where_there_is_a_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asks = MADE.replace("ASKED", "handle.kubernetes_client.select_header_accept([])")
    (tmp_path / "picky.py").write_text(asks)
    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "kubextend.yaml"
    file.write_text(f"{PICKY}cluster: {{}}\n")
    try:
        result = CliRunner().invoke(cli.main, ["check", str(file)])
    finally:
        sys.modules.pop("picky", None)
    assert result.exit_code == 0, result.stderr
