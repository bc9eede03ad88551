"""docs/ is executed: its plugin works, its tests pass, its commands print what it says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kubextend import core, testing
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.handle import Handle, HeldPod, HeldPods
from kubextend.framework.plugin import METHODS_OF_POINT
from kubextend.framework.status import Status

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
KUBEXTEND = Path(sys.executable).with_name("kubextend")
FIRST = (DOCS / "first-plugin.md").read_text()
MOST_LINES = 15


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", FIRST, re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the page, each under the name in its first line."""
    folder = tmp_path_factory.mktemp("first-plugin")
    for block in blocks("python") + blocks("yaml"):
        name = re.match(r"# (\S+)\n", block)
        (folder / (name[1] if name else "program.py")).write_text(block)
    return folder


def run(folder: Path, *command: str | Path) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_first_plugin_has_at_most_15_lines() -> None:
    plugin = blocks("python")[0].splitlines()[1:]
    assert len([line for line in plugin if line]) <= MOST_LINES


def test_the_tests_of_the_first_plugin_pass(folder: Path) -> None:
    options = ["-q", "-W", "error", "-p", "no:cacheprovider"]
    printed = run(folder, sys.executable, "-m", "pytest", *options, "test_team_nodes.py")
    assert "3 passed" in printed


def test_the_commands_print_what_the_page_says(folder: Path) -> None:
    (block,) = blocks("console")
    command, _, printed = block.partition("\n")
    words = command.removeprefix("$ kubextend ").split()
    assert run(folder, KUBEXTEND, *words) == printed
    assert "multiPoint" not in run(folder, KUBEXTEND, "scheduler-config", "--config", words[-1])


def test_the_program_makes_an_application(folder: Path) -> None:
    # The service account and the kubeconfig of the page are not there: whole nodes will do.
    config = (folder / "kubextend.yaml").read_text().replace("cluster: {}\n", "")
    elsewhere = folder / "program"
    elsewhere.mkdir()
    (elsewhere / "kubextend.yaml").write_text(config)
    (elsewhere / "team_nodes.py").write_text((folder / "team_nodes.py").read_text())
    program = (folder / "program.py").read_text() + "print(len(application.routes) > 0)\n"
    (elsewhere / "program.py").write_text(program)
    assert run(elsewhere, sys.executable, "program.py") == "True\n"


def test_the_reference_has_every_point_and_method_and_no_other() -> None:
    text = (DOCS / "extension-points.md").read_text().partition("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)) == set(METHODS_OF_POINT)
    methods = {method for each in METHODS_OF_POINT.values() for method in each}
    assert set(re.findall(r"`(\w+)\(…", text)) == methods | {"normalize_score"}


@pytest.mark.parametrize("page", sorted(path.name for path in DOCS.glob("*.md")))
def test_a_page_links_only_to_what_is_there(page: str) -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", (DOCS / page).read_text())
    assert [link for link in links if "://" not in link and not (DOCS / link).exists()] == []


@pytest.mark.parametrize(
    ("kind", "prefix"),
    [
        (core.Pod, "pod"),
        (core.NodeInfo, "node"),
        (core.Nodes, "nodes"),
        (Handle, "handle"),
        (HeldPods, "waiting_pods"),
        (HeldPod, "held"),
        (CycleState, "state"),
        (Status, "Status"),
        (testing, "testing"),
        (core, "core"),
    ],
)
def test_the_pages_name_only_what_there_is(kind: object, prefix: str) -> None:
    text = "".join(path.read_text() for path in DOCS.glob("*.md"))
    named = set(re.findall(rf"(?<![\w.]){prefix}\.([a-z]\w*)", text))
    # What a Handle holds is set when it is made.
    there = set(dir(kind)) | set(Handle.__init__.__annotations__)
    assert named - there == set()
