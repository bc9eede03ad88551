"""``kubextend filter`` and ``prioritize`` answer a recorded request, with no server."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.doors.command_line import configuration, run, write

CONFIG = """\
apiVersion: kubextend.dev/v1alpha1
kind: ExtenderConfiguration
profiles:
- schedulerName: ml
  plugins:
    multiPoint:
      enabled:
      - {name: LabelMatch, weight: 2}
    filter:
      enabled:
      - name: HighCommPodFilter
  pluginConfig:
  - name: LabelMatch
    args:
      filters:
      - {nodeSelector: "disk != slow", reason: Disk is slow}
      scores:
      - {nodeSelector: zone=a, score: 30}
      - {nodeSelector: "disk in (ssd, nvme)", score: 70}
- schedulerName: idle
"""
RDMA = {"node.kubernetes.io/rdma-enabled": "true"}
NODES = {
    "plain": {},
    "slow": RDMA | {"disk": "slow", "zone": "a"},
    "near": RDMA | {"zone": "a"},
    "fast": RDMA | {"zone": "b", "disk": "nvme"},
    "best": RDMA | {"zone": "a", "disk": "ssd"},
}


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    file = tmp_path / "config.yaml"
    file.write_text(CONFIG)
    return file


def request_for(scheduler: str, *, names_only: bool, nodes: Any = NODES) -> dict[str, Any]:
    items = [{"metadata": {"name": name, "labels": labels}} for name, labels in nodes.items()]
    metadata = {"name": "train", "namespace": "team", "uid": "1", "labels": {"high-comm": "yes"}}
    return {
        "Pod": {"metadata": metadata, "spec": {"schedulerName": scheduler}},
        "Nodes": None if names_only else {"metadata": {}, "items": items},
        "NodeNames": list(nodes) if names_only else None,
    }


def kubectl_list(nodes: dict[str, dict[str, str]]) -> dict[str, Any]:
    """Return nodes as ``kubectl get nodes -o json`` prints a list of them."""
    items = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": {},
            "status": {},
        }
        for name, labels in nodes.items()
    ]
    return {"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": ""}}


FILTER_TABLE = """\
NODE   RESULT    REASON
plain  rejected  Node does not support RDMA
slow   rejected  Disk is slow
near   kept
fast   kept
best   kept
pod team/train, profile ml
"""
SCORE_TABLE = """\
NODE   SCORE
best   20
fast   14
slow   6
near   6
plain  0
pod team/train, profile ml
"""


@pytest.mark.parametrize("names_only", [False, True])
@pytest.mark.parametrize(
    ("command", "table"), [("filter", FILTER_TABLE), ("prioritize", SCORE_TABLE)]
)
def test_a_recorded_request_is_answered_as_a_table(
    config_file: Path, tmp_path: Path, command: str, table: str, names_only: bool
) -> None:
    request = write(tmp_path / "r.json", request_for("ml", names_only=names_only))
    nodes = ["--nodes", write(tmp_path / "n.json", kubectl_list(NODES))] if names_only else []
    result = run(command, request, "--config", config_file, *nodes)
    assert (result.stdout, result.stderr, result.exit_code) == (table, "", 0)


def test_a_recorded_filter_request_is_answered_as_the_json_that_the_server_sends(
    config_file: Path, tmp_path: Path
) -> None:
    request = write(tmp_path / "r.json", request_for("ml", names_only=True))
    nodes = write(tmp_path / "n.json", kubectl_list(NODES))
    result = run("filter", request, "--config", config_file, "--nodes", nodes, "--output", "json")
    assert json.loads(result.stdout) == {
        "Nodes": None,
        "NodeNames": ["near", "fast", "best"],
        "FailedNodes": None,
        "FailedAndUnresolvableNodes": {
            "plain": "Node does not support RDMA",
            "slow": "Disk is slow",
        },
        "Error": "",
    }


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
    (tmp_path / "closed_nodes.py").write_text(plugin)
    monkeypatch.syspath_prepend(tmp_path)
    profile = {"schedulerName": "ml", "plugins": {"filter": {"enabled": [{"name": "Closed"}]}}}
    config = configuration(outOfTree=["closed_nodes:Closed"], profiles=[profile])
    file = write(tmp_path / "c.yaml", config)
    nodes = kubectl_list(NODES)
    nodes["items"][0]["metadata"]["annotations"] = {"closed": ""}
    request = write(tmp_path / "r.json", request_for("ml", names_only=True))
    result = run(
        *("filter", request, "--config", file),
        *("--nodes", write(tmp_path / "n.json", nodes), "--output", "json"),
    )
    assert result.exit_code == 0, result.stderr
    answer = json.loads(result.stdout)
    assert answer["NodeNames"] == ["slow", "near", "fast", "best"]
    assert answer["FailedNodes"] == {"plain": "closed"}


def test_a_recorded_prioritize_request_is_answered_as_the_json_that_the_server_sends(
    config_file: Path, tmp_path: Path
) -> None:
    request = write(tmp_path / "r.json", request_for("ml", names_only=False))
    result = run("prioritize", request, "--config", config_file, "--output", "json")
    assert json.loads(result.stdout) == [
        {"Host": "plain", "Score": 0},
        {"Host": "slow", "Score": 6},
        {"Host": "near", "Score": 6},
        {"Host": "fast", "Score": 14},
        {"Host": "best", "Score": 20},
    ]


METRICS = """\
apiVersion: kubextend.dev/v1alpha1
kind: ExtenderConfiguration
profiles:
- schedulerName: ml
  plugins:
    multiPoint: {enabled: [{name: NetworkTraffic}, {name: HighCommPodFilter}]}
  pluginConfig:
  - name: NetworkTraffic
    args: {prometheusAddress: "http://127.0.0.1:1", networkInterface: eth0}
"""


def test_what_a_plugin_would_gather_in_the_background_is_said_to_be_missing(tmp_path: Path) -> None:
    config = tmp_path / "metrics.yaml"
    config.write_text(METRICS)
    request = write(tmp_path / "r.json", request_for("ml", names_only=False))
    scored = run("prioritize", request, "--config", config)
    assert scored.stderr.startswith("note: NetworkTraffic is not started for a recorded request")
    assert scored.stdout.splitlines()[1] == "plain  5"
    assert run("filter", request, "--config", config).stderr == ""
    nobodys = write(tmp_path / "o.json", request_for("other", names_only=False))
    assert run("prioritize", nobodys, "--config", config).stderr == ""


def test_what_a_recorded_request_lacks_of_the_cluster_is_said(tmp_path: Path) -> None:
    config = tmp_path / "pods.yaml"
    text = METRICS.replace("HighCommPodFilter", "PodState").split("  pluginConfig")[0]
    config.write_text(text.replace("NetworkTraffic", "NodeResourceTopologyMatch"))
    request = write(tmp_path / "r.json", request_for("ml", names_only=False))
    done = run("filter", request, "--config", config)
    assert done.exit_code == 1
    resource = "topology.node.k8s.io/v1alpha2/noderesourcetopologies"
    assert f"note: NodeResourceTopologyMatch reads {resource}, which a" in done.stderr
    scored = run("prioritize", request, "--config", config)
    assert "note: PodState reads pods, which a recorded request lacks" in scored.stderr


def test_without_a_configuration_the_default_filters_the_pods_of_the_default_scheduler(
    tmp_path: Path,
) -> None:
    request = write(tmp_path / "r.json", request_for("default-scheduler", names_only=False))
    lines = run("filter", request).stdout.splitlines()
    assert lines[1] == "plain  rejected  Node does not support RDMA"
    assert lines[2] == "slow   kept"
    assert lines[-1] == "pod team/train, profile default-scheduler"


def test_a_profile_in_which_no_plugin_scores_is_said_to_have_none(
    config_file: Path, tmp_path: Path
) -> None:
    request = write(tmp_path / "r.json", request_for("idle", names_only=False))
    idle = run("prioritize", request, "--config", config_file)
    note = "note: no plugin scores in this profile, so no node has a score\n"
    assert (idle.stderr, idle.exit_code) == (note, 0)
    assert idle.stdout.splitlines()[1] == "plain  -"
    as_json = run("prioritize", request, "--config", config_file, "--output", "json")
    assert as_json.stderr == note


def test_names_without_nodes_are_a_wrong_use(tmp_path: Path) -> None:
    request = write(tmp_path / "r.json", request_for("ml", names_only=True))
    result = run("filter", request)
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == (
        f"Error: {request} has names only: give their nodes with --nodes"
    )


def test_a_request_that_cannot_be_read_is_one_line_that_says_where(tmp_path: Path) -> None:
    request = tmp_path / "r.json"
    request.write_text('{"Pod": {"metadata": 3}}')
    result = run("filter", request)
    assert (result.stdout, result.exit_code) == ("", 1)
    assert result.stderr.startswith(f"Error: {request}: byte ")
    assert "Pod.metadata" in result.stderr
    assert result.stderr.count("\n") == 1


def test_nodes_that_cannot_be_read_are_told_from_the_request(tmp_path: Path) -> None:
    request = write(tmp_path / "r.json", request_for("ml", names_only=True))
    nodes = tmp_path / "n.json"
    nodes.write_text("{")
    result = run("filter", request, "--nodes", nodes)
    assert (result.stdout, result.exit_code) == ("", 1)
    assert result.stderr.startswith(f"Error: {nodes}: byte 1: ")


@pytest.mark.parametrize("command", ["filter", "prioritize"])
@pytest.mark.parametrize("content", [request_for("ml", names_only=True), {}])
def test_a_file_of_nodes_that_is_no_list_is_told_with_what_writes_one(
    tmp_path: Path, command: str, content: object
) -> None:
    request = write(tmp_path / "r.json", request_for("ml", names_only=True))
    nodes = write(tmp_path / "n.json", content)
    result = run(command, request, "--nodes", nodes)
    assert (result.stdout, result.exit_code) == ("", 1)
    assert result.stderr == (
        f"Error: {nodes} has no items, so it is no list of nodes: "
        "`kubectl get nodes --output json` writes such a file\n"
    )


@pytest.mark.parametrize(("listed", "absent"), [(0, 5), (3, 2)])
def test_nodes_of_the_request_that_the_file_lacks_are_counted(
    tmp_path: Path, listed: int, absent: int
) -> None:
    request = write(tmp_path / "r.json", request_for("ml", names_only=True))
    nodes = write(tmp_path / "n.json", kubectl_list(dict([*NODES.items()][:listed])))
    result = run("filter", request, "--nodes", nodes)
    assert (result.stdout, result.exit_code) == ("", 1)
    assert result.stderr == f"Error: {absent} of the 5 nodes of {request} are not in {nodes}\n"


def test_an_answer_that_is_an_error_ends_the_command_with_1(tmp_path: Path) -> None:
    request = write(tmp_path / "r.json", {"Pod": {}, "Nodes": None, "NodeNames": None})
    as_table = run("filter", request)
    assert (as_table.stdout, as_table.exit_code) == ("", 1)
    as_json = run("filter", request, "--output", "json")
    assert (json.loads(as_json.stdout)["Nodes"], as_json.exit_code) == (None, 1)
    for result in (as_table, as_json):
        assert result.stderr.startswith("Error: the answer is an error: ")


@pytest.mark.parametrize("option", ["REQUEST", "--nodes"])
def test_a_file_that_is_not_there_is_one_line(tmp_path: Path, option: str) -> None:
    there = write(tmp_path / "r.json", request_for("ml", names_only=False))
    gone = tmp_path / "gone"
    result = run("filter", *([gone] if option == "REQUEST" else [there, option, gone]))
    line = f"Error: {gone}: cannot be read: No such file or directory\n"
    assert (result.stderr, result.exit_code) == (line, 1)
