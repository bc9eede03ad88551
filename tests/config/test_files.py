"""Files that a configuration names: kubextend needs them where it runs, and `check` does not."""

import json
from pathlib import Path

import pytest
from tests.doors.command_line import Tree, checked, configuration, profile, run, write

from kubextend import config
from kubextend.errors import ConfigError
from kubextend.plugins import IN_TREE

pytestmark = pytest.mark.usefixtures("in_a_folder")
MISSING = "cannot be read: No such file or directory"
TOKENS = "server.waitingPods.tokenFile"
HOME = "~ is not expanded here"
LOOKED = "looked for {here}/secrets/tokens"


@pytest.mark.parametrize(
    ("sections", "line"),
    [
        (
            {"cluster": {"kubeconfig": "~/.kube/config"}},
            f'cluster.kubeconfig: {MISSING}\n  found: "~/.kube/config"\n  hint: {HOME}\n',
        ),
        (
            {"cluster": {"kubeconfig": "/"}},
            'cluster.kubeconfig: cannot be read: Is a directory\n  found: "/"\n',
        ),
        (
            {"server": {"tls": {"certFile": "/nowhere/c", "keyFile": "/dev/null"}}},
            f'server.tls.certFile: {MISSING}\n  found: "/nowhere/c"\n',
        ),
        (
            {"server": {"waitingPods": {"tokenFile": "secrets/tokens"}}},
            f'{TOKENS}: {MISSING}\n  found: "secrets/tokens"\n  hint: {LOOKED}\n',
        ),
    ],
)
def test_serve_refuses_a_file_that_cannot_be_read(
    sections: Tree, line: str, tmp_path: Path
) -> None:
    file = write(tmp_path / "kubextend.yaml", configuration(**sections))
    refused = run("serve", "--config", file)
    assert refused.exit_code == 1
    assert refused.stderr == f"error: {line.format(here=tmp_path)}"


@pytest.mark.parametrize(
    ("file", "note"),
    [
        ("/nowhere/tokens", f"/nowhere/tokens {MISSING}"),
        ("secrets/tokens", f"secrets/tokens {MISSING}; {LOOKED}"),
        ("~/tokens", f"~/tokens {MISSING}; {HOME}"),
    ],
)
def test_check_notes_a_file_that_kubextend_will_need(file: str, note: str, tmp_path: Path) -> None:
    server = {"waitingPods": {"tokenFile": file}}
    result = checked({"cluster": {}, "profiles": [profile(permit="Gang")], "server": server})
    assert result.exit_code == 0, result.stderr
    needed = f"{note.format(here=tmp_path)}; `kubextend serve` will need it"
    assert f"note: {TOKENS}: {needed}\n" in result.stdout


@pytest.mark.parametrize("words", ["serve --config", "filter - --config", "check"])
def test_a_configuration_that_is_not_there_is_named(words: str) -> None:
    result = run(*words.split(), "/nowhere/kubextend.yaml")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"error: /nowhere/kubextend.yaml: {MISSING}\n"


def test_a_configuration_may_be_json_and_come_from_standard_input(tmp_path: Path) -> None:
    text = json.dumps(configuration())
    there = run("check", write(tmp_path / "config.json", text))
    assert there.exit_code == 0
    assert run("check", "-", given=text).stdout == there.stdout
    bad = run("check", "-", given="kind: [")
    assert (bad.exit_code, bad.stdout) == (1, "")
    assert bad.stderr.startswith("error: standard input: line 1")


def test_without_a_file_the_rdma_filter_serves_the_default_scheduler_whole_nodes() -> None:
    default = run("check", "-", given=config.DEFAULT)
    assert default.stdout == run("check", "-", given=json.dumps(configuration())).stdout
    assert "called at: http://127.0.0.1:8888\nverbs: filter, preempt\n" in default.stdout


def test_values_of_the_caller_count_before_those_of_the_file(tmp_path: Path) -> None:
    kubeconfig = write(tmp_path / "kubeconfig", {})
    overrides = {"server.host": "localhost", "server.port": 1234}
    loaded = config.load(None, known=IN_TREE, overrides=overrides)
    assert (loaded.server.host, loaded.server.port) == ("localhost", 1234)
    # A kubeconfig from outside switches the cluster on.
    tree = configuration(cluster=None)
    other = config.parse(tree, known=IN_TREE, overrides={"cluster.kubeconfig": str(kubeconfig)})
    assert other.cluster == config.Cluster(kubeconfig=str(kubeconfig))
    with pytest.raises(ConfigError, match="kubeconfig"):
        config.parse(tree, known=IN_TREE, overrides={"cluster.kubeconfig": "/nowhere"})
