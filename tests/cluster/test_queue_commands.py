"""``kubextend queue`` and ``kubextend ungate`` against an API, without a kubextend server."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result
from tests.doors.kube_api import lost_request, refusing

from kubextend import cli

if TYPE_CHECKING:
    from pathlib import Path

    from tests.doors.kube_api import Request, ScriptedApi, SkippingTime

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
def filled(api: ScriptedApi) -> ScriptedApi:
    guaranteed = {
        "limits": {"cpu": "1", "memory": "1Gi"},
        "requests": {"cpu": "1", "memory": "1Gi"},
    }
    api.put_gated_pod("poor", [GATE])
    api.put_gated_pod("sure", [GATE], containers=[{"name": "c", "resources": guaranteed}])
    api.put_gated_pod("rich", [GATE], priority=1000)
    api.put_gated_pod("stuck", [], priority=7)
    api.put_gated_pod("other", ["example.com/quota", GATE])
    api.put_pod("free", "uid-free")
    return api


def test_the_queue_is_shown_in_order_with_the_reasons(
    filled: ScriptedApi, kubeconfig: Path, config: Path
) -> None:
    done = run("queue", "--config", config, "--kubeconfig", kubeconfig)
    assert done.exit_code == 0, done.output
    released = "released; kube-scheduler has not placed it yet"
    assert done.output.splitlines() == [
        "POSITION  POD            POD GROUP  PRIORITY  QOS         WAITING SINCE         WHY",
        (
            "-         default/stuck  -          7         BestEffort  2030-01-01T00:00:03Z  "
            f"{released}"
        ),
        (
            "1         default/rich   -          1000      BestEffort  2030-01-01T00:00:02Z  "
            "waits for default/stuck"
        ),
        (
            "2         default/sure   -          0         Guaranteed  2030-01-01T00:00:01Z  "
            "waits for default/stuck"
        ),
        (
            "3         default/poor   -          0         BestEffort  2030-01-01T00:00:00Z  "
            "waits for default/stuck"
        ),
        (
            "-         default/other  -          0         BestEffort  2030-01-01T00:00:04Z  "
            "has other scheduling gates: example.com/quota"
        ),
        (
            "lease kube-system/kubextend-queue: nobody holds it, so no pod is released; a kubextend"
            " in a pod has its Lease in the pod's namespace: name the namespace in"
            " queue.lease.namespace"
        ),
    ]
    assert filled.counts["patch"] == 0


def test_the_queue_is_shown_to_machines(
    filled: ScriptedApi, kubeconfig: Path, config: Path
) -> None:
    del filled
    done = run("queue", "--config", config, "--kubeconfig", kubeconfig, "--output", "json")
    entries: list[dict[str, Any]] = json.loads(done.output)
    assert entries[1] == {
        "position": 1,
        "pod": "default/rich",
        "podGroup": None,
        "priority": 1000,
        "qosClass": "BestEffort",
        "waitingSince": "2030-01-01T00:00:02Z",
        "why": "waits for default/stuck",
    }
    assert [entry["position"] for entry in entries] == [None, 1, 2, 3, None]


def test_the_members_of_a_pod_group_are_shown_together_with_the_name_of_the_group(
    api: ScriptedApi, kubeconfig: Path, config: Path
) -> None:
    api.put_gated_pod("alone", [GATE])
    group = {"podGroupName": "training"}
    for name in ("part-a", "part-b"):
        api.put_gated_pod(name, [GATE], priority=1, schedulingGroup=group)
    api.put_gated_pod("between", [GATE], priority=1)
    api.put_gated_pod("part-c", [], schedulingGroup=group)
    api.put_gated_pod("part-d", [GATE], schedulingGroup=group)
    done = run("queue", "--config", config, "--kubeconfig", kubeconfig, "--output", "json")
    follows = "follows released pods of pod group default/training"
    waits = "waits for pod group default/training"
    released = "released; kube-scheduler has not placed it yet"
    shown = [
        (entry["position"], entry["pod"], entry["podGroup"], entry["why"])
        for entry in json.loads(done.output)
    ]
    assert shown == [
        (None, "default/part-c", "training", released),
        (None, "default/part-a", "training", follows),
        (None, "default/part-b", "training", follows),
        (None, "default/part-d", "training", follows),
        (1, "default/between", None, waits),
        (2, "default/alone", None, waits),
    ]


def test_gangs_are_held_back_where_too_few_of_their_pods_exist(
    api: ScriptedApi, kubeconfig: Path, config: Path
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
    done = run("queue", "--config", config, "--kubeconfig", kubeconfig, "--output", "json")
    short = "held back by Coscheduling: pod group has fewer pods than its minimum"
    assert {entry["pod"]: entry["why"] for entry in json.loads(done.output)} == {
        "default/whole-b": "is next",
        "default/whole-c": "is next",
        "default/short-a": short,
        "default/short-b": short,
    }


def test_with_turns_of_namespaces_the_positions_are_those_of_the_turns(
    filled: ScriptedApi, kubeconfig: Path, config: Path
) -> None:
    config.write_text(CONFIG + "queue:\n  fairQueuing: ByNamespace\n")
    with filled.changed:
        filled.pods["poor"]["metadata"]["namespace"] = "elsewhere"
    done = run("queue", "--config", config, "--kubeconfig", kubeconfig, "--output", "json")
    entries: list[dict[str, Any]] = json.loads(done.output)
    assert [(entry["position"], entry["pod"]) for entry in entries] == [
        (None, "default/stuck"),
        (1, "elsewhere/poor"),
        (2, "default/rich"),
        (3, "default/sure"),
        (None, "default/other"),
    ]


def test_where_no_pod_has_the_gate_the_command_names_the_policy_and_the_scheduler_names(
    api: ScriptedApi, kubeconfig: Path, config: Path
) -> None:
    config.write_text(CONFIG + CONFIG.partition("profiles:\n")[2].replace("default", "batch"))
    api.put_gated_pod("other", ["example.com/quota"])
    done = run("queue", "--config", config, "--kubeconfig", kubeconfig, "--output", "json")
    assert done.exit_code == 0
    assert done.stderr.startswith(f"note: no pod has the gate {GATE}; ")
    assert "deploy/queue/gate.yaml" in done.stderr
    assert "default-scheduler, batch-scheduler" in done.stderr
    json.loads(done.stdout)
    api.put_gated_pod("gated", [GATE])
    done = run("queue", "--config", config, "--kubeconfig", kubeconfig)
    assert done.stderr == ""


def test_a_pod_that_is_set_aside_is_named_with_its_reason(
    filled: ScriptedApi, kubeconfig: Path, config: Path
) -> None:
    filled.events.append(
        {
            "reason": "SetAside",
            "reportingController": "kubextend",
            "regarding": {"uid": filled.pods["rich"]["metadata"]["uid"]},
            "note": "the API refuses to remove its gate: request is too large",
        }
    )
    done = run("queue", "--config", config, "--kubeconfig", kubeconfig)
    (row,) = (line for line in done.output.splitlines() if "default/rich" in line)
    assert row.startswith("- ")
    assert row.endswith("the API refuses to remove its gate: request is too large")
    filled.fail("event", refusing(403, "Forbidden", "events is forbidden"))
    done = run("queue", "--config", config, "--kubeconfig", kubeconfig)
    assert done.exit_code == 0
    assert "note: cannot tell which pods are set aside: " in done.output
    assert "403 events is forbidden" in done.output


FORGED = "x\nlease forged: me\x1b[2J\u202e"


def test_what_pods_are_called_forges_no_lines_and_no_escapes(
    api: ScriptedApi, kubeconfig: Path, config: Path
) -> None:
    api.put_gated_pod("bad", [GATE, FORGED], schedulerName=FORGED)
    api.put_gated_pod("worse", [GATE, FORGED])
    api.fail("lease", refusing(403, "Forbidden", FORGED))
    api.fail("patch", *[refusing(422, "Invalid", FORGED)] * 20)
    outputs = [
        run("queue", "--config", config, "--kubeconfig", kubeconfig).output,
        run("ungate", "--dry-run", "--kubeconfig", kubeconfig).output,
        run("ungate", "--kubeconfig", kubeconfig).output,
    ]
    api.fail("list", *[refusing(403, "Forbidden", FORGED)] * 9)
    outputs.append(run("ungate", "--kubeconfig", kubeconfig).output)
    for output in outputs:
        assert output.replace("\n", "").isprintable()
        assert "x\\nlease forged: me\\x1b[2J\\u202e" in output


@pytest.mark.parametrize("answer", [[], {}, {"items": [1]}, {"items": None}])
def test_what_is_no_list_of_events_is_said_and_the_queue_is_shown(
    filled: ScriptedApi, kubeconfig: Path, config: Path, answer: Any
) -> None:
    def answering(request: Request) -> bool:
        request.send(200, answer)
        return True

    filled.fail("event", answering)
    done = run("queue", "--config", config, "--kubeconfig", kubeconfig)
    assert done.exit_code == 0
    assert "note: cannot tell which pods are set aside: " in done.output
    assert "no list of Events" in done.output


def test_events_of_others_say_nothing_of_the_queue(
    filled: ScriptedApi, kubeconfig: Path, config: Path
) -> None:
    regarding = {"uid": filled.pods["rich"]["metadata"]["uid"]}
    filled.events.append(
        {
            "reason": "SetAside",
            "reportingController": "me",
            "regarding": regarding,
            "note": "forged",
        }
    )
    done = run("queue", "--config", config, "--kubeconfig", kubeconfig)
    assert "forged" not in done.output


@pytest.mark.parametrize(("holder", "said"), [("a-replica", ": a-replica"), ("", "nobody")])
def test_the_queue_names_the_holder_of_the_lease(
    filled: ScriptedApi, kubeconfig: Path, config: Path, holder: str, said: str
) -> None:
    renewed = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 15}
    filled.lease = {"metadata": {}, "spec": spec}
    command = ("queue", "--config", config, "--kubeconfig", kubeconfig)
    assert said in run(*command).output.splitlines()[-1]
    spec["renewTime"] = "2020-01-01T00:00:00.000000Z"
    assert "nobody" in run(*command).output.splitlines()[-1]


def test_who_may_not_read_the_lease_sees_the_queue_all_the_same(
    filled: ScriptedApi, kubeconfig: Path, config: Path
) -> None:
    filled.fail("lease", refusing(403, "Forbidden", "leases is forbidden"))
    done = run("queue", "--config", config, "--kubeconfig", kubeconfig)
    assert done.exit_code == 0
    assert "default/rich" in done.output
    assert "403 leases is forbidden" in done.output.splitlines()[-1]


def test_a_configuration_without_a_queue_shows_none(kubeconfig: Path) -> None:
    done = run("queue", "--kubeconfig", kubeconfig)
    assert done.exit_code == 1
    assert "no profile enables a queueSort plugin" in done.output


def test_ungate_takes_our_gate_off_every_pod_and_no_other(
    filled: ScriptedApi, kubeconfig: Path
) -> None:
    done = run("ungate", "--kubeconfig", kubeconfig, "--dry-run")
    assert done.output.splitlines()[-1] == f"4 pods have the gate {GATE}"
    assert filled.counts["patch"] == 0
    done = run("ungate", "--kubeconfig", kubeconfig)
    assert done.exit_code == 0, done.output
    assert done.output == f"removed the gate {GATE} from 4 pods\n"
    gates = {name: pod["spec"].get("schedulingGates") for name, pod in filled.pods.items()}
    assert gates == {
        "poor": [],
        "sure": [],
        "rich": [],
        "stuck": [],
        "other": [{"name": "example.com/quota"}],
        "free": None,
    }
    again = run("ungate", "--kubeconfig", kubeconfig)
    assert again.output == f"removed the gate {GATE} from 0 pods\n"


def test_ungate_keeps_to_a_namespace_and_a_gate(filled: ScriptedApi, kubeconfig: Path) -> None:
    done = run("ungate", "--kubeconfig", kubeconfig, "-n", "elsewhere")
    assert done.output == f"removed the gate {GATE} from 0 pods\n"
    done = run("ungate", "--kubeconfig", kubeconfig, "--gate", "example.com/quota")
    assert done.output == "removed the gate example.com/quota from 1 pods\n"
    assert filled.pods["other"]["spec"]["schedulingGates"] == [{"name": GATE}]


def test_a_pod_that_is_deleted_before_its_gate_is_off_needs_no_help(
    filled: ScriptedApi, kubeconfig: Path
) -> None:
    def delete(request: Request) -> bool:
        with filled.changed:
            if "poor" in request.path and "poor" in filled.pods:
                filled.delete_pod("poor")
        return False

    filled.fail("patch", *[delete] * 20)
    done = run("ungate", "--kubeconfig", kubeconfig)
    assert done.exit_code == 0, done.output
    assert done.output == f"removed the gate {GATE} from 4 pods\n"


def test_ungate_says_which_pods_it_could_not_help(filled: ScriptedApi, kubeconfig: Path) -> None:
    def forbid(request: Request) -> bool:
        if "poor" not in request.path:
            return False
        return refusing(403, "Forbidden", "pods is forbidden")(request)

    filled.fail("patch", *[forbid] * 20)
    done = run("ungate", "--kubeconfig", kubeconfig)
    assert done.exit_code == 1
    assert "pods is forbidden; grant patch on pods" in done.output
    assert "from 3 pods" in done.output
    assert "1 pods still have the gate" in done.output


@pytest.mark.parametrize(("away_s", "helped"), [(100, True), (1000, False)])
def test_ungate_waits_two_minutes_for_an_api_that_does_not_answer(
    api: ScriptedApi, kubeconfig: Path, clock: SkippingTime, away_s: float, helped: bool
) -> None:
    api.put_gated_pod("web", [GATE])
    began_s = clock.now_s
    away = [lambda request: clock.now_s < began_s + away_s and lost_request(request)]
    api.fail("patch", *away * 999)
    done = run("ungate", "--kubeconfig", kubeconfig)
    assert done.exit_code == (0 if helped else 1)
    assert api.released_pods() == (["web"] if helped else [])
    assert min(away_s, 118) <= clock.now_s - began_s <= 121


def test_many_gates_are_removed_at_once(api: ScriptedApi, kubeconfig: Path) -> None:
    names = [f"p{number}" for number in range(32)]
    for name in names:
        api.put_gated_pod(name, [GATE])
    together = threading.Barrier(16)

    def meet(_: Request) -> bool:
        together.wait()
        return False

    api.fail("patch", *[meet] * 32)
    assert run("ungate", "--kubeconfig", kubeconfig).exit_code == 0
    assert sorted(api.released_pods()) == sorted(names)


def test_without_an_api_both_say_so(api: ScriptedApi, kubeconfig: Path, config: Path) -> None:
    api.down()
    for command in (("queue", "--config", config), ("ungate",)):
        done = run(*command, "--kubeconfig", kubeconfig)
        assert done.exit_code == 1
        assert done.output.startswith("Error: GET /api/v1/pods: ")
