"""The command as a shell sees it: what is printed where, and the exit code."""

import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from kubextend import __version__, app, cli, discovery

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
BROKEN = """\
apiVersion: kubextend.dev/v1alpha1
kind: ExtenderConfiguration
server: {port: "8888", hosts: 0.0.0.0}
profiles:
- plugins:
    filter:
      enabled:
      - name: HighComPodFilter
"""
EMPTY_NODES = (
    "warning: nodeCacheCapable is false: kube-scheduler 1.33 and later scores by resources as if "
    "every node were empty (kubernetes/kubernetes#141781); with `cluster` configured names are "
    "enough\n"
)
RDMA = {"node.kubernetes.io/rdma-enabled": "true"}
NODES = {
    "plain": {},
    "slow": RDMA | {"disk": "slow", "zone": "a"},
    "near": RDMA | {"zone": "a"},
    "fast": RDMA | {"zone": "b", "disk": "nvme"},
    "best": RDMA | {"zone": "a", "disk": "ssd"},
}


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli.main, [str(argument) for argument in arguments])


@pytest.fixture(autouse=True)
def nothing_else_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plugins that packages of this environment announce are none of these tests' business."""
    monkeypatch.setattr(discovery, "entry_points", lambda group: ())


def test_a_configuration_may_come_from_standard_input(config_file: Path) -> None:
    good = CliRunner().invoke(cli.main, ["check", "-"], input=CONFIG)
    assert good.exit_code == 0
    assert good.stdout == run("check", config_file).stdout
    bad = CliRunner().invoke(cli.main, ["check", "-"], input="kind: [")
    assert bad.exit_code == 1
    assert "standard input" in bad.stderr


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


def write(file: Path, content: object) -> Path:
    file.write_text(json.dumps(content))
    return file


def kubectl_list(nodes: dict[str, dict[str, str]]) -> dict[str, Any]:
    """As ``kubectl get nodes -o json`` prints it."""
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
    config = {
        "apiVersion": "kubextend.dev/v1alpha1",
        "kind": "ExtenderConfiguration",
        "outOfTree": ["closed_nodes:Closed"],
        "profiles": [
            {"schedulerName": "ml", "plugins": {"filter": {"enabled": [{"name": "Closed"}]}}}
        ],
    }
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


NOTHING = "no profile enables a plugin, so kubextend answers 404 to every verb"


def test_a_configuration_that_serves_nothing_is_said_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "c.yaml"
    ours = "apiVersion: kubextend.dev/v1alpha1, kind: ExtenderConfiguration"
    file.write_text(f"{{{ours}, profiles: [{{schedulerName: ml}}]}}")
    assert f"warning: {NOTHING}\n" in run("check", file).stderr
    config = discovery.load(file)
    monkeypatch.setattr(app.Service, "run", lambda _: None)
    app.serve(config)
    assert NOTHING in [record.getMessage() for record in caplog.records]


def test_a_configuration_of_a_queue_alone_serves_something(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    profile = "{schedulerName: ml, plugins: {queueSort: {enabled: [{name: QOSSort}]}}}"
    ours = "apiVersion: kubextend.dev/v1alpha1, kind: ExtenderConfiguration"
    file.write_text(f"{{{ours}, cluster: {{}}, profiles: [{profile}]}}")
    assert NOTHING not in run("check", file).stderr


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


@pytest.mark.parametrize("option", ["REQUEST", "--nodes", "--config"])
def test_a_file_that_is_not_there_is_one_line(tmp_path: Path, option: str) -> None:
    there = write(tmp_path / "r.json", request_for("ml", names_only=False))
    gone = tmp_path / "gone"
    arguments = [gone] if option == "REQUEST" else [there, option, gone]
    result = run("filter", *arguments)
    line = result.stderr.removeprefix("Error: ").removeprefix("error: ")
    assert line == f"{gone}: cannot be read: No such file or directory\n"
    assert result.exit_code == 1


def test_check_says_what_a_right_file_runs(config_file: Path) -> None:
    result = run("check", config_file)
    assert result.exit_code == 0
    assert result.stderr == EMPTY_NODES
    assert result.stdout == (
        "called at: http://127.0.0.1:8888\n"
        "verbs: filter, preempt, prioritize\n"
        "nodes in a request: whole nodes\n"
        "Kubernetes API: not used\n"
        "score scale: additive\n"
        "profile ml:\n"
        "  filter: LabelMatch, HighCommPodFilter\n"
        "  score: LabelMatch (weight 2)\n"
        "profile idle:\n"
        "  no plugin: its pods pass through untouched\n"
        "rules of ml as node affinity, by kubextend admission:\n"
        "  LabelMatch at filter, all pods -> nodes disk != slow: compiled\n"
        "  HighCommPodFilter at filter, pods high-comm -> nodes "
        "node.kubernetes.io/rdma-enabled=true: compiled\n"
        "  LabelMatch at score, all pods -> nodes zone=a scores 30: compiled\n"
        "  LabelMatch at score, all pods -> nodes disk in (ssd, nvme) scores 70: compiled\n"
    )


def test_check_says_what_the_guard_needs(config_file: Path) -> None:
    config_file.write_text(CONFIG + "cluster: {}\nguard: {resources: true}\n")
    lines = run("check", config_file).stdout.splitlines()
    assert lines[1] == "verbs: filter, preempt, prioritize, bind"
    assert lines[5].startswith("answered by: one replica only: set server.lease")
    assert lines[6] == "guard: resources, so kubextend lists all nodes and pods and binds each pod"


def test_check_warns_of_no_scoring_bug_where_names_are_sent(config_file: Path) -> None:
    config_file.write_text(CONFIG + "cluster: {context: dev}\nextender: {httpTimeout: 20s}\n")
    result = run("check", config_file)
    assert (result.stderr, result.exit_code) == ("", 0)
    assert result.stdout.splitlines()[2:4] == [
        "nodes in a request: names only, looked up among the watched nodes",
        "Kubernetes API: the service account, else the default kubeconfig, context dev",
    ]
    assert result.stdout.splitlines()[-1] == (
        "note: extender.httpTimeout: one hanging call holds up all scheduling for that long"
    )


COUNTING = """
apiVersion: kubextend.dev/v1alpha1
kind: ExtenderConfiguration
cluster: {}
server: {%s}
profiles:
- schedulerName: gangs
  plugins: {multiPoint: {enabled: [{name: Coscheduling}]}, preEnqueue: {disabled: [{name: "*"}]}}
- schedulerName: plain
  plugins: {filter: {enabled: [{name: HighCommPodFilter}]}}
"""


@pytest.mark.parametrize(
    ("server", "answered_by"),
    [
        ("", "one replica only: set server.lease before kube-scheduler may call several"),
        ("lease: {}", "the replica that holds the Lease kubextend in the namespace of the pod"),
        (
            "lease: {name: a, namespace: b}",
            "the replica that holds the Lease a in the namespace b",
        ),
    ],
)
def test_check_says_which_profiles_need_a_leader_and_why(
    config_file: Path, server: str, answered_by: str
) -> None:
    config_file.write_text(COUNTING % server)
    lines = run("check", config_file).stdout.splitlines()
    assert f"answered by: {answered_by}" in lines
    gangs = lines[lines.index("profile gangs:") + 1]
    assert gangs == "  needs a leader: Coscheduling looks at the pods on nodes"
    assert lines[lines.index("profile plain:") + 1] == "  filter: HighCommPodFilter"


def written_for(config_file: Path, file: Path) -> dict[str, Any]:
    """What scheduler-config writes, which is also left in the file."""
    file.write_text(run("scheduler-config", "--config", config_file).stdout)
    written = yaml.safe_load(file.read_text())
    assert isinstance(written, dict)
    return written


def test_check_says_that_the_file_of_kube_scheduler_fits(config_file: Path, tmp_path: Path) -> None:
    file = tmp_path / "kube-scheduler.yaml"
    written_for(config_file, file)
    alone, result = run("check", config_file), run("check", config_file, "--scheduler", file)
    assert (result.exit_code, result.stderr) == (0, EMPTY_NODES)
    sentence = f"{file} fits: kube-scheduler calls kubextend as this configuration says\n"
    notes = (
        f"note: {file}: extenders[0].filterVerb: called last, so extender.lastFilter: true may "
        "shorten filter's answers\n"
        f"note: {file}: clientConnection.kubeconfig: none, so kube-scheduler starts only inside a "
        "cluster\n"
        "note: checked as kube-scheduler 1.37 does at its start; it alone can check its files, "
        "certificates, addresses and feature gates, and checks node affinity in arguments of "
        "plugins\n"
    )
    assert result.stdout == alone.stdout + notes + sentence


def test_check_names_a_profile_that_was_renamed_on_one_side(
    config_file: Path, tmp_path: Path
) -> None:
    file = tmp_path / "kube-scheduler.yaml"
    written_for(config_file, file)
    config_file.write_text(CONFIG.replace("schedulerName: ml", "schedulerName: mll"))
    result = run("check", config_file, "--scheduler", file)
    assert result.exit_code == 1
    assert result.stderr == (
        f"{EMPTY_NODES}"
        f"error: {file}: profiles: no profile has schedulerName mll: its pods stay pending for "
        "ever\n"
        '  found: ["ml", "idle"]\n'
        "  hint: schedulerName: mll\n"
        f"error: {file}: profiles[0].schedulerName: no profile of kubextend has this name: filter "
        "and bind reject its pods\n"
        '  found: "ml"\n'
        "  hint: one of mll, idle, or passThrough: [ml] in kubextend's file\n"
    )


def test_check_prints_names_of_the_other_file_on_one_line(
    config_file: Path, tmp_path: Path
) -> None:
    file = tmp_path / "kube-scheduler.yaml"
    written = written_for(config_file, file)
    written["profiles"][0]["schedulerName"] = "ml\nerror: \x1b[31mforged"
    result = run("check", config_file, "--scheduler", write(file, written))
    assert "\x1b" not in result.stderr
    lines = [line for line in result.stderr.splitlines() if "forged" in line]
    assert [line.partition(":")[0] for line in lines] == ["  found", "  found", "  hint"]


def test_check_says_that_the_file_of_kube_scheduler_is_not_there(
    config_file: Path, tmp_path: Path
) -> None:
    gone = tmp_path / "gone"
    result = run("check", config_file, "--scheduler", gone)
    assert result.exit_code == 1
    assert f"error: {gone}: cannot be read: No such file or directory\n" in result.stderr


def test_check_reports_every_error_with_path_value_and_hint(config_file: Path) -> None:
    config_file.write_text(BROKEN)
    result = run("check", config_file)
    assert (result.stdout, result.exit_code) == ("", 1)
    assert result.stderr == (
        "error: server.port: expected a whole number, found a string\n"
        '  found: "8888"\n'
        'error: server.hosts: unknown field "hosts"\n'
        '  found: "0.0.0.0"\n'
        "  hint: did you mean host? known fields: decisions, drainDelay, healthHost, healthPort, "
        "host, insecure, keepAliveSeconds, lease, maxBodyBytes, maxInFlightBytes, path, port, tls, "
        "waitingPods\n"
    )
    config_file.write_text(BROKEN.replace('"8888", hosts: 0.0.0.0', "8888"))
    assert run("check", config_file).stderr == (
        "error: profiles[0].plugins.filter.enabled[0].name: "
        'FilterPlugin "HighComPodFilter" does not exist\n'
        '  found: "HighComPodFilter"\n'
        "  hint: did you mean HighCommPodFilter? "
        "known filter plugins: HighCommPodFilter, LabelMatch, NetworkOverhead, "
        "NodeResourceTopologyMatch, NodeResourcesFit, RdmaAware\n"
    )


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (
            "filters: [{nodeSelector: a=b}]",
            "error: profiles[0].pluginConfig[0].args.filters[0].reason: Required value",
        ),
        (
            "scores: [{nodeSelector: a=b, score: 101}]",
            "error: profiles[0].pluginConfig[0].args.scores[0].score: must be at most 100",
        ),
        (
            "scores: [{nodeSelector: a, score: 60}, {nodeSelector: b, score: 41}]",
            (
                "error: profiles[0].pluginConfig[0].args: the scores add up to 101; a node that "
                "matches all of them must stay within 100: use smaller scores and a weight for the "
                "plugin"
            ),
        ),
    ],
)
def test_check_reports_what_is_wrong_with_a_plugins_arguments(
    config_file: Path, args: str, line: str
) -> None:
    head = CONFIG[: CONFIG.index("    args:")]
    config_file.write_text(f"{head}    args: {{{args}}}\n")
    assert run("check", config_file).stderr.splitlines()[0] == line


def test_scheduler_config_writes_what_the_options_ask_for(config_file: Path) -> None:
    config_file.write_text(CONFIG + "cluster: {}\n")
    result = run(
        "scheduler-config",
        "--config",
        config_file,
        "--url-prefix=http://127.0.0.1:7777/",
        "--bind",
        "--kubeconfig=/etc/kubernetes/scheduler.conf",
        "--no-leader-elect",
    )
    assert (result.stderr, result.exit_code) == ("", 0)
    written = yaml.safe_load(result.stdout)
    assert written["clientConnection"]["kubeconfig"] == "/etc/kubernetes/scheduler.conf"
    assert written["leaderElection"] == {"leaderElect": False}
    assert [profile["schedulerName"] for profile in written["profiles"]] == ["ml", "idle"]
    assert [
        {key: value for key, value in entry.items() if key.endswith(("Verb", "Prefix"))}
        for entry in written["extenders"]
    ] == [
        {
            "urlPrefix": "http://127.0.0.1:7777",
            "filterVerb": "filter",
            "preemptVerb": "preempt",
            "prioritizeVerb": "prioritize",
        },
        {"urlPrefix": "http://127.0.0.1:7777", "bindVerb": "bind"},
    ]


@pytest.mark.parametrize("version", ["1.17", "1.22.17"])
def test_scheduler_config_writes_a_policy_for_old_schedulers(
    config_file: Path, version: str
) -> None:
    result = run("scheduler-config", f"--kube-version={version}", "--config", config_file)
    assert json.loads(result.stdout)["kind"] == "Policy"
    assert result.stderr == (
        "note: a Policy has no profiles: give kube-scheduler's option --scheduler-name one of: "
        "ml, idle\n"
    )


@pytest.mark.parametrize(
    ("version", "api_version"),
    [
        ("1.37", "v1"),
        ("v1.37.1", "v1"),
        ("1.25", "v1"),
        ("1.24", "v1beta3"),
        ("1.23", "v1beta3"),
    ],
)
def test_scheduler_config_writes_what_a_version_reads(version: str, api_version: str) -> None:
    result = run("scheduler-config", f"--kube-version={version}")
    assert (result.stderr, result.exit_code) == ("", 0)
    assert result.stdout.startswith(f"# kube-scheduler {version.strip('v')[:4]}: ")
    written = yaml.safe_load(result.stdout)
    assert written["apiVersion"] == f"kubescheduler.config.k8s.io/{api_version}"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--kube-version=1.38"], "kubextend knows kube-scheduler 1.17 to 1.37, and not 1.38"),
        (["--kube-version=1.16"], "kubextend knows kube-scheduler 1.17 to 1.37, and not 1.16"),
        (["--kube-version=new"], "'new' is no version of kube-scheduler such as 1.37"),
        (["--kube-version=1"], "'1' is no version of kube-scheduler such as 1.37"),
    ],
)
def test_a_version_that_kubextend_does_not_know_is_refused(
    options: list[str], sentence: str
) -> None:
    result = run("scheduler-config", *options)
    assert (result.stdout, result.exit_code) == ("", 2)
    assert result.stderr.splitlines()[-1] == f"Error: --kube-version: {sentence}"


@pytest.mark.parametrize("option", ["--kubeconfig=x", "--leader-elect", "--no-leader-elect"])
def test_a_policy_cannot_hold_every_option(option: str) -> None:
    result = run("scheduler-config", "--kube-version=1.22", option)
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == (
        "Error: a Policy holds neither: give kube-scheduler --kubeconfig and --leader-elect"
    )


def test_scheduler_config_refuses_bind_without_the_api() -> None:
    result = run("scheduler-config", "--bind")
    assert (result.stdout, result.exit_code) == ("", 1)
    assert result.stderr == (
        "error: cluster: Required value: bind writes to the Kubernetes API\n"
        "  hint: add cluster: {}\n"
    )


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    configs: list[Any] = []
    monkeypatch.setattr(app, "serve", lambda config, **_: configs.append(config))
    monkeypatch.setattr("kubextend.logs.configure", lambda *_: None)
    return configs


def test_serve_puts_its_options_over_the_file(
    served: list[Any], config_file: Path, tmp_path: Path
) -> None:
    kubeconfig = write(tmp_path / "kubeconfig", {})
    result = run(
        "serve",
        f"--config={config_file}",
        "--host=::1",
        "--port=9999",
        f"--kubeconfig={kubeconfig}",
    )
    assert (result.stderr, result.exit_code) == ("", 0)
    (config,) = served
    assert (config.server.host, config.server.port) == ("::1", 9999)
    assert config.cluster.kubeconfig == str(kubeconfig)
    assert config.extender.node_cache_capable


def test_a_wrong_value_of_an_option_is_told_under_the_name_of_the_option(
    served: list[Any], config_file: Path, tmp_path: Path
) -> None:
    gone = tmp_path / "gone"
    unreadable = f'cannot be read: No such file or directory\n  found: "{gone}"\n'
    given = run("serve", f"--config={config_file}", f"--kubeconfig={gone}")
    assert f"error: --kubeconfig: {unreadable}" in given.stderr
    given = run("serve", f"--config={config_file}", "--host=a b")
    assert "error: --host: must be an address" in given.stderr
    prefix = run("scheduler-config", "--url-prefix=http://h:8888/filter")
    assert prefix.stderr.startswith("error: --url-prefix: must not end with a verb")
    config_file.write_text(f"{CONFIG}cluster: {{kubeconfig: {gone}}}\n")
    in_file = run("serve", f"--config={config_file}", "--port=9999")
    assert f"error: cluster.kubeconfig: {unreadable}" in in_file.stderr
    assert served == []


def test_serve_logs_the_notes(
    served: list[Any], config_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config_file.write_text(CONFIG + "cluster:\n")
    with caplog.at_level(logging.INFO, logger="kubextend"):
        assert run("serve", f"--config={config_file}").exit_code == 0
    assert len(served) == 1
    assert caplog.messages == [
        "cluster: empty, so there is no access to the API; {} switches it on"
    ]


def test_serve_refuses_a_wrong_file_before_it_listens(served: list[Any], config_file: Path) -> None:
    config_file.write_text(BROKEN)
    assert run("serve", f"--config={config_file}").exit_code == 1
    assert served == []


def test_ctrl_c_leaves_no_traceback(served: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(app, "serve", interrupted)
    result = run("serve")
    assert (result.output, result.exit_code, served) == ("", 130, [])


@pytest.mark.parametrize(
    "arguments",
    [["nothing"], ["check"], ["serve", "--port=0"], ["filter", "x", "--output=xml"], ["--no"]],
)
def test_a_wrong_use_ends_with_2(arguments: list[str]) -> None:
    assert run(*arguments).exit_code == 2


def test_the_version_is_that_of_the_package() -> None:
    assert run("--version").stdout == f"kubextend, version {__version__}\n"


def test_help_loads_neither_the_server_nor_the_kubernetes_client_nor_pydantic() -> None:
    code = (
        "import sys; from kubextend import cli; cli.main(['--help'], standalone_mode=False); "
        "print(sorted({'starlette', 'uvicorn', 'kubernetes', 'pydantic', 'yaml'} & {*sys.modules}))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=300
    )
    assert ran.stdout.startswith("Usage: ")
    assert ran.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("command", [["check"], ["scheduler-config", "--config"]])
def test_files_of_the_machine_where_it_will_run_are_noted_and_not_needed(
    command: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "kubextend.yaml"
    file.write_text(
        "apiVersion: kubextend.dev/v1alpha1\n"
        "kind: ExtenderConfiguration\n"
        "server: {tls: {certFile: /nowhere/tls.crt, keyFile: /nowhere/tls.key}}\n"
        "extender: {tlsConfig: {caFile: /etc/kubernetes/ca.crt}}\n"
        "profiles: [{schedulerName: default-scheduler}]\n"
    )
    asked = run(*command, str(file))
    assert asked.exit_code == 0
    if command == ["check"]:
        reason = "cannot be read: No such file or directory; `kubextend serve` will need it"
        assert f"note: server.tls.certFile: /nowhere/tls.crt {reason}\n" in asked.stdout
    served = run("serve", "--config", str(file))
    assert served.exit_code == 1
    assert "server.tls.certFile: cannot be read: No such file or directory" in served.stderr


@pytest.mark.parametrize("command", ["serve", "scheduler-config", "doctor", "admission"])
def test_a_file_that_is_no_option_is_answered_with_the_option(command: str) -> None:
    refused = run(command, "kubextend.yaml")
    assert refused.exit_code == 2
    said = "unexpected argument kubextend.yaml: name a file with --config kubextend.yaml"
    assert said in refused.stderr


def test_python_runs_the_command_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kubextend", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("kubextend, version ")
