"""``kubextend filter`` and ``prioritize`` answer a recorded request, with no server."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.doors.command_line import Golden, configuration, enabled, profile, run, write

pytestmark = pytest.mark.usefixtures("in_a_folder")

RULES = {
    "filters": [{"nodeSelector": "disk != slow", "reason": "Disk is slow"}],
    "scores": [
        {"nodeSelector": "zone=a", "score": 30},
        {"nodeSelector": "disk in (ssd, nvme)", "score": 70},
    ],
}
ML = profile("ml", multiPoint=enabled(("LabelMatch", 2)), filter="HighCommPodFilter")
PROFILES = [
    ML | {"pluginConfig": [{"name": "LabelMatch", "args": RULES}]},
    {"schedulerName": "idle"},
]
RDMA = {"node.kubernetes.io/rdma-enabled": "true"}
NODES: dict[str, dict[str, str]] = {
    "plain": {},
    "slow": RDMA | {"disk": "slow", "zone": "a"},
    "near": RDMA | {"zone": "a"},
    "fast": RDMA | {"zone": "b", "disk": "nvme"},
    "best": RDMA | {"zone": "a", "disk": "ssd"},
}
ITEMS = [{"metadata": {"name": name, "labels": labels}} for name, labels in NODES.items()]


def config_file(**sections: Any) -> Path:
    return write(Path("config.json"), configuration(**{"profiles": PROFILES} | sections))


def request_of(scheduler: str = "ml", *, names_only: bool = False) -> Path:
    metadata = {"name": "train", "namespace": "team", "uid": "1", "labels": {"high-comm": "yes"}}
    pod = {"metadata": metadata, "spec": {"schedulerName": scheduler}}
    nodes = None if names_only else {"metadata": {}, "items": ITEMS}
    names = list(NODES) if names_only else None
    return write(Path("r.json"), {"Pod": pod, "Nodes": nodes, "NodeNames": names})


def kubectl_list(items: Any = ITEMS) -> Path:
    """Write nodes as ``kubectl get nodes -o json`` prints a list of them."""
    usual = {"apiVersion": "v1", "kind": "Node", "spec": {}, "status": {}}
    head = {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}}
    return write(Path("n.json"), head | {"items": [usual | each for each in items]})


@pytest.mark.parametrize("command", ["filter", "prioritize"])
def test_a_recorded_request_is_answered_as_a_table_or_as_the_json_that_the_server_sends(
    command: str, golden: Golden
) -> None:
    words: list[object] = [command, request_of(), "--config", config_file()]
    whole = run(*words)
    request_of(names_only=True)
    words += ["--nodes", kubectl_list()]
    names = run(*words)
    assert (names.stdout, names.stderr, names.exit_code) == (whole.stdout, "", 0)
    golden(f"cli/{command}.txt", names.stdout + run(*words, "--output", "json").stdout)


def test_nodes_of_a_file_have_the_details_that_a_plugin_declares(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = """
class Closed:
    name = "Closed"
    needs_details = True

    def filter(self, state, pod, node):
        from kubextend.framework import Status
        return Status.unschedulable("closed") if "closed" in node.annotations else None
"""
    write(tmp_path / "closed_nodes.py", plugin)
    monkeypatch.syspath_prepend(tmp_path)
    file = config_file(outOfTree=["closed_nodes:Closed"], profiles=[profile("ml", filter="Closed")])
    closed = {"metadata": {"name": "plain", "annotations": {"closed": ""}}}
    words = ("--config", file, "--nodes", kubectl_list([closed, *ITEMS[1:]]), "--output", "json")
    result = run("filter", request_of(names_only=True), *words)
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["FailedNodes"] == {"plain": "closed"}


def test_what_a_recorded_request_lacks_of_metrics_and_of_the_cluster_is_said() -> None:
    args = {"prometheusAddress": "http://127.0.0.1:1", "networkInterface": "eth0"}
    entry = {"name": "NetworkTraffic", "args": args}
    plugins = profile("ml", multiPoint=("NetworkTraffic", "HighCommPodFilter"))
    file = config_file(profiles=[plugins | {"pluginConfig": [entry]}])
    scored = run("prioritize", request_of(), "--config", file)
    assert scored.stderr.startswith("note: NetworkTraffic is not started for a recorded request")
    assert scored.stdout.splitlines()[1] == "plain  5"
    assert run("filter", request_of(), "--config", file).stderr == ""
    assert run("prioritize", request_of("other"), "--config", file).stderr == ""
    file = config_file(
        profiles=[profile("ml", multiPoint=("NodeResourceTopologyMatch", "PodState"))]
    )
    done = run("filter", request_of(), "--config", file)
    assert done.exit_code == 1
    resource = "topology.node.k8s.io/v1alpha2/noderesourcetopologies"
    assert f"note: NodeResourceTopologyMatch reads {resource}, which a" in done.stderr
    scored = run("prioritize", request_of(), "--config", file)
    assert "note: PodState reads pods, which a recorded request lacks" in scored.stderr


def test_without_a_configuration_the_default_filters_the_pods_of_the_default_scheduler() -> None:
    lines = run("filter", request_of("default-scheduler")).stdout.splitlines()
    assert lines[1] == "plain  rejected  Node does not support RDMA"
    assert lines[2] == "slow   kept"
    assert lines[-1] == "pod team/train, profile default-scheduler"


def test_a_profile_in_which_no_plugin_scores_is_said_to_have_none() -> None:
    words = ("prioritize", request_of("idle"), "--config", config_file())
    idle = run(*words)
    note = "note: no plugin scores in this profile, so no node has a score\n"
    assert (idle.stderr, idle.exit_code) == (note, 0)
    assert idle.stdout.splitlines()[1] == "plain  -"
    assert run(*words, "--output", "json").stderr == note


NO_LIST = "n.json has no items, so it is no list of nodes: `kubectl get nodes --output json` writes"


@pytest.mark.parametrize(
    ("nodes", "code", "error"),
    [
        (None, 2, "r.json has names only: give their nodes with --nodes"),
        ("{", 1, "n.json: byte 1: "),
        ({}, 1, NO_LIST),
        ({"Nodes": None, "NodeNames": list(NODES)}, 1, NO_LIST),
        ({"items": []}, 1, "5 of the 5 nodes of r.json are not in n.json\n"),
        ({"items": ITEMS[:3]}, 1, "2 of the 5 nodes of r.json are not in n.json\n"),
    ],
)
@pytest.mark.parametrize("command", ["filter", "prioritize"])
def test_names_without_their_nodes_are_refused(
    nodes: object, code: int, error: str, command: str
) -> None:
    given = [] if nodes is None else ["--nodes", write(Path("n.json"), nodes)]
    result = run(command, request_of(names_only=True), *given)
    assert (result.stdout, result.exit_code) == ("", code)
    assert f"Error: {error}" in result.stderr


def test_a_request_that_cannot_be_read_is_one_line_that_says_where() -> None:
    result = run("filter", write(Path("r.json"), '{"Pod": {"metadata": 3}}'))
    assert (result.stdout, result.exit_code) == ("", 1)
    assert result.stderr.startswith("Error: r.json: byte ")
    assert "Pod.metadata" in result.stderr
    assert result.stderr.count("\n") == 1
    for words in (["gone"], [request_of(), "--nodes", "gone"]):
        result = run("filter", *words)
        line = "Error: gone: cannot be read: No such file or directory\n"
        assert (result.stderr, result.exit_code) == (line, 1)


def test_an_answer_that_is_an_error_ends_the_command_with_1() -> None:
    request = write(Path("r.json"), {"Pod": {}, "Nodes": None, "NodeNames": None})
    as_table, as_json = run("filter", request), run("filter", request, "--output", "json")
    assert (as_table.stdout, as_table.exit_code) == ("", 1)
    assert (json.loads(as_json.stdout)["Nodes"], as_json.exit_code) == (None, 1)
    for result in (as_table, as_json):
        assert result.stderr.startswith("Error: the answer is an error: ")
