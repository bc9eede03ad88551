"""docs/ is executed: its plugin works, its tests pass, its commands print what it says."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.doors.command_line import ROOT, configuration, profile
from tests.doors.command_line import run as run_here
from tests.doors.configured_plugins import METHODS_OF_POINT
from tests.doors.promised_numbers import sentences_about_failures

from kubextend import core, testing
from kubextend.framework import CycleState, Handle, HeldPod, HeldPods, Status

DOCS = ROOT / "docs"
KUBEXTEND = Path(sys.executable).with_name("kubextend")
FIRST = (DOCS / "first-plugin.md").read_text()
RUFF = Path(sys.executable).with_name("ruff")
READMES = [*(ROOT / "deploy").rglob("README.md"), ROOT / "benches/README.md"]
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *READMES])
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]


def blocks(language: str, page: str = FIRST) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)


def write_blocks(found: list[str], folder: Path) -> None:
    """Write blocks of a page, each under the name in its first line."""
    for block in found:
        name = re.match(r"# (\S+)\n", block)
        (folder / (name[1] if name else "program.py")).write_text(block)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the page about the first plugin."""
    folder = tmp_path_factory.mktemp("first-plugin")
    write_blocks(blocks("python") + blocks("yaml"), folder)
    return folder


def run(folder: Path, *command: str | Path) -> str:
    options: Any = {"capture_output": True, "text": True, "timeout": 600}
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(command, check=False, cwd=folder, env=environment, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_tests_of_the_pages_pass(folder: Path, tmp_path: Path) -> None:
    pytest_run = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert "3 passed" in run(folder, *pytest_run, "-W", "error", "test_team_nodes.py")
    write_blocks(blocks("python", (DOCS / "plugin-api.md").read_text()), tmp_path)
    assert "2 passed" in run(tmp_path, *pytest_run)


def shell_line(start: str) -> str:
    """Return the one line of the page's shell blocks that begins so."""
    lines = "".join(blocks("sh")).splitlines()
    (line,) = [line for line in lines if line.startswith(start)]
    return line


@pytest.mark.slow
def test_the_commands_print_what_the_page_says(folder: Path) -> None:
    line = shell_line("kubextend scheduler-config").removeprefix("kubextend ")
    arguments, _, file = line.partition(" > ")
    printed = run(folder, KUBEXTEND, *arguments.split())
    (folder / file).write_text(printed)
    # The scheduler of the page leaves the one of the cluster alone.
    written = yaml.safe_load(printed)
    assert [profile["schedulerName"] for profile in written["profiles"]] == ["team-scheduler"]
    assert written["leaderElection"] == {"leaderElect": False}
    assert written["clientConnection"]["kubeconfig"] == "kind.kubeconfig"
    assert shell_line("kubextend serve").endswith("--kubeconfig kind.kubeconfig")
    pods = list(yaml.safe_load_all((folder / "pods.yaml").read_text()))
    assert {pod["spec"]["schedulerName"] for pod in pods} == {"team-scheduler"}
    found = [block.partition("\n") for block in blocks("console")]
    assert len(found) == 2
    for command, _, printed in found:
        words = command.removeprefix("$ kubextend ").split()
        assert run(folder, KUBEXTEND, *words) == printed


@pytest.mark.slow
def test_two_profiles_give_the_scheduler_configuration_of_the_page(tmp_path: Path) -> None:
    page = blocks("yml", (DOCS / "configuration.md").read_text())
    given, written, *_ = [block.partition("\n") for block in page]
    assert (given[0], written[0]) == ("# kubextend.yaml", "# kube-scheduler.yaml")
    (tmp_path / "kubextend.yaml").write_text(given[2])
    printed = run(tmp_path, KUBEXTEND, "scheduler-config", "--config", "kubextend.yaml")
    lines = [line for line in printed.splitlines() if not line.lstrip().startswith("#")]
    assert lines == written[2].splitlines()


@pytest.mark.slow
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


def anchors(page: Path) -> set[str]:
    """Return the headings of a page as links name them."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_a_page_links_only_to_what_is_there(page: Path) -> None:
    links = re.findall(r"\]\(([^)]+)\)", page.read_text())
    for link in (link for link in links if "://" not in link):
        path, _, anchor = link.partition("#")
        there = page.parent / path if path else page
        assert there.exists(), link
        assert not anchor or anchor in anchors(there), link


@pytest.mark.slow
def test_python_on_a_page_is_formatted_as_the_code_is(tmp_path: Path) -> None:
    for name, page in zip(NAMES, PAGES, strict=True):
        for number, block in enumerate(blocks("python", page.read_text())):
            (tmp_path / f"{name.replace('/', '.')}-{number}.py").write_text(block)
    run(tmp_path, RUFF, "format", "--check", "--diff", "--config", ROOT / "pyproject.toml", ".")


def test_the_numbers_of_failures_are_those_of_the_code() -> None:
    text = " ".join((DOCS / "failures.md").read_text().split())
    assert [each for each in sentences_about_failures() if each not in text] == []


def test_policies_are_written_as_the_page_says() -> None:
    pages = blocks("yaml", (DOCS / "failures.md").read_text())
    entries = [entry for block in pages for entry in yaml.safe_load(block)["pluginConfig"]]
    for entry in entries:
        one = profile(filter=entry["name"]) | {"pluginConfig": [entry]}
        checked = run_here("check", "-", given=json.dumps(configuration(profiles=[one])))
        assert "failurePolicy" not in checked.stderr
    assert [entry["failurePolicy"] for entry in entries] == ["Ignore"]


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
    # A native plugin sees the core's own types.
    text = re.sub(r"^```rust\n.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    named = set(re.findall(rf"(?<![\w.]){prefix}\.(?!kubernetes)([a-z]\w*)", text))
    # What a Handle holds is set when it is made.
    there = set(dir(kind)) | set(Handle.__init__.__annotations__)
    assert named - there == set()


def test_the_native_plugin_of_the_page_has_the_methods_and_the_line_of_the_core() -> None:
    page = (DOCS / "plugins.md").read_text()
    core_plugins = (ROOT / "rust/core/src/plugins/mod.rs").read_text()
    shown, table = re.findall(r"^```rust\n(.*?)^```$", page, flags=re.DOTALL | re.MULTILINE)
    method = r"fn (\w+)\(&self, (.*?)\) -> ([^\s;]+)"

    def signatures(text: str) -> set[tuple[str, str, str]]:
        found = re.findall(method, text)
        return {(name, re.sub(r"\w+: ", "", taken), gives) for name, taken, gives in found}

    assert signatures(shown) == {each for each in signatures(core_plugins) if each[0] == "filter"}
    line = r"^    \w+::\w+ \{ [\w ]+ \} by \w+::default\(\);$"
    assert re.search(line, table, flags=re.MULTILINE)
    assert re.search(line, core_plugins, flags=re.MULTILINE)


def metric_names() -> set[str]:
    """Return the names of the families that any module declares, but those of metric sources."""
    text = "".join(path.read_text() for path in (ROOT / "python/kubextend").rglob("*.py"))
    declared = r'(?:Family|ScrapedCounter|ScrapedGauge|writes_counted)\(\s*"(kubextend_\w+)"'
    names = set(re.findall(declared, text))
    return {name for name in names if not name.startswith("kubextend_prometheus_")}


def test_the_pages_name_every_metric_and_no_other() -> None:
    page = (DOCS / "operating.md").read_text() + (DOCS / "queue.md").read_text()
    named: set[str] = set()
    for cell in re.findall(r"^\| (`kubextend_.*?) \|", page, re.MULTILINE):
        first, *more = re.findall(r"`(\w+)(?:\{[^`]*\})?`", cell)
        first = first.removesuffix("_total")
        stem = first.rpartition("_")[0]
        rest = {name.removesuffix("_total") for name in more}
        named |= {first} | {stem + name if name.startswith("_") else name for name in rest}
    assert named == metric_names()


def nav_files(entry: Any) -> list[str]:
    if isinstance(entry, str):
        return [entry]
    below = entry.values() if isinstance(entry, dict) else entry
    return [file for each in below for file in nav_files(each)]


def test_the_site_has_every_page_in_its_navigation_and_no_other() -> None:
    files = nav_files(yaml.safe_load((DOCS / "mkdocs.yml").read_text())["nav"])
    assert sorted(files) == NAMES


TASKS = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_a_page_names_tasks_that_make_has_and_says_at_its_top_who_it_is_for(page: Path) -> None:
    text = page.read_text()
    assert set(re.findall(r"(?:`|^)make ([a-z0-9-]+)", text, re.MULTILINE)) <= TASKS
    title, lead, *_ = text.split("\n\n")
    assert title.startswith("# ")
    assert lead.startswith("For ") or page == ROOT / "README.md"


@pytest.mark.parametrize(
    ("page", "at_least"),
    [
        ("SECURITY.md", 30),
        ("docs/operating.md", 5),
        ("docs/failures.md", 1),
        ("docs/upgrading.md", 10),
        ("docs/autoscalers.md", 6),
    ],
)
def test_a_page_names_only_tests_that_there_are(page: str, at_least: int) -> None:
    named = re.findall(r"`(test_\w+)`", (ROOT / page).read_text())
    tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    assert {name for name in named if f"def {name}(" not in tests} == set()
    assert len(named) >= at_least


@pytest.mark.parametrize(
    "path", sorted((ROOT / ".github/workflows").iterdir()), ids=lambda p: p.name
)
def test_a_workflow_calls_the_makefile_or_a_trial_alone_and_pins_its_actions(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text())
    trial = ".venv/bin/python -m tests.trials ${{ matrix.trial }}"
    for job in workflow["jobs"].values():
        named = job.get("strategy", {}).get("matrix", {}).get("task", [])
        for step in job["steps"]:
            if "uses" in step:
                assert re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40}", step["uses"])
            elif step["run"] != trial:
                command, task = step["run"].split(maxsplit=1)
                assert command == "make"
                assert set(named or [task]) <= TASKS
    assert workflow["permissions"] == {"contents": "read"}


def test_the_plugin_of_the_page_about_state_counts_pods_in_all_zones() -> None:
    [block] = blocks("python", (DOCS / "readable-fields.md").read_text())
    names: dict[str, Any] = {}
    exec(block, names)
    zone = {name: {names["ZONE"]: name[0]} for name in ("a1", "a2", "b1")} | {"none": {}}
    web = {"app": "web"}
    pods = [
        testing.make_pod(f"p{number}", labels=web, node_name=node)
        for number, node in enumerate(["a1", "a2", "a2", "b1"])
    ]
    cluster = testing.Cluster(names["MaxPerZone"], nodes=zone, pods=pods)
    new = testing.make_pod("new", labels=web)
    assert cluster.filter(new).kept == ("b1", "none")
    assert cluster.filter(new, ["a1"]).kept == ()
    assert cluster.filter(testing.make_pod("other")).kept == tuple(zone)


def test_the_page_about_state_names_each_field_that_plugins_can_read() -> None:
    page = (DOCS / "readable-fields.md").read_text()
    no_field = {"truncated", "held_bytes", "matches", "pods_read"}
    for kind in (core.Pod, core.NodeInfo):
        fields = {name for name in dir(kind) if not name.startswith("_")} - no_field
        missing = {name for name in fields if not re.search(rf"`{name}\b", page)}
        assert not missing, kind


# The examples of these pages run from the root of the repository.
EXAMPLES = ("README.md", "docs/library.md", "docs/http.md", "docs/operating.md", "docs/plugins.md")


def of_examples(language: str) -> list[str]:
    return [block for page in EXAMPLES for block in blocks(language, (ROOT / page).read_text())]


def commands() -> list[tuple[str, str]]:
    """Each command of the console blocks, and what the page says that it prints."""
    return [
        (line, printed)
        for block in of_examples("console")
        for line, printed in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
    ]


@pytest.mark.parametrize("code", of_examples("python"))
def test_a_python_example_runs(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    exec(compile(code, "page.md", "exec"), {})


@pytest.mark.parametrize(("line", "printed"), commands())
def test_a_command_prints_what_the_page_says(
    line: str, printed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    command, _, written = line.partition(" > ")
    program, *arguments = shlex.split(command)
    result = run_here(*arguments)
    assert program == "kubextend"
    assert result.exit_code == 0, result.output
    if written:
        assert yaml.safe_load(result.stdout)["kind"] == "KubeSchedulerConfiguration"
    else:
        assert result.stdout == printed


def test_there_are_examples_of_every_kind() -> None:
    assert len(blocks("python", (ROOT / "README.md").read_text())) == 1
    named = {line.split()[1] for line, _ in commands()}
    assert named == {"filter", "prioritize", "check", "scheduler-config"}
