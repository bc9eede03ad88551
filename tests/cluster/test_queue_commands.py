"""``kubextend queue`` and ``kubextend ungate`` against an API, without a kubextend server."""

import json
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.doors.kube_api import ScriptedApi
from tests.doors.scripted_requests import Request, lost_request, refusing

from kubextend import cli

Shows = Callable[..., Result]
Entries = Callable[[], list[dict[str, Any]]]

GATE = "kubextend.dev/queue"
CONFIG = """\
apiVersion: kubextend.dev/v1alpha1
kind: ExtenderConfiguration
cluster: {}
profiles:
- schedulerName: default-scheduler
  plugins:
    queueSort:
      enabled:
      - name: QOSSort
"""


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli.main, [str(argument) for argument in arguments])


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "kubextend.yaml"
    file.write_text(CONFIG)
    return file


@pytest.fixture
def shows(config: Path, kubeconfig: Path) -> Callable[..., Result]:
    """Run ``kubextend queue``."""
    return lambda *more: run("queue", "--config", config, "--kubeconfig", kubeconfig, *more)


@pytest.fixture
def entries(shows: Shows) -> Callable[[], list[dict[str, Any]]]:
    """Run ``kubextend queue`` for machines; return the entries."""
    return lambda: json.loads(shows("--output", "json").stdout)  # type: ignore[no-any-return]


@pytest.fixture
def ungates(kubeconfig: Path) -> Callable[..., Result]:
    """Run ``kubextend ungate``."""
    return lambda *more: run("ungate", "--kubeconfig", kubeconfig, *more)


@pytest.fixture
def filled(api: ScriptedApi) -> ScriptedApi:
    amounts = {"cpu": "1", "memory": "1Gi"}
    guaranteed = {"name": "c", "resources": {"limits": amounts, "requests": amounts}}
    api.put_gated_pod("poor", [GATE])
    api.put_gated_pod("sure", [GATE], containers=[guaranteed])
    api.put_gated_pod("rich", [GATE], priority=1000)
    api.put_gated_pod("stuck", [], priority=7)
    api.put_gated_pod("other", ["example.com/quota", GATE])
    api.put_pod("free", "uid-free")
    return api


RELEASED = "released; kube-scheduler has not placed it yet"


@pytest.mark.parametrize("output", ["table", "json"])
def test_the_queue_is_shown_in_order_with_the_reasons(
    filled: ScriptedApi, shows: Shows, golden: Callable[[str, str], None], output: str
) -> None:
    done = shows("--output", output)
    assert done.exit_code == 0, done.output
    golden(f"cli/queue.{output}", done.stdout)
    assert filled.counts["patch"] == 0


def test_the_members_of_a_pod_group_are_shown_together_with_the_name_of_the_group(
    api: ScriptedApi, entries: Entries
) -> None:
    api.put_gated_pod("alone", [GATE])
    group = {"podGroupName": "training"}
    for name in ("part-a", "part-b"):
        api.put_gated_pod(name, [GATE], priority=1, schedulingGroup=group)
    api.put_gated_pod("between", [GATE], priority=1)
    api.put_gated_pod("part-c", [], schedulingGroup=group)
    follows = "follows released pods of pod group default/training"
    waits = "waits for pod group default/training"
    columns = ("position", "pod", "podGroup", "why")
    assert [tuple(entry[column] for column in columns) for entry in entries()] == [
        (None, "default/part-c", "training", RELEASED),
        (None, "default/part-a", "training", follows),
        (None, "default/part-b", "training", follows),
        (1, "default/between", None, waits),
        (2, "default/alone", None, waits),
    ]


def test_gangs_are_held_back_where_too_few_of_their_pods_exist(
    api: ScriptedApi, entries: Entries, config: Path
) -> None:
    enabled = "    multiPoint:\n      enabled:\n      - name: Coscheduling\n"
    config.write_text(CONFIG.replace("    queueSort:\n", enabled + "    queueSort:\n"))
    # A gang of three of which one pod runs, and a gang that lacks a pod.
    api.put_pod("whole-a", "uid-whole-a", node="n1", phase="Running")
    for name in ("whole-b", "whole-c", "short-a", "short-b"):
        api.put_gated_pod(name, [GATE])
    for name, pod in api.pods.items():
        pod["metadata"]["labels"] = {
            "scheduling.x-k8s.io/pod-group": name.split("-")[0],
            "pod-group.scheduling.sigs.k8s.io/min-available": "3",
        }
    short = "held back by Coscheduling: pod group has fewer pods than its minimum"
    assert {entry["pod"]: entry["why"] for entry in entries()} == {
        "default/whole-b": "is next",
        "default/whole-c": "is next",
        "default/short-a": short,
        "default/short-b": short,
    }


def test_with_turns_of_namespaces_the_positions_are_those_of_the_turns(
    filled: ScriptedApi, entries: Entries, config: Path
) -> None:
    config.write_text(CONFIG + "queue:\n  fairQueuing: ByNamespace\n")
    with filled.changed:
        filled.pods["poor"]["metadata"]["namespace"] = "elsewhere"
    assert [(entry["position"], entry["pod"]) for entry in entries()] == [
        (None, "default/stuck"),
        (1, "elsewhere/poor"),
        (2, "default/rich"),
        (3, "default/sure"),
        (None, "default/other"),
    ]


def test_where_no_pod_has_the_gate_the_command_names_the_policy_and_the_scheduler_names(
    api: ScriptedApi, shows: Shows, config: Path
) -> None:
    config.write_text(CONFIG + CONFIG.partition("profiles:\n")[2].replace("default", "batch"))
    api.put_gated_pod("other", ["example.com/quota"])
    done = shows("--output", "json")
    assert done.exit_code == 0
    assert done.stderr.startswith(f"note: no pod has the gate {GATE}; ")
    assert "deploy/queue/gate.yaml" in done.stderr
    assert "default-scheduler, batch-scheduler" in done.stderr
    json.loads(done.stdout)
    api.put_gated_pod("gated", [GATE])
    assert shows().stderr == ""


def test_where_the_lease_cannot_be_read_the_queue_is_shown_with_the_reason(
    filled: ScriptedApi, shows: Shows
) -> None:
    filled.fail("lease", refusing(403, "Forbidden"))
    done = shows()
    assert done.exit_code == 0
    assert "default/rich" in done.output
    (note,) = (line for line in done.output.splitlines() if line.startswith("lease "))
    assert "403 Forbidden" in note


FORGED = "x\nlease forged: me\x1b[2J\u202e"


def test_what_pods_are_called_forges_no_lines_and_no_escapes(
    api: ScriptedApi, shows: Shows, ungates: Shows
) -> None:
    api.put_gated_pod("bad", [GATE, FORGED], schedulerName=FORGED)
    api.put_gated_pod("worse", [GATE, FORGED])
    api.fail("lease", refusing(403, "Forbidden", FORGED))
    api.fail("patch", *[refusing(422, "Invalid", FORGED)] * 20)
    outputs = [shows().output, ungates("--dry-run").output, ungates().output]
    api.fail("list", *[refusing(403, "Forbidden", FORGED)] * 9)
    outputs.append(ungates().output)
    for output in outputs:
        assert output.replace("\n", "").isprintable()
        assert "x\\nlease forged: me\\x1b[2J\\u202e" in output


@pytest.mark.parametrize(("holder", "said"), [("a-replica", ": a-replica"), ("", "nobody")])
def test_the_queue_names_the_holder_of_the_lease(
    filled: ScriptedApi, shows: Shows, holder: str, said: str
) -> None:
    renewed = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 15}
    filled.lease = {"metadata": {}, "spec": spec}
    assert said in shows().output.splitlines()[-1]
    spec["renewTime"] = "2020-01-01T00:00:00.000000Z"
    assert "nobody" in shows().output.splitlines()[-1]


def test_a_configuration_without_a_queue_shows_none(kubeconfig: Path) -> None:
    done = run("queue", "--kubeconfig", kubeconfig)
    assert done.exit_code == 1
    assert "no profile enables a queueSort plugin" in done.output


def test_ungate_takes_our_gate_off_every_pod_and_no_other(
    filled: ScriptedApi, ungates: Shows
) -> None:
    done = ungates("--dry-run")
    assert done.output.splitlines()[-1] == f"4 pods have the gate {GATE}"
    assert filled.counts["patch"] == 0
    assert ungates("-n", "elsewhere").output == f"removed the gate {GATE} from 0 pods\n"
    done = ungates()
    assert (done.exit_code, done.output) == (0, f"removed the gate {GATE} from 4 pods\n")
    gates = {name: pod["spec"].get("schedulingGates") for name, pod in filled.pods.items()}
    assert gates.pop("other") == [{"name": "example.com/quota"}]
    assert gates == {"poor": [], "sure": [], "rich": [], "stuck": [], "free": None}
    assert ungates().output == f"removed the gate {GATE} from 0 pods\n"
    done = ungates("--gate", "example.com/quota")
    assert done.output == "removed the gate example.com/quota from 1 pods\n"
    assert filled.pods["other"]["spec"]["schedulingGates"] == []


def test_ungate_says_which_pods_it_could_not_help(filled: ScriptedApi, ungates: Shows) -> None:
    """A pod that is deleted before its gate is off needs no help."""
    forbidden = refusing(403, "Forbidden", "pods is forbidden")

    def patched(request: Request) -> bool:
        if "rich" in request.path and "rich" in filled.pods:
            filled.delete_pod("rich")
        return "poor" in request.path and forbidden(request)

    filled.fail("patch", *[patched] * 20)
    done = ungates()
    assert done.exit_code == 1
    assert "pods is forbidden; grant patch on pods" in done.output
    assert "from 3 pods" in done.output
    assert "1 pods still have the gate" in done.output


def test_ungate_leaves_a_pod_whose_patch_gets_no_answer_to_the_next_ungate(
    api: ScriptedApi, ungates: Shows
) -> None:
    api.put_gated_pod("web", [GATE])
    api.fail("patch", lost_request)
    done = ungates()
    assert done.exit_code == 1
    assert "the API does not answer a request to remove its gate" in done.output
    assert ungates().exit_code == 0
    assert api.released_pods() == ["web"]


def test_many_gates_are_removed_at_once(api: ScriptedApi, ungates: Shows) -> None:
    names = [f"p{number:02}" for number in range(32)]
    for name in names:
        api.put_gated_pod(name, [GATE])
    together = threading.Barrier(16)
    api.fail("patch", *[lambda _: together.wait() < 0] * 32)
    assert ungates().exit_code == 0
    assert api.released_pods() == names


def test_without_an_api_both_say_so(api: ScriptedApi, shows: Shows, ungates: Shows) -> None:
    api.down()
    for done in (shows(), ungates()):
        assert done.exit_code == 1
        assert done.output.startswith("Error: GET /api/v1/pods: ")
