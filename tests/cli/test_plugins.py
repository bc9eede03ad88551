"""``plugins`` and ``new-plugin`` as a shell sees them, and what installed packages announce."""

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.doors.command_line import ROOT, Result, configuration, profile, run, write

from kubextend import config

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


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package ``announced`` is installed that announces two plugins, one of which is absent."""
    site = tmp_path / "site"
    information = site / "announced-1.5.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: announced\nVersion: 1.5\n")
    (information / "entry_points.txt").write_text(ENTRY_POINTS)
    (site / "announced_here.py").write_text(MODULE)
    monkeypatch.syspath_prepend(site)
    yield
    for module in ("announced_here", "picky"):
        sys.modules.pop(module, None)


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
    absent = "package announced 1.5: announced_here has no Absent (plugins there: Wide)"
    assert f"error: Broken: {absent}\n" in result.stderr
    assert result.exit_code == 0

    # For machines, too.
    listed = {each["name"]: each for each in json.loads(run("plugins", "--output=json").stdout)}
    assert listed["Broken"]["error"].startswith("package announced 1.5")
    wide = listed["Wide"]
    assert wide["source"] == "package announced 1.5"
    assert wide["extensionPoints"] == ["preFilter", "score"]
    fields = {arg["name"]: arg for arg in wide["args"]}
    address = {"type": "string", "default": None, "description": "", "required": True}
    assert fields["address"] == {"name": "address"} | address
    assert fields["rules[].weight"]["description"] == "how much"
    assert not fields["limit"]["required"]


def test_check_imports_no_announced_plugin_that_nobody_names() -> None:
    assert run("check", "-", given=config.DEFAULT).exit_code == 0
    # Not even for a hint.
    misspelt = configuration(profiles=[profile(score="Wida")])
    assert "did you mean Wide?" in run("check", "-", given=json.dumps(misspelt)).stderr
    assert "announced_here" not in sys.modules


@pytest.mark.parametrize("point", ["filter", "multiPoint"])
def test_check_says_where_a_plugin_is_named_that_cannot_be_imported(point: str) -> None:
    tree = configuration(profiles=[profile(**{point: "Broken"})])
    assert run("check", "-", given=json.dumps(tree)).stderr.startswith(
        f"error: profiles[0].plugins.{point}.enabled[0].name: package announced 1.5: "
        "announced_here has no Absent"
    )


def test_an_announced_plugin_takes_its_arguments_from_the_file() -> None:
    def checked(args: Any) -> Result:
        one = {**profile(multiPoint="Wide"), "pluginConfig": [{"name": "Wide", "args": args}]}
        return run("check", "-", given=json.dumps(configuration(profiles=[one])))

    assert checked({"address": "x", "limits": 1}).stderr.startswith(
        'error: profiles[0].pluginConfig[0].args.limits: unknown field "limits"'
    )
    assert "  preFilter: Wide\n  score: Wide (weight 1)\n" in checked({"address": "x"}).stdout


@pytest.mark.parametrize(
    ("name", "folder", "module"),
    [
        ("ZoneSpread", "zone-spread", "zone_spread"),
        ("zone-spread", "zone-spread", "zone_spread"),
        ("GPUShare", "gpu-share", "gpu_share"),
        ("import", "import", "import_plugin"),
    ],
)
def test_a_new_plugin_has_one_name_in_every_spelling(
    name: str, folder: str, module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("new-plugin", name)
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


def test_a_new_plugin_overwrites_nothing(tmp_path: Path) -> None:
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


MADE_BADLY = 'profile "default-scheduler": plugin "Picky" cannot be made:'
MISTYPED = "note: profiles[0].plugins: Picky: kubextend never calls post_fliter: rename it to "


@pytest.mark.parametrize(
    ("asked", "sections", "code", "says"),
    [
        (
            *("raise ValueError('no\\n licence')", {}, 1),
            f"{MADE_BADLY} ValueError: no licence (picky.py:5)\n",
        ),
        ("handle.pods()", {}, 1, f"{MADE_BADLY} set needs_pods = True on Picky"),
        # There is a client where there is a cluster.
        ("handle.kubernetes_client.select_header_accept([])", {"cluster": {}}, 0, "Picky"),
        ("...\n    def post_fliter(self): ...", {}, 0, MISTYPED),
    ],
)
def test_check_makes_the_plugins_and_notes_a_method_that_is_probably_mistyped(
    asked: str, sections: Any, code: int, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "picky.py", MADE.replace("ASKED", asked))
    monkeypatch.syspath_prepend(tmp_path)
    plugin = {"outOfTree": ["picky:Picky"], "profiles": [profile(filter="Picky")]}
    result = run("check", "-", given=json.dumps(configuration(**plugin, **sections)))
    assert result.exit_code == code, result.stderr
    assert says in result.output
    assert "Traceback" not in result.output


# Source: https://packaging.python.org/en/latest/specifications/direct-url-data-structure/
@pytest.mark.slow
@pytest.mark.parametrize(
    ("origin", "requirement"),
    [
        (None, None),
        ({"url": "file:///home/me", "dir_info": {"editable": True}}, "file:///home/me"),
        (
            {"url": "file:///tmp/k.whl", "archive_info": {"hash": f"sha256={'a' * 64}"}},
            f"file:///tmp/k.whl#sha256={'a' * 64}",
        ),
        (
            {"url": "https://git.example/k.git", "vcs_info": {"vcs": "git", "commit_id": "b" * 40}},
            f"git+https://git.example/k.git@{'b' * 40}",
        ),
    ],
)
def test_a_new_plugin_depends_on_the_kubextend_that_wrote_it(
    origin: dict[str, Any] | None, requirement: str | None, tmp_path: Path
) -> None:
    # Python finds what is on PYTHONPATH before the package of this environment.
    record = tmp_path / "site" / "kubextend-0.1.0.dist-info"
    record.mkdir(parents=True)
    (record / "METADATA").write_text("Metadata-Version: 2.4\nName: kubextend\nVersion: 0.1.0\n")
    if origin is not None:
        write(record / "direct_url.json", origin)
    command = [
        sys.executable,
        "-m",
        "kubextend",
        "new-plugin",
        "Mine",
        "--directory",
        tmp_path / "p",
    ]
    environment = os.environ | {"PYTHONPATH": str(record.parent)}
    subprocess.run(command, env=environment, check=True, capture_output=True)
    text = (tmp_path / "p" / "pyproject.toml").read_text()
    needed = [] if requirement is None else [f"kubextend @ {requirement}"]
    assert tomllib.loads(text)["project"]["dependencies"] == [*needed, "pydantic>=2"]
    unknown = "# kubextend is not here: it does not know where it was installed from"
    assert (unknown in text) is (requirement is None)


def test_no_example_depends_on_a_name_that_anybody_may_register() -> None:
    projects = [*ROOT.joinpath("deploy").rglob("pyproject.toml")]
    named = [tomllib.loads(path.read_text())["project"]["dependencies"] for path in projects]
    assert len(projects) == 2
    assert [name for each in named for name in each if name.startswith("kubextend")] == []
    texts = [*ROOT.glob("*.md"), *ROOT.joinpath("docs").rglob("*.md")]
    texts += [path for path in ROOT.joinpath("deploy").rglob("*") if path.is_file()]
    bare = re.compile(rb"\b(?:pip|uv|pipx) (?!.*--no-index).*install .*\bkubextend(?![-./@])")
    assert [path for path in texts if bare.search(path.read_bytes())] == []
