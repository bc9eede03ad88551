"""The doctor's checks that need no cluster, and its command.

What it finds on a real cluster is in tests/e2e.
"""

import json
import socket
import ssl
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest
import yaml
from click.testing import CliRunner

from kubextend import cluster, config
from kubextend.cli import main
from kubextend.cluster.api_call import Call, RefusedError, UnreachableError
from kubextend.config.admission_policies import policies
from kubextend.config.admission_rules import compile_rules
from kubextend.config.kube_versions import KubeVersion
from kubextend.doctor import CHECKS, Examined, Verdict, cluster_checks, examine, server_checks
from kubextend.doctor.cluster_checks import (
    admission_policies,
    clock,
    gates,
    leases,
    metric_sources,
    scheduler_names_of_pods,
)
from kubextend.doctor.configuration_checks import kube_version, scheduler_file
from kubextend.doctor.server_checks import (
    certificate_end,
    reachable,
    verbs_served,
)
from kubextend.plugins import IN_TREE
from kubextend.prometheus.vector import Vector

ROOT = Path(__file__).resolve().parents[2]


def loaded(folder: Path, **fields: Any) -> config.ExtenderConfiguration:
    file = folder / "kubextend.yaml"
    whole = {
        "apiVersion": "kubextend.dev/v1alpha1",
        "kind": "ExtenderConfiguration",
        "server": {"port": 1},
        "profiles": [{"plugins": {"filter": {"enabled": [{"name": "HighCommPodFilter"}]}}}],
        **fields,
    }
    file.write_text(yaml.safe_dump(whole))
    return config.load(file, known=IN_TREE, runs_here=False)


class Api:
    """Stands in for the connection to the Kubernetes API."""


@pytest.mark.parametrize(
    ("ahead_s", "wrong"), [(0, False), (4, False), (-4, False), (20, True), (-20, True)]
)
def test_a_clock_that_differs_by_more_than_five_seconds_is_an_error(
    ahead_s: int, wrong: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def api_time(_api: object) -> datetime:
        return (datetime.now(UTC) + timedelta(seconds=ahead_s)).replace(microsecond=0)

    monkeypatch.setattr(cluster, "api_time", api_time)
    examined = Examined(loaded(tmp_path))
    examined.__dict__["api"] = Api()
    assert [problem.verdict for problem in clock(examined)] == [Verdict.ERROR] * wrong


@pytest.mark.parametrize(
    ("version", "fields", "text"),
    [
        ("1.32", {}, "not tested"),
        ("1.36", {"extender": {"preemptGroups": True}, "cluster": {}}, "evicts no pod group"),
        (
            "1.35",
            {
                "cluster": {},
                "profiles": [{"plugins": {"queueSort": {"enabled": [{"name": "PrioritySort"}]}}}],
            },
            "does not serve the policy",
        ),
    ],
)
def test_what_is_known_of_a_version_is_said(
    version: str, fields: dict[str, Any], text: str, tmp_path: Path
) -> None:
    examined = Examined(loaded(tmp_path, **fields), kube_version=KubeVersion.parse(version))
    assert [text in problem.message for problem in kube_version(examined)] == [True]
    newest = Examined(loaded(tmp_path, **fields), kube_version=KubeVersion.parse("1.37"))
    assert list(kube_version(newest)) == []


@pytest.mark.parametrize("said", ["v0.0.0-master+$Format:%H$", "v0.0.0"])
def test_an_api_that_does_not_know_its_version_is_no_reason_for_another_kubextend(
    said: str, tmp_path: Path
) -> None:
    examined = Examined(loaded(tmp_path))
    examined.__dict__["server_version"] = said
    [problem] = kube_version(examined)
    assert (problem.verdict, problem.hint) == (Verdict.SKIPPED, "give --kube-version")
    assert "does not know its version" in problem.message


@pytest.mark.parametrize("body", [b"<html>log in</html>", b"[]"])
def test_an_answer_that_is_not_of_the_api_is_an_error_of_the_check(body: bytes) -> None:
    class Proxy:
        def request(self, _: Call) -> bytes:
            return body

    with pytest.raises(UnreachableError, match="GET /version"):
        cluster.server_version(cast("Any", Proxy()))


SCORED = {"enabled": [{"name": "NodeResourcesAllocatable"}]}
# HighCommPodFilter is compiled; nothing else.
PARTLY = [{"plugins": {"filter": {"enabled": [{"name": "HighCommPodFilter"}]}, "score": SCORED}}]


def with_admission(given: config.ExtenderConfiguration) -> Examined:
    compiled = compile_rules(given)
    return Examined(compiled.rest, rules=compiled.pod_rules)


class Policies:
    """Stands in for an API that serves these objects, and answers some requests by a refusal.

    Args:
        objects: the policies and bindings that the API has.
        status: the status of the refusal; None: nothing is refused.
    """

    def __init__(self, objects: list[Any], status: int | None = None) -> None:
        self._objects = objects
        self._status = status

    def request(self, call: Call) -> bytes:
        if self._status is not None:
            raise RefusedError(call, self._status, "no")
        plural = call.path.rsplit("/", 1)[1]
        listed = [each for each in self._objects if plural in plurals(each["kind"])]
        return json.dumps({"items": listed}).encode()


def plurals(kind: str) -> tuple[str, str]:
    return f"{kind.lower()}s", f"{kind.lower().removesuffix('y')}ies"


@pytest.mark.parametrize(
    ("profile", "messages"),
    [
        ({}, []),
        ({"plugins": {"score": {"disabled": [{"name": "NodeAffinity"}]}}}, []),
        ({"plugins": {"filter": {"disabled": [{"name": "NodeAffinity"}]}}}, ["filter"]),
        ({"plugins": {"multiPoint": {"disabled": [{"name": "*"}]}}}, ["filter"]),
    ],
)
def test_compiled_rules_that_kube_scheduler_does_not_look_at_are_told(
    profile: dict[str, Any], messages: list[str], tmp_path: Path
) -> None:
    examined = with_admission(loaded(tmp_path))
    scheduler = tmp_path / "kube-scheduler.yaml"
    others = {"schedulerName": "other", "plugins": {"filter": {"disabled": [{"name": "*"}]}}}
    written = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "default-scheduler", **profile}, others],
    }
    scheduler.write_text(yaml.safe_dump(written))
    found = [
        problem.message
        for problem in scheduler_file(replace(examined, scheduler=scheduler))
        if "NodeAffinity" in problem.message
    ]
    assert found == [
        f"the profile default-scheduler disables NodeAffinity at {point}: kube-scheduler does not "
        "see the rules that admission policies put on pods"
        for point in messages
    ]


def test_policies_that_the_cluster_lacks_or_that_somebody_changed_are_told(tmp_path: Path) -> None:
    examined = with_admission(loaded(tmp_path, cluster={}))
    assert examined.rules
    written = [json.loads(json.dumps(each)) for each in policies(examined.rules)]
    examined.__dict__["api"] = Policies(written)
    assert list(admission_policies(examined)) == []
    examined.__dict__["api"] = Policies([])
    missing = list(admission_policies(examined))
    assert [each.verdict for each in missing] == [Verdict.ERROR] * 4
    assert "MutatingAdmissionPolicy/kubextend-rule-" in missing[0].message
    assert "apply what `kubextend admission` prints" in missing[0].hint
    changed = [*written[:3], {**written[3], "spec": {**written[3]["spec"]}}]
    changed[3]["spec"]["validationActions"] = ["Warn"]
    examined.__dict__["api"] = Policies(changed)
    [problem] = admission_policies(examined)
    assert problem.verdict is Verdict.ERROR
    assert problem.message.endswith("differs at spec.validationActions")
    assert "who changed it" in problem.hint


def test_a_policy_of_no_rule_may_be_of_another_kubextend(tmp_path: Path) -> None:
    examined = with_admission(
        loaded(tmp_path, cluster={}, profiles=[{"plugins": {"score": SCORED}}])
    )
    left = {"kind": "ValidatingAdmissionPolicy", "metadata": {"name": "kubextend-rule-1"}}
    examined.__dict__["api"] = Policies([left])
    [problem] = admission_policies(examined)
    assert problem.verdict is Verdict.WARNING
    assert "kubectl delete ValidatingAdmissionPolicy/kubextend-rule-1" in problem.hint


@pytest.mark.parametrize(
    ("status", "verdict", "text"),
    [
        (404, Verdict.ERROR, "serves no MutatingAdmissionPolicy"),
        (403, Verdict.SKIPPED, "the policies cannot be listed"),
    ],
)
def test_an_api_that_shows_no_policies_is_told(
    status: int, verdict: Verdict, text: str, tmp_path: Path
) -> None:
    examined = with_admission(loaded(tmp_path, cluster={}))
    examined.__dict__["api"] = Policies([], status)
    [problem] = admission_policies(examined)
    assert (problem.verdict, text in problem.message) == (verdict, True)
    assert "give --kubeconfig" in problem.hint or "--with-admission" in problem.hint


def test_an_old_api_is_no_mistake_where_no_rule_is_compiled(tmp_path: Path) -> None:
    examined = with_admission(
        loaded(tmp_path, cluster={}, profiles=[{"plugins": {"score": SCORED}}])
    )
    examined.__dict__["api"] = Policies([], 404)
    assert list(admission_policies(examined)) == []


def test_where_every_rule_is_compiled_nobody_looks_for_a_kubextend(tmp_path: Path) -> None:
    lease = {"lease": {"name": "kubextend", "namespace": "here"}}
    given = loaded(tmp_path, cluster={}, server={"port": 1, **lease})
    examined = with_admission(given)
    examined.__dict__["own"] = examined.__dict__["api"] = Policies([], 403)
    found = {finding.check: finding for finding in examine(examined)}
    for name in ("server-reachable", "server-verbs", "api-reachable", "rights-missing"):
        assert found[name].verdict is Verdict.SKIPPED
        assert "no kubextend is needed" in found[name].message
    assert list(leases(examined)) == []
    called = Examined(given)
    called.__dict__["own"] = called.__dict__["api"] = Policies([], 403)
    assert next(iter(leases(called))).message.startswith("the Lease here/kubextend")
    assert {each.check: each for each in examine(called)}["server-reachable"].verdict is (
        Verdict.ERROR
    )


def test_where_a_rule_is_left_its_kubextend_is_looked_for(tmp_path: Path) -> None:
    examined = with_admission(loaded(tmp_path, profiles=PARTLY))
    assert examined.config.verbs == ("prioritize",)
    found = {finding.check: finding.verdict for finding in examine(examined)}
    assert found["server-reachable"] is Verdict.ERROR


def test_the_command_takes_the_option_that_serve_takes(tmp_path: Path) -> None:
    loaded(tmp_path)
    options = ["doctor", "--config", str(tmp_path / "kubextend.yaml"), "--with-admission"]
    done = CliRunner().invoke(main, options)
    assert done.exit_code == 0
    (line,) = (each for each in done.stdout.splitlines() if "no kubextend is needed" in each)
    assert line.startswith("skipped certificate-name: ")
    (row,) = (each for each in done.stdout.splitlines() if " server-reachable: " in each)
    assert row.endswith(": see certificate-name")
    refused = CliRunner().invoke(main, [*options, "--kube-version", "1.35"])
    assert refused.exit_code == 1
    assert "kube-apiserver 1.35 serves no MutatingAdmissionPolicy" in refused.stderr


def test_each_check_says_something_about_a_configuration_alone(tmp_path: Path) -> None:
    findings = list(examine(Examined(loaded(tmp_path))))
    assert [finding.check for finding in findings] == [check.name for check in CHECKS]
    verdicts = {finding.check: finding.verdict for finding in findings}
    assert verdicts["server-reachable"] is Verdict.ERROR
    assert verdicts["rights-missing"] is Verdict.SKIPPED
    assert verdicts["node-mode"] is Verdict.WARNING


@pytest.mark.parametrize("check", [gates, scheduler_names_of_pods])
def test_a_tenant_who_makes_up_names_floods_no_report(check: Any, tmp_path: Path) -> None:
    made_up = [
        (f"default-schedulerr{number:03}", f"kubextend.dev/queue{number:03}")
        for number in range(500)
    ]
    common = [("default-schedulr", "kubextend.dev/queu")] * 2
    pods = [
        SimpleNamespace(scheduler_name=name, scheduling_gates=[gate], creation_timestamp="")
        for name, gate in made_up + common
    ]
    examined = Examined(loaded(tmp_path))
    vars(examined)["pending_pods"] = pods
    messages = [message for _, message, _ in check(examined)]
    assert len(messages) == 20
    assert messages[0].startswith("2 pods")


def waiting_pod(scheduler: str, *gates: str, age: timedelta = timedelta()) -> SimpleNamespace:
    created = (datetime.now(UTC) - age).isoformat()
    return SimpleNamespace(
        scheduler_name=scheduler, scheduling_gates=[*gates], creation_timestamp=created
    )


def test_the_gate_of_the_queue_is_in_order_on_the_pods_of_a_queue_alone(tmp_path: Path) -> None:
    queue = {"queueSort": {"enabled": [{"name": "PrioritySort"}]}}
    examined = Examined(loaded(tmp_path, cluster={}, profiles=[{"plugins": queue}]))
    vars(examined)["pending_pods"] = [
        waiting_pod(name, "kubextend.dev/queue") for name in ("default-scheduler", "trains")
    ]
    [problem] = gates(examined)
    assert problem.verdict is Verdict.ERROR
    assert problem.message.startswith("1 pods of trains have the gate kubextend.dev/queue")


@pytest.mark.parametrize(("minutes", "told"), [(59, False), (61, True)])
def test_the_gate_of_another_controller_is_told_after_an_hour(
    minutes: int, told: bool, tmp_path: Path
) -> None:
    examined = Examined(loaded(tmp_path))
    pod = waiting_pod("default-scheduler", "example.com/quota", age=timedelta(minutes=minutes))
    vars(examined)["pending_pods"] = [pod]
    assert [problem.verdict for problem in gates(examined)] == [Verdict.WARNING] * told


def test_the_default_scheduler_is_no_misspelt_name(tmp_path: Path) -> None:
    profiles = [{"schedulerName": "default-scheduler-2"}]
    examined = Examined(loaded(tmp_path, profiles=profiles))
    vars(examined)["pending_pods"] = [
        waiting_pod(name) for name in ("default-scheduler", "default-scheduler-3")
    ]
    [problem] = scheduler_names_of_pods(examined)
    assert problem.message.startswith("1 pods wait for the scheduler default-scheduler-3")


@pytest.mark.parametrize(
    ("measured", "verdict", "text"),
    [
        (("a", "b"), None, ""),
        # A machine that is no node of this cluster.
        (("a", "b", "c"), None, ""),
        (("a",), Verdict.WARNING, "Load has no number for the nodes b"),
        (("10.0.0.1",), Verdict.ERROR, "no series of Load names a node of the cluster: 10.0.0.1"),
    ],
)
def test_every_node_needs_a_number_of_prometheus(
    measured: tuple[str, ...],
    verdict: Verdict | None,
    text: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = SimpleNamespace(
        refresh=lambda: True,
        latest=lambda _: Vector(dict.fromkeys(measured, 1.0)),
        query=SimpleNamespace(label=SimpleNamespace(key="instance")),
    )
    monkeypatch.setattr(cluster_checks, "_sources", lambda _: [("Load", source)])
    monkeypatch.setattr(cluster, "list_node_names", lambda _: frozenset({"a", "b"}))
    examined = Examined(loaded(tmp_path))
    examined.__dict__["api"] = Api()
    found = [(problem.verdict, problem.message) for problem in metric_sources(examined)]
    assert found == ([(verdict, text)] if verdict else [])


@pytest.mark.parametrize(("days", "told"), [(-1, True), (6, True), (8, False)])
def test_a_certificate_is_told_a_week_before_its_end(
    days: int, told: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = datetime.now(UTC) + timedelta(days=days)
    sock = Mock(spec=ssl.SSLSocket)
    sock.getpeercert.return_value = {"notAfter": f"{ends:%b %d %H:%M:%S %Y} GMT"}
    monkeypatch.setattr(server_checks, "_connected", lambda _: Mock(sock=sock))
    ca_file = tmp_path / "ca.pem"
    ca_file.touch()
    extender = {"urlPrefix": "https://127.0.0.1:1", "tlsConfig": {"caFile": str(ca_file)}}
    found = list(certificate_end(Examined(loaded(tmp_path, extender=extender))))
    assert [problem.verdict for problem in found] == [Verdict.WARNING] * told


@pytest.mark.parametrize(
    ("served", "said"),
    [
        (("filter", "preempt"), []),
        (("filter", "preempt", "bind"), ["serves bind"]),
        (("preempt",), ["does not serve filter"]),
        # Another server answers.
        (None, []),
    ],
)
def test_a_verb_that_is_served_or_missing_against_the_configuration_is_told(
    served: tuple[str, ...] | None,
    said: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    page = ""
    if served is not None:
        page = 'kubextend_configuration_info{sha256="0"} 1\n' + "".join(
            f'kubextend_verb_requests_total{{result="unknown_scheduler",verb="{verb}"}} 0.0\n'
            for verb in served
        )
    monkeypatch.setattr(server_checks, "_answer", lambda *_: (200, page))
    found = list(verbs_served(Examined(loaded(tmp_path))))
    assert [problem.message for problem in found] == [
        f"the kubextend that runs {each}, other than the configuration says" for each in said
    ]


def test_credentials_of_serve_alone_are_told_to_be_missing_in_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "absent"))
    for fields in ({}, {"cluster": {}}):
        given = loaded(tmp_path, **fields)
        found = {each.check: each for each in examine(Examined(given, kubeconfig="elsewhere"))}
        for check in ("api-reachable", "rights-missing"):
            assert found[check].verdict is Verdict.SKIPPED
            said = found[check].message + found[check].hint
            assert "set cluster.kubeconfig to FILE" in said
            assert "name one with --kubeconfig" not in said


def test_a_server_that_closes_the_connection_is_no_server_to_start(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closing:

        def close_one() -> None:
            accepted, _ = closing.accept()
            with accepted:
                accepted.recv(4096)

        thread = Thread(target=close_one)
        thread.start()
        given = {"urlPrefix": f"http://127.0.0.1:{closing.getsockname()[1]}"}
        [problem] = reachable(Examined(loaded(tmp_path, extender=given)))
        thread.join()
    assert problem.verdict is Verdict.ERROR
    assert "start kubextend" not in problem.hint
    assert "server.tls.clientCAFile" in problem.hint
    assert "does it speak https" in problem.hint


def unreachable(folder: Path, scheme: str = "http", ca_file: str = "") -> Examined:
    """A configuration whose server nobody answers for, without the section ``cluster``."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        extender: dict[str, Any] = {"urlPrefix": f"{scheme}://127.0.0.1:{closed.getsockname()[1]}"}
    if ca_file:
        extender["tlsConfig"] = {"caFile": ca_file}
    return Examined(loaded(folder, extender=extender))


def test_what_a_server_that_does_not_answer_would_show_is_not_said_to_be_well(
    tmp_path: Path,
) -> None:
    found = {each.check: each for each in examine(unreachable(tmp_path))}
    assert found["server-reachable"].verdict is Verdict.ERROR
    for check in ("server-ready", "server-verbs"):
        assert found[check].verdict is Verdict.SKIPPED
        assert "no answer: Connection refused" in found[check].message


def test_what_needs_tls_files_that_are_elsewhere_is_not_said_to_be_well(tmp_path: Path) -> None:
    examined = unreachable(tmp_path, "https", str(tmp_path / "absent.pem"))
    found = {each.check: each for each in examine(examined)}
    for check in ("server-reachable", "server-certificate", "server-ready", "server-verbs"):
        assert found[check].verdict is Verdict.SKIPPED
        assert "absent.pem cannot be read here" in found[check].message


def test_pods_that_cannot_be_listed_are_not_said_to_be_well(tmp_path: Path) -> None:
    found = {each.check: each for each in examine(unreachable(tmp_path))}
    for check in ("gates", "scheduler-names"):
        assert found[check].verdict is Verdict.SKIPPED
        assert "there is no access to the Kubernetes API" in found[check].message


def test_the_command_prints_json_and_exits_with_1_for_an_error(tmp_path: Path) -> None:
    loaded(tmp_path)
    file = str(tmp_path / "kubextend.yaml")
    done = CliRunner().invoke(main, ["doctor", "--config", file, "--output", "json"])
    assert done.exit_code == 1
    findings = json.loads(done.stdout)
    assert {"check", "verdict", "looked_at", "message", "hint"} == findings[0].keys()
    assert "1 error found" in done.stderr


def test_the_table_says_once_why_several_checks_cannot_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "absent"))
    loaded(tmp_path, cluster={})
    file = str(tmp_path / "kubextend.yaml")
    table = CliRunner().invoke(main, ["doctor", "--config", file]).stdout
    reason = "kubextend's own credentials cannot be used"
    (first,) = (line for line in table.splitlines() if reason in line)
    name = first.split()[1].removesuffix(":")
    for check in ("clock", "rights-missing", "leases", "gates"):
        (row,) = (line for line in table.splitlines() if f" {check}: " in line)
        assert row.endswith(f": see {name}")
    as_json = CliRunner().invoke(main, ["doctor", "--config", file, "--output", "json"]).stdout
    found = {each["check"]: each["message"] for each in json.loads(as_json)}
    assert reason in found["clock"]
    assert reason in found["gates"]


def test_the_command_says_what_to_do(tmp_path: Path) -> None:
    loaded(tmp_path)
    done = CliRunner().invoke(main, ["doctor", "--config", str(tmp_path / "kubextend.yaml")])
    lines = done.stdout.splitlines()
    (at,) = (row for row, line in enumerate(lines) if "server-reachable" in line)
    assert lines[at].startswith("error   server-reachable: kubextend at the URL")
    assert lines[at + 1].startswith("        do: start kubextend, or set extender.urlPrefix")
