"""A package of one's own, installed as pip installs it, is found, listed, configured and tested."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.doors.command_line import ROOT, write

HELLO_WORLD = ROOT / "deploy" / "examples" / "hello-world"
QUEUE_SORT = ROOT / "deploy" / "examples" / "queue-sort"
KUBEXTEND = Path(sys.executable).with_name("kubextend")
Run = Callable[..., subprocess.CompletedProcess[str]]
pytestmark = pytest.mark.slow


def run_in(folder: Path, site: Path | None) -> Run:
    """Runs a program that sees what is installed in ``site`` besides kubextend."""
    folders = [str(site or ""), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, folders))}

    def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
        options: Any = {"capture_output": True, "text": True, "timeout": 600}
        return subprocess.run(command, check=False, cwd=folder, env=environment, **options)

    return run


def install(package: Path, site: Path) -> None:
    """uv has the build backend in itself, so nothing is downloaded."""
    uv = Path(sys.executable).with_name("uv")
    options = ["--offline", "--no-deps", "--no-cache", "--quiet", "--target", str(site)]
    command = [uv, "pip", "install", "--python", sys.executable, *options, package]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr


def own_tests_pass(package: Path, run: Run) -> None:
    options = ("-q", "-W", "error", "-p", "no:cacheprovider")
    done = run(sys.executable, "-m", "pytest", *options, package)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def hello_world(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("hello-world")
    install(HELLO_WORLD, folder / "site")
    return run_in(folder, folder / "site")


def test_hello_world_passes_its_own_tests(hello_world: Run) -> None:
    own_tests_pass(HELLO_WORLD, hello_world)


def test_hello_world_is_found_by_its_package_and_listed_with_its_arguments(
    hello_world: Run,
) -> None:
    done = hello_world(KUBEXTEND, "plugins", "--output", "json")
    assert (done.stderr, done.returncode) == ("", 0)
    (plugin,) = [each for each in json.loads(done.stdout) if each["name"] == "HelloWorldPlugin"]
    assert plugin["source"] == "package hello-world 0.1.0"
    assert (plugin["extensionPoints"], plugin["error"]) == (["score"], "")
    assert [(arg["name"], arg["type"], arg["default"]) for arg in plugin["args"]] == [
        ("xxx", "string", "hello"),
        ("yyy", "string", "world"),
        ("zzz", "integer", 10),
    ]


def test_queue_sort_passes_its_own_tests_and_turns_the_queue_on_as_its_page_says(
    tmp_path: Path,
) -> None:
    install(QUEUE_SORT, tmp_path / "site")
    queue_sort = run_in(tmp_path, tmp_path / "site")
    own_tests_pass(QUEUE_SORT, queue_sort)
    page = (QUEUE_SORT / "README.md").read_text()
    (printed,) = re.findall(
        r"^```console\n\$ kubextend check \S+\n(.*?)^```$", page, re.DOTALL | re.MULTILINE
    )
    done = queue_sort(KUBEXTEND, "check", QUEUE_SORT / "kubextend.yaml")
    assert (done.stdout, done.stderr, done.returncode) == (printed, "", 0)


@pytest.mark.parametrize(
    ("file", "plugin"),
    [("kubextend.yaml", "HelloWorldPlugin"), ("out-of-tree.yaml", "HelloWorldAtOnce")],
)
def test_hello_world_is_checked_and_answers_a_recorded_request(
    hello_world: Run, tmp_path: Path, file: str, plugin: str
) -> None:
    done = hello_world(KUBEXTEND, "check", HELLO_WORLD / file)
    assert done.stdout.endswith(f"profile hello-scheduler:\n  score: {plugin} (weight 15)\n")
    labels = {"ssd": {"disk": "ssd"}, "hdd": {"disk": "hdd"}, "bare": {}}
    nodes = {"items": [{"metadata": {"name": of, "labels": has}} for of, has in labels.items()]}
    metadata = {"name": "p", "namespace": "n", "uid": "1"}
    pod = {"metadata": metadata, "spec": {"schedulerName": "hello-scheduler"}}
    request = write(tmp_path / "r.json", {"Pod": pod, "Nodes": nodes, "NodeNames": None})
    done = hello_world(KUBEXTEND, "prioritize", request, "--config", HELLO_WORLD / file)
    # 100, 25 and 0 points, times 15, a tenth of it.
    scores = "NODE  SCORE\nssd   150\nhdd   38\nbare  0\n"
    assert done.stdout == scores + "pod n/p, profile hello-scheduler\n"


@pytest.mark.parametrize("point", ["score", "filter"])
def test_a_new_plugin_is_installed_passes_its_own_test_and_is_checked(
    point: str, tmp_path: Path
) -> None:
    package, site = tmp_path / "package", tmp_path / "site"
    done = run_in(tmp_path, None)(
        KUBEXTEND, "new-plugin", "zone-spread", "--point", point, "--directory", package
    )
    assert (done.stderr, done.returncode) == ("", 0)
    install(package, site)
    run = run_in(tmp_path, site)
    own_tests_pass(package, run)
    done = run(KUBEXTEND, "check", package / "kubextend.yaml")
    assert (done.stderr, done.returncode) == ("", 0)
    assert f"  {point}: ZoneSpread" in done.stdout
    page = (package / "README.md").read_text()
    (words,) = re.findall(r"^kubextend (scheduler-config .*) > .*$", page, re.MULTILINE)
    command = words.replace("kubextend.yaml", str(package / "kubextend.yaml")).split()
    written = yaml.safe_load(run(KUBEXTEND, *command).stdout)
    # The cluster's own scheduler goes on with its pods and its lease.
    assert [each["schedulerName"] for each in written["profiles"]] == ["zone-spread-scheduler"]
    assert written["leaderElection"] == {"leaderElect": False}
    assert written["clientConnection"]["kubeconfig"] == "~/.kube/config"
    assert run(sys.executable, "-m", "mypy", "--strict", package / "src").returncode == 0
