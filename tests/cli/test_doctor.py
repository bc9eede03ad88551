"""``kubextend doctor`` against stand-ins for the Kubernetes API, kubextend and Prometheus."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.doors.answering import Answering, closed_port, kubeconfig_for, listening, says
from tests.doors.certificates import Authority
from tests.doors.command_line import Result, configuration, enabled, profile, run, write

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("in_a_folder")]

GROUP = "kubescheduler.config.k8s.io"
POLICIES = "/apis/admissionregistration.k8s.io/v1"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
VERSION = {"gitVersion": "v1.37.0"}
SCORED = profile(score="NodeResourcesAllocatable")
QUEUE = profile(queueSort="PrioritySort")


def doctor(*options: object, **sections: Any) -> Result:
    file = write(Path("kubextend.yaml"), configuration(**{"server": {"port": 1}} | sections))
    return run("doctor", "--config", file, *options)


Found = dict[str, list[tuple[str, str, str]]]


def findings(*options: object, **sections: Any) -> Found:
    """Return verdict, message and hint of what each check finds, by the name of the check."""
    result = doctor("--output", "json", *options, **sections)
    found: Found = {}
    for each in json.loads(result.stdout):
        assert each.keys() == {"check", "verdict", "looked_at", "message", "hint"}
        found.setdefault(each["check"], []).append((each["verdict"], each["message"], each["hint"]))
    errors = sum(each[0] == "error" for told in found.values() for each in told)
    assert result.exit_code == min(1, errors)
    return found


def in_cluster(api: Answering, *options: object, **sections: Any) -> Found:
    api.objects = {"/version": VERSION, REVIEWS: {"status": {"allowed": True}}, **api.objects}
    with listening(api) as url:
        kubeconfig = str(kubeconfig_for(url, Path.cwd()))
        options = ("--kubeconfig", kubeconfig, *options)
        return findings(*options, **{"cluster": {"kubeconfig": kubeconfig}} | sections)


def at(later: timedelta) -> str:
    return f"{datetime.now(UTC) + later:%Y-%m-%dT%H:%M:%SZ}"


def verdicts(found: Found, check: str) -> list[str]:
    """Return the verdicts of a check, without that of a check that finds nothing."""
    return [verdict for verdict, _, _ in found[check] if verdict != "ok"]


@pytest.mark.parametrize(("ahead_s", "wrong"), [(4, False), (20, True), (-20, True)])
def test_a_clock_that_differs_by_more_than_five_seconds_is_an_error(
    ahead_s: int, wrong: bool
) -> None:
    def review() -> dict[str, Any]:
        return {"metadata": {"creationTimestamp": at(timedelta(seconds=ahead_s))}}

    api = Answering({"/apis/authentication.k8s.io/v1/selfsubjectreviews": review})
    assert verdicts(in_cluster(api), "clock") == ["error"] * wrong


@pytest.mark.parametrize(
    ("version", "sections", "text"),
    [
        ("1.32", {}, "not tested"),
        ("1.38", {}, "not tested"),
        ("1.35", {"cluster": {}, "profiles": [QUEUE]}, "does not serve the policy"),
    ],
)
def test_the_doctor_says_what_is_known_of_a_version(
    version: str, sections: dict[str, Any], text: str
) -> None:
    ((_, message, _),) = findings("--kube-version", version, **sections)["kube-version"]
    assert text in message
    newest = findings("--kube-version", "1.37", **sections)
    assert verdicts(newest, "kube-version") == []


@pytest.mark.parametrize(
    ("answer", "check", "verdict", "words"),
    [
        (
            {"gitVersion": "v0.0.0-master+$Format:%H$"},
            *("kube-version", "skipped", "does not know its version"),
        ),
        ({"gitVersion": "v0.0.0"}, "kube-version", "skipped", "does not know its version"),
        ("<html>log in</html>", "api-reachable", "error", "GET /version"),
        ("[]", "api-reachable", "error", "GET /version"),
    ],
)
def test_a_version_that_is_none_is_told(answer: Any, check: str, verdict: str, words: str) -> None:
    ((told, message, hint),) = in_cluster(Answering({"/version": answer}))[check]
    assert (told, words in message) == (verdict, True)
    # That is no reason for another kubextend.
    assert hint == "give --kube-version" or check != "kube-version"


@pytest.mark.parametrize(
    ("changed", "points"),
    [
        ({}, []),
        ({"plugins": {"score": {"disabled": [{"name": "NodeAffinity"}]}}}, []),
        ({"plugins": {"filter": {"disabled": [{"name": "NodeAffinity"}]}}}, ["filter"]),
        ({"plugins": {"multiPoint": {"disabled": [{"name": "*"}]}}}, ["filter"]),
    ],
)
def test_compiled_rules_that_kube_scheduler_does_not_look_at_are_told(
    changed: dict[str, Any], points: list[str]
) -> None:
    others = {"schedulerName": "other", "plugins": {"filter": {"disabled": [{"name": "*"}]}}}
    theirs = {"apiVersion": f"{GROUP}/v1", "kind": "KubeSchedulerConfiguration"}
    theirs |= {"profiles": [{"schedulerName": "default-scheduler", **changed}, others]}
    found = findings("--with-admission", "--scheduler", write(Path("k.yaml"), theirs))
    whose = "the profile default-scheduler disables NodeAffinity at"
    why = "kube-scheduler does not see the rules that admission policies put on pods"
    said = [text for _, text, _ in found["scheduler-file"] if "NodeAffinity" in text]
    assert said == [f"{whose} {point}: {why}" for point in points]


def installed(*policies: Any) -> Answering:
    """Return an API that has these admission policies and bindings."""
    plurals = {
        f"{kind}AdmissionPolicy{end}": f"{kind.lower()}admissionpolic{plural}"
        for kind in ("Mutating", "Validating")
        for end, plural in (("", "ies"), ("Binding", "ybindings"))
    }
    return Answering(
        {
            f"{POLICIES}/{plural}": {"items": [each for each in policies if each["kind"] == kind]}
            for kind, plural in plurals.items()
        }
    )


def written(**sections: Any) -> list[Any]:
    file = write(Path("rules.yaml"), configuration(**sections))
    return [*yaml.safe_load_all(run("admission", "--config", file).stdout)]


def test_policies_that_the_cluster_lacks_or_that_somebody_changed_are_told() -> None:
    policies = written()
    right = in_cluster(installed(*policies), "--with-admission")
    assert verdicts(right, "admission-policies") == []
    missing = in_cluster(installed(), "--with-admission")["admission-policies"]
    assert [verdict for verdict, _, _ in missing] == ["error"] * 4
    assert "MutatingAdmissionPolicy/kubextend-rule-" in missing[0][1]
    assert "apply what `kubextend admission` prints" in missing[0][2]
    policies[3]["spec"]["validationActions"] = ["Warn"]
    found = in_cluster(installed(*policies), "--with-admission")
    ((verdict, message, hint),) = found["admission-policies"]
    assert verdict == "error"
    assert message.endswith("differs at spec.validationActions")
    assert "who changed it" in hint
    refused = doctor("--with-admission", "--kube-version", "1.35")
    assert "kube-apiserver 1.35 serves no MutatingAdmissionPolicy" in refused.stderr
    # A policy of no rule may be of another kubextend.
    left = {"kind": "ValidatingAdmissionPolicy", "metadata": {"name": "kubextend-rule-1"}}
    found = in_cluster(installed(left), "--with-admission", profiles=[SCORED])
    ((verdict, _, hint),) = found["admission-policies"]
    assert verdict == "warning"
    assert "kubectl delete ValidatingAdmissionPolicy/kubextend-rule-1" in hint


@pytest.mark.parametrize(
    ("status", "verdict", "text"),
    [
        (404, "error", "serves no MutatingAdmissionPolicy"),
        (403, "skipped", "the policies cannot be listed"),
    ],
)
def test_an_api_that_shows_no_policies_is_told(status: int, verdict: str, text: str) -> None:
    shows = {404: Answering(unserved=POLICIES), 403: installed()}[status]
    shows.forbidden = set(shows.objects)
    ((said, message, hint),) = in_cluster(shows, "--with-admission")["admission-policies"]
    assert (said, text in message) == (verdict, True)
    assert "give --kubeconfig" in hint or "--with-admission" in hint
    # An old API is no mistake where no rule is compiled.
    old = in_cluster(Answering(unserved=POLICIES), "--with-admission", profiles=[SCORED])
    assert verdicts(old, "admission-policies") == []


def test_nobody_looks_for_a_kubextend_where_every_rule_is_compiled() -> None:
    server = {"port": 1, "lease": {"name": "kubextend", "namespace": "here"}}
    found = in_cluster(installed(*written()), "--with-admission", server=server)
    for check in ("server-reachable", "server-verbs", "api-reachable", "rights-missing"):
        ((verdict, message, _),) = found[check]
        assert verdict == "skipped"
        assert "no kubextend is needed" in message
    assert verdicts(found, "leases") == []
    called = in_cluster(installed(), server=server)
    assert called["leases"][0][1].startswith("nobody holds the Lease here/kubextend")
    assert verdicts(called, "server-reachable") == ["error"]
    left = [profile(filter="HighCommPodFilter", score="NodeResourcesAllocatable")]
    partly = in_cluster(installed(), "--with-admission", profiles=left)
    assert verdicts(partly, "server-reachable") == ["error"]


def pending(scheduler: str, *gates: str, age: timedelta = timedelta(), number: int = 0) -> Any:
    name = f"p{number}-{scheduler}"
    metadata = {"name": name, "namespace": "n", "uid": name, "creationTimestamp": at(-age)}
    named = [{"name": gate} for gate in gates]
    return {"metadata": metadata, "spec": {"schedulerName": scheduler, "schedulingGates": named}}


def with_pods(*pods: Any, **sections: Any) -> Found:
    listed = {"kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": [*pods]}
    return in_cluster(Answering({"/api/v1/pods": listed}), **sections)


def test_a_tenant_who_makes_up_names_floods_no_report() -> None:
    made_up = [
        pending(f"default-schedulerr{number:03}", f"kubextend.dev/queue{number:03}", number=number)
        for number in range(500)
    ]
    common = [pending("default-schedulr", "kubextend.dev/queu", number=n) for n in range(2)]
    found = with_pods(*made_up, *common)
    for check in ("gates", "scheduler-names"):
        assert len(found[check]) == 20
        assert found[check][0][1].startswith("2 pods")


def test_the_gate_of_the_queue_is_right_on_its_pods_alone_and_another_one_for_an_hour() -> None:
    pods = [pending(name, "kubextend.dev/queue") for name in ("default-scheduler", "trains")]
    ((verdict, message, _),) = with_pods(*pods, profiles=[QUEUE])["gates"]
    assert verdict == "error"
    assert message.startswith("1 pods of trains have the gate kubextend.dev/queue")

    for minutes, told in ((59, []), (61, ["warning"])):
        pod = pending("default-scheduler", "example.com/quota", age=timedelta(minutes=minutes))
        assert verdicts(with_pods(pod), "gates") == told


def test_the_default_scheduler_is_no_misspelt_name() -> None:
    pods = [pending(name) for name in ("default-scheduler", "default-scheduler-3")]
    profiles = [{"schedulerName": "default-scheduler-2"}]
    ((_, message, _),) = with_pods(*pods, profiles=profiles)["scheduler-names"]
    assert message.startswith("1 pods wait for the scheduler default-scheduler-3")


@pytest.mark.parametrize(
    ("measured", "verdict", "text"),
    [
        # The last one is a machine that is no node of this cluster.
        ("a b c", "ok", ""),
        ("a", "warning", "TargetLoadPacking has no number for the nodes b"),
        ("10.0.0.1", "error", "no series of TargetLoadPacking names a node of the cluster: 10.0"),
    ],
)
def test_every_node_needs_a_number_of_prometheus(measured: str, verdict: str, text: str) -> None:
    result = [{"metric": {"instance": name}, "value": [1.0, "7"]} for name in measured.split()]
    data = {"resultType": "vector", "result": result}
    nodes = {"items": [{"metadata": {"name": name}} for name in "ab"]}
    prometheus = Answering({"/api/v1/query": {"status": "success", "data": data}})
    with listening(prometheus) as url:
        entry = {"name": "TargetLoadPacking", "args": {"prometheusAddress": url}}
        one = {**profile(score="TargetLoadPacking"), "pluginConfig": [entry]}
        found = in_cluster(Answering({"/api/v1/nodes": nodes}), profiles=[one])
    ((told, message, _),) = found["metric-sources"]
    assert told == verdict
    assert message.startswith(text)


@pytest.mark.parametrize(("days", "told"), [(6, True), (8, False)])
def test_a_certificate_is_told_a_week_before_its_end(days: int, told: bool, tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ca")
    pair = authority.sign("server", lasts=timedelta(days=days))
    with listening(Answering({"/livez": "ok"}), pair) as url:
        extender = {"urlPrefix": url, "tlsConfig": {"caFile": str(authority.file)}}
        found = findings(extender=extender)
    assert verdicts(found, "server-certificate") == ["warning"] * told
    assert verdicts(found, "server-reachable") == []


@pytest.mark.parametrize(
    ("served", "said"),
    [
        ("filter preempt", []),
        ("filter preempt bind", ["serves bind"]),
        ("preempt", ["does not serve filter"]),
        # Another server answers.
        ("", []),
    ],
)
def test_a_verb_that_is_served_or_missing_against_the_configuration_is_told(
    served: str, said: list[str]
) -> None:
    page = 'kubextend_configuration_info{sha256="0"} 1\n' if served else ""
    for verb in served.split():
        page += f'kubextend_verb_requests_total{{result="unknown_scheduler",verb="{verb}"}} 0.0\n'
    with listening(Answering({"/metrics": page, "/livez": "ok"})) as url:
        found = findings(extender={"urlPrefix": url})["server-verbs"]
    assert [message for verdict, message, _ in found if verdict != "ok"] == [
        f"the kubextend that runs {each}, other than the configuration says" for each in said
    ]


@pytest.mark.parametrize("sections", [{}, {"cluster": {}}])
def test_credentials_of_serve_alone_are_told_to_be_missing_in_the_configuration(
    sections: dict[str, Any],
) -> None:
    found = findings("--kubeconfig", "elsewhere", **sections)
    for check in ("api-reachable", "rights-missing"):
        ((verdict, message, hint),) = found[check]
        assert verdict == "skipped"
        assert "set cluster.kubeconfig to FILE" in message + hint
        assert "name one with --kubeconfig" not in message + hint


def test_a_server_that_closes_the_connection_is_no_server_to_start() -> None:
    with says() as address:
        found = findings(extender={"urlPrefix": f"http://{address}"})
    ((verdict, _, hint),) = found["server-reachable"]
    assert verdict == "error"
    assert "start kubextend" not in hint
    assert "server.tls.clientCAFile" in hint
    assert "does it speak https" in hint


def test_nothing_is_said_to_be_well_that_could_not_be_looked_at() -> None:
    with closed_port() as closed:
        found = findings(extender={"urlPrefix": f"http://{closed}"})
        tls = {"urlPrefix": f"https://{closed}", "tlsConfig": {"caFile": "absent.pem"}}
        elsewhere = findings(extender=tls)
    assert verdicts(found, "server-reachable") == ["error"]
    assert verdicts(found, "node-mode") == ["warning"]
    refused = "no answer: Connection refused"
    access = "there is no access to the Kubernetes API"
    missing = "absent.pem cannot be read here"
    for where, checks, why in (
        (found, ("server-ready", "server-verbs"), refused),
        (found, ("gates", "scheduler-names"), access),
        (elsewhere, ("server-reachable", "server-certificate", "server-ready"), missing),
    ):
        for check in checks:
            ((verdict, message, _),) = where[check]
            assert verdict == "skipped"
            assert why in message


def test_the_table_says_what_to_do_and_once_why_several_checks_cannot_look() -> None:
    result = doctor(cluster={})
    lines = result.stdout.splitlines()
    assert result.exit_code == 1
    assert result.stderr.endswith("found\n")
    (at,) = (row for row, line in enumerate(lines) if "server-reachable" in line)
    assert lines[at].startswith("error   server-reachable: kubextend at the URL")
    assert lines[at + 1].startswith("        do: start kubextend, or set extender.urlPrefix")
    reason = "kubextend's own credentials cannot be used"
    (first,) = (line for line in lines if reason in line)
    name = first.split()[1].removesuffix(":")
    for check in ("clock", "rights-missing", "leases", "gates"):
        (row,) = (line for line in lines if f" {check}: " in line)
        assert row.endswith(f": see {name}")
    found = findings(cluster={})
    assert all(reason in found[check][0][1] for check in ("clock", "gates"))


def test_the_doctor_names_a_right_that_kubextend_lacks() -> None:
    denied = Answering({REVIEWS: {"status": {"allowed": False}}})
    found = in_cluster(denied, profiles=[{"plugins": {"filter": enabled("HighCommPodFilter")}}])
    assert "kubextend may not list nodes" in {message for _, message, _ in found["rights-missing"]}
