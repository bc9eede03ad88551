"""Pods whose schedulerName no profile has: rejected, unless ``passThrough`` lists the name."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.doors.command_line import configuration, profile, run, write
from tests.doors.stories import page_of_metrics
from tests.doors.wire import Steps, Wire, needs, node, pod, scores, whole_request

UNKNOWN = (
    'no profile of kubextend is named "gang2": its profiles are gang, idle; '
    "add it, or list it in passThrough; did you mean gang?"
)
UNLIKE = UNKNOWN.replace("gang2", "default-scheduler").removesuffix("; did you mean gang?")
NODES = [node("sunny", labels={"sunny": ""}), node("dark")]
PLUGINS = {"gang": [needs("sunny", "shade"), scores(sunny=100)], "idle": []}


def of(scheduler: str, name: str = "p", **fields: Any) -> dict[str, Any]:
    return pod(name, scheduler_name=scheduler, **fields)


def server(profiles: Mapping[str, Any] = PLUGINS, **settings: Any) -> Wire:
    return Wire(profiles=profiles, nodes=NODES, settings=settings)


@pytest.mark.parametrize("settings", [{}, {"extender.ignorable": True}])
def test_a_pod_of_an_unknown_scheduler_is_rejected_on_every_node_for_good(
    settings: dict[str, Any],
) -> None:
    wire = server(**settings)
    said = wire.filter(of("gang2"))
    # An error would let it pass where kube-scheduler ignores errors; no eviction makes a profile.
    assert (said.kept, said.error) == ([], "")
    assert said.unresolvable == {"sunny": UNKNOWN, "dark": UNKNOWN}
    assert wire.filter(of("idle")).rejected == {}
    assert wire.prioritize(of("gang2")).scores == {}
    assert wire.preempt(of("gang2"), {"sunny": ["u"]}).victims == {}


BINDING: dict[str, tuple[dict[str, list[Any]], dict[str, Any]]] = {
    "a plugin binds": ({"gang": [Steps(reserve=None)], "idle": []}, {}),
    "no plugin binds": ({"gang": [Steps("filter", score=1)], "idle": []}, {"extender.bind": True}),
    "no plugin": ({"gang": [], "idle": []}, {"extender.bind": True}),
    "a guard": ({"gang": [Steps("filter", score=1)], "idle": []}, {"guard.resources": True}),
}


@pytest.mark.parametrize("case", BINDING)
def test_a_pod_of_an_unknown_scheduler_is_not_bound_unless_it_is_passed_through(case: str) -> None:
    profiles, settings = BINDING[case]
    wire = server(profiles, **settings)
    wire.pods.unwatched += [of("gang2"), of("idle", "known")]
    assert wire.bind(of("gang2"), "sunny").error == UNKNOWN
    labels = {"verb": "bind", "result": "unknown_scheduler"}
    assert wire.metric("kubextend_verb_requests_total", **labels) == 1
    assert wire.bind(of("idle", "known"), "sunny").error == ""
    assert wire.binder.bound == {"uid-of-known": "sunny"}
    passing = server(profiles, **settings, passThrough=["gang2", "other"])
    passing.pods.unwatched += [of("gang2")]
    assert passing.bind(of("gang2"), "dark").error == ""
    assert passing.binder.bound == {"uid-of-p": "dark"}
    assert [each.calls for each in profiles["gang"] if each.calls] == []


@pytest.mark.parametrize("spec", [{}, {"schedulerName": ""}])
@pytest.mark.parametrize("passed", [[], ["default-scheduler"]])
def test_a_pod_without_a_scheduler_name_is_one_of_default_scheduler(
    spec: dict[str, str], passed: list[str]
) -> None:
    """A pod without a schedulerName is default-scheduler's; v1.37 pkg/apis/core/v1/defaults.go."""
    unnamed = {"metadata": pod("p")["metadata"], "spec": spec}
    rejected = server(passThrough=passed).filter(unnamed).rejected
    assert rejected == ({} if passed else {"sunny": UNLIKE, "dark": UNLIKE})
    assert server({"default-scheduler": PLUGINS["gang"]}).filter(unnamed).kept == ["sunny"]


def test_many_profiles_and_a_long_name_make_no_long_answer() -> None:
    wire = server({f"gang-{number:02}": [] for number in range(60)} | PLUGINS)
    (said,) = {*wire.filter(of("x" * 100_000)).rejected.values()}
    assert len(said) < 500
    assert "; add it, or list it in passThrough" in said
    assert "gang-00" in said


def test_rejections_are_counted_and_logged_once_a_name(caplog: pytest.LogCaptureFixture) -> None:
    wire = server(passThrough=["other"])
    # An alert sees the first one too: it is counted from 0 on.
    counter = 'kubextend_verb_requests_total{result="unknown_scheduler",verb="filter"}'
    assert f"{counter} 0.0" in page_of_metrics(wire)
    for scheduler in ("gang2", "gang2", "gang", "other", "gang3"):
        wire.filter(of(scheduler))
    for result, count in (("unknown_scheduler", 3), ("ok", 2)):
        labels = {"verb": "filter", "result": result}
        assert wire.metric("kubextend_verb_requests_total", **labels) == count
    warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    third = UNKNOWN.replace("gang2", "gang3")
    assert warned == [f"pod ml/p is rejected: {said}" for said in (UNKNOWN, third)]


# What people are told.


def why(wire: Wire, folder: Path, known: Any) -> tuple[str, str]:
    """Return the cause and the sentence of ``kubextend why`` from the records about a pod."""
    facts = {"namespace": "ml", "name": "p", "pod": known, "pod_unknown": "" if known else "no API"}
    facts["decisions"] = wire.get("/decisions?pod=ml/p").json
    capture = write(folder / "facts.json", {"facts": facts})
    said = json.loads(run("why", "--file", capture, "--output", "json").output)
    return said["cause"], said["sentence"]


def unscheduled(known: Mapping[str, Any], message: str) -> dict[str, Any]:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return {**known, "status": {"conditions": [condition | {"message": message}]}}


def test_why_names_the_profile_that_was_meant(tmp_path: Path) -> None:
    wire, asked = server(), of("gang2")
    wire.filter(asked)
    message = f"0/2 nodes are available: 2 {UNKNOWN}. no new claims to deallocate."
    for known in (unscheduled(asked, message), asked, None):
        cause, sentence = why(wire, tmp_path, known)
        assert cause == "Rejected"
        assert sentence.startswith("kubextend rejected 2 nodes: ")
        assert sentence.endswith(UNKNOWN)
    rows = wire.get("/decisions/uid-of-p/nodes").json["items"]
    found = {row["node"]: (row["reason"], row["unresolvable"]) for row in rows}
    assert found == {"sunny": (UNKNOWN, True), "dark": (UNKNOWN, True)}
    # After a restart kube-scheduler's message is all that is left.
    assert UNKNOWN in why(server(), tmp_path, unscheduled(asked, message))[1]


@pytest.mark.parametrize(
    ("scheduler", "cause", "said"),
    [
        ("gang2", "NoScheduler", "did you mean gang?"),
        ("other", "NotTried", "a kube-scheduler runs with the profile other"),
    ],
)
def test_why_looks_for_a_scheduler_of_a_pod_that_nobody_has_tried(
    scheduler: str, cause: str, said: str, tmp_path: Path
) -> None:
    found, sentence = why(server(passThrough=["other"]), tmp_path, of(scheduler))
    assert found == cause
    assert said in sentence


def test_why_blames_no_profile_for_a_pod_that_another_scheduler_rejected(tmp_path: Path) -> None:
    asked = unscheduled(of("other"), "0/2 nodes are available: 2 Insufficient cpu.")
    cause, sentence = why(server(), tmp_path, asked)
    assert cause != "Rejected"
    assert "profile" not in sentence


@pytest.mark.parametrize(
    ("passed", "scheduler", "kept", "last"),
    [
        ([], "gang2", [], f"pod ml/p: {UNKNOWN}"),
        (["gang2"], "gang2", ["sunny", "dark"], "pod ml/p: passThrough lists gang2, so it passes"),
        (["gang2"], "gang", ["sunny"], "pod ml/p, profile gang"),
    ],
)
def test_the_offline_filter_says_why_a_pod_is_rejected_or_passes(
    passed: list[str], scheduler: str, kept: list[str], last: str, tmp_path: Path
) -> None:
    args = {"filters": [{"nodeSelector": "sunny", "reason": "node lies in the shade"}]}
    gang = profile("gang", filter="LabelMatch") | {
        "pluginConfig": [{"name": "LabelMatch", "args": args}]
    }
    tree = configuration(profiles=[gang, profile("idle")], passThrough=passed)
    request = write(tmp_path / "request.json", whole_request(of(scheduler), NODES).decode())
    done = run("filter", request, "--config", write(tmp_path / "kubextend.yaml", tree))
    assert done.exit_code == 0
    *rows, footer = done.stdout.splitlines()
    assert footer.startswith(last)
    assert [row.split()[0] for row in rows if " kept" in row] == kept
