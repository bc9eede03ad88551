"""``kubextend doctor`` finds planted mistakes, and finds nothing in what deploy/ ships."""

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
import yaml

from kubextend import config as configuration
from kubextend.config.admission_rules import compile_rules
from kubextend.config.kube_versions import KubeVersion
from kubextend.doctor import Examined, Finding, Verdict, examine
from kubextend.plugins import IN_TREE

from .admission_rules import GROUP, RESOURCES, installed
from .certificates import Authority
from .controlplane import ControlPlane, NewControlPlane
from .kubeapi import MERGE, Object
from .manifests import DEPLOY
from .stack import KUBEXTEND, PLUGIN_FOLDER, Mode, Stack, run_kubextend
from .versions import KUBE, lacks, needs
from .workbench import until

SHIPPED = ("second-scheduler", "service", "static-pod")
QUEUE_GATE = "kubextend.dev/queue"


@dataclass
class Setting:
    """What the doctor examines, for a test to change.

    Attributes:
        config: kubextend's configuration.
        scheduler: kube-scheduler's.
        kube_version: the version of kube-scheduler; a kube-apiserver that is built from its Go
            module does not know its own.
        looks: whether the doctor looks with the credentials of an administrator.
        with_admission: whether the doctor takes the rules for compiled.
        namespaces: those of the test's pods, which end with the test.
    """

    config: Object
    scheduler: Object
    plane: ControlPlane
    folder: Path
    kube_version: str = KUBE
    looks: bool = False
    with_admission: bool = False
    namespaces: list[str] = field(default_factory=list)

    @property
    def entry(self) -> Object:
        """The extender entry of filter."""
        entry: Object = self.scheduler["extenders"][0]
        return entry

    @property
    def file(self) -> Path:
        """The file with kubextend's configuration as it is now."""
        file = self.folder / "kubextend.yaml"
        file.write_text(yaml.safe_dump(self.config))
        return file

    def findings(self) -> list[Finding]:
        """Return what is neither well nor skipped."""
        theirs = self.folder / "kube-scheduler.yaml"
        theirs.write_text(yaml.safe_dump(self.scheduler))
        loaded = configuration.load(self.file, known=IN_TREE, runs_here=False)
        rules = None
        if self.with_admission:
            compiled = compile_rules(loaded)
            loaded, rules = compiled.rest, compiled.pod_rules
        version = KubeVersion.parse(self.kube_version)
        kubeconfig = str(self.plane.kubeconfig("admin")) if self.looks else None
        found = examine(Examined(loaded, theirs, kubeconfig, version, rules))
        return [each for each in found if each.verdict in {Verdict.WARNING, Verdict.ERROR}]


@pytest.fixture(scope="module")
def control_plane(new_control_plane: NewControlPlane) -> ControlPlane:
    """Start a control plane without other tests: the doctor judges all its pods, rights, Leases."""
    return new_control_plane()


@pytest.fixture(scope="module")
def stack(control_plane: ControlPlane) -> Iterator[Stack]:
    running = Stack(control_plane, "doctor", Mode(tls=True, binds=True), scheduler=False)
    yield running
    running.close()


@pytest.fixture
def setting(stack: Stack, control_plane: ControlPlane, tmp_path: Path) -> Iterator[Setting]:
    config = json.loads(stack.config.read_text())
    kubeconfig = str(control_plane.kubeconfig("system:kube-scheduler"))
    options = ("--kubeconfig", kubeconfig, "--no-leader-elect")
    made = Setting(config, scheduler_of(stack.config, *options), control_plane, tmp_path)
    yield made
    for namespace in made.namespaces:
        control_plane.api.delete_pods(namespace)


def scheduler_of(config: Path, *options: str) -> Object:
    """Return the configuration that kubextend writes for kube-scheduler."""
    written: Object = yaml.safe_load(
        run_kubextend("scheduler-config", "--config", config, *options)
    )
    return written


def test_a_right_setting_has_no_findings(setting: Setting) -> None:
    assert setting.findings() == []


def scheduler_calls_another_port(setting: Setting) -> None:
    for entry in setting.scheduler["extenders"]:
        entry["urlPrefix"] = "https://127.0.0.1:1"


def scheduler_has_no_preempt_verb(setting: Setting) -> None:
    del setting.entry["preemptVerb"]


def scheduler_waits_a_shorter_time(setting: Setting) -> None:
    setting.entry["httpTimeout"] = "1s"


def scheduler_sends_whole_nodes(setting: Setting) -> None:
    setting.entry["nodeCacheCapable"] = False


def scheduler_has_another_profile(setting: Setting) -> None:
    setting.scheduler["profiles"][0]["schedulerName"] = "docter"


def scheduler_enables_our_plugin(setting: Setting) -> None:
    enabled = {"filter": {"enabled": [{"name": "HighCommPodFilter"}]}}
    setting.scheduler["profiles"][0]["plugins"] = enabled


def scheduler_looks_at_a_sample(setting: Setting) -> None:
    del setting.scheduler["percentageOfNodesToScore"]


def scheduler_wants_the_default_lease(setting: Setting) -> None:
    setting.scheduler["leaderElection"] = {"leaderElect": True}


def scheduler_does_not_read_a_field(setting: Setting) -> None:
    setting.kube_version = "1.33"
    setting.scheduler["profiles"][0]["plugins"] = {"placementScore": {"enabled": []}}


def scheduler_is_too_old(setting: Setting) -> None:
    setting.scheduler["apiVersion"] = "kubescheduler.config.k8s.io/v1beta3"


def requests_bring_whole_nodes(setting: Setting) -> None:
    setting.config["extender"]["nodeCacheCapable"] = False


def kubextend_does_not_run(setting: Setting) -> None:
    port = setting.plane.bench.free_port()
    setting.config["server"]["port"] = port


def the_name_is_not_in_the_certificate(setting: Setting) -> None:
    setting.config["extender"]["tlsConfig"]["serverName"] = "kubextend.other.svc"


def the_authority_is_another(setting: Setting) -> None:
    other = Authority(setting.folder / "other")
    setting.config["extender"]["tlsConfig"]["caFile"] = str(other.cert)


def the_client_certificate_is_of_another(setting: Setting) -> None:
    pair = Authority(setting.folder / "other").issue("scheduler")
    tls = setting.config["extender"]["tlsConfig"]
    tls["certFile"], tls["keyFile"] = str(pair.cert), str(pair.key)


def a_verb_is_not_served(setting: Setting) -> None:
    setting.config["profiles"][0]["plugins"] = {
        "filter": {"enabled": [{"name": "HighCommPodFilter"}]}
    }
    del setting.config["profiles"][0]["pluginConfig"]


def nobody_answers_at_the_api(setting: Setting) -> None:
    url = f"https://127.0.0.1:{setting.plane.bench.free_port()}"
    setting.config["cluster"]["kubeconfig"] = str(setting.plane.kubeconfig("kubextend", url))


def queued(setting: Setting) -> None:
    plugins = setting.config["profiles"][0]["plugins"]
    plugins["queueSort"] = {"enabled": [{"name": "PrioritySort"}]}


def nobody_holds_the_lease(setting: Setting) -> None:
    queued(setting)
    setting.looks = True


def pending_pod(setting: Setting, name: str, **spec: object) -> None:
    namespace = setting.plane.api.create_namespace(name)
    setting.namespaces.append(namespace)
    containers = [{"name": "c", "image": "i"}]
    metadata = {"name": "p"}
    pod = {"metadata": metadata, "spec": {"containers": containers, **spec}}
    setting.plane.api.create_pods(namespace, [pod])


def a_gate_of_the_queue_without_a_queue(setting: Setting) -> None:
    gates = [{"name": QUEUE_GATE}]
    pending_pod(setting, "doctor-gate", schedulerName="doctor", schedulingGates=gates)


def a_misspelt_gate(setting: Setting) -> None:
    pending_pod(setting, "doctor-gates", schedulingGates=[{"name": "kubextend.dev/queues"}])


def a_pod_with_a_misspelt_scheduler(setting: Setting) -> None:
    pending_pod(setting, "doctor-name", schedulerName="docter")


def scored_by(setting: Setting, address: str) -> None:
    profile = setting.config["profiles"][0]
    profile["plugins"]["score"] = {"enabled": [{"name": "TargetLoadPacking"}]}
    args = {"prometheusAddress": address}
    profile["pluginConfig"].append({"name": "TargetLoadPacking", "args": args})


def no_series_names_a_node(setting: Setting) -> None:
    scored_by(setting, prometheus_of("10.1.2.3:9100"))


def no_prometheus_answers(setting: Setting) -> None:
    scored_by(setting, f"http://127.0.0.1:{setting.plane.bench.free_port()}")


def prometheus_of(instance: str) -> str:
    """Start a server that answers each query with one series; return its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            sample = {"metric": {"instance": instance}, "value": [1, "50"]}
            result = {"resultType": "vector", "result": [sample]}
            body = json.dumps({"status": "success", "data": result}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


PLANTED: list[tuple[Callable[[Setting], None], str, str]] = [
    (scheduler_calls_another_port, "scheduler-file", "never asks kubextend"),
    (scheduler_has_no_preempt_verb, "scheduler-file", "preemptVerb"),
    (scheduler_waits_a_shorter_time, "scheduler-file", "httpTimeout"),
    (scheduler_sends_whole_nodes, "scheduler-file", "nodeCacheCapable"),
    (scheduler_has_another_profile, "scheduler-file", "schedulerName"),
    (scheduler_enables_our_plugin, "scheduler-file", "no plugin of this name"),
    (scheduler_looks_at_a_sample, "scheduler-file", "percentageOfNodesToScore"),
    (scheduler_wants_the_default_lease, "scheduler-file", "holds this lease"),
    (scheduler_does_not_read_a_field, "kube-version", "placementScore"),
    (scheduler_is_too_old, "kube-version", "does not read it"),
    (requests_bring_whole_nodes, "node-mode", "whole nodes"),
    (kubextend_does_not_run, "server-reachable", "no answer"),
    (the_name_is_not_in_the_certificate, "server-reachable", "Hostname mismatch"),
    (the_authority_is_another, "server-reachable", "the certificate is refused"),
    (the_client_certificate_is_of_another, "server-reachable", "no answer"),
    (a_verb_is_not_served, "server-verbs", "prioritize"),
    (nobody_answers_at_the_api, "api-reachable", "no answer"),
    (queued, "rights-missing", "may not patch pods"),
    (nobody_holds_the_lease, "leases", "nobody holds the Lease kube-system/kubextend-queue"),
    (a_gate_of_the_queue_without_a_queue, "gates", "nobody removes it"),
    (a_misspelt_gate, "gates", "kubextend.dev/queues"),
    (a_pod_with_a_misspelt_scheduler, "scheduler-names", "docter"),
    (no_series_names_a_node, "metric-sources", "10.1.2.3"),
    (no_prometheus_answers, "metric-sources", "no answer"),
]


@pytest.mark.parametrize(
    ("plant", "check", "text"), PLANTED, ids=[plant.__name__ for plant, _, _ in PLANTED]
)
def test_a_planted_mistake_is_found(
    plant: Callable[[Setting], None], check: str, text: str, setting: Setting
) -> None:
    plant(setting)
    said = {each.message for each in setting.findings() if each.check == check}
    assert any(text in message for message in said), setting.findings()


def compiled(setting: Setting) -> None:
    """Change the setting so that every rule is compiled, and kube-scheduler calls nobody."""
    setting.config["profiles"][0] |= {
        "plugins": {"filter": {"enabled": [{"name": "HighCommPodFilter"}]}},
        "pluginConfig": [],
    }
    setting.config["extender"]["bind"] = False
    # No kubextend answers there.
    setting.config["server"]["port"] = setting.plane.bench.free_port()
    connection = setting.scheduler["clientConnection"]["kubeconfig"]
    options = ("--kubeconfig", connection, "--no-leader-elect")
    setting.scheduler = scheduler_of(setting.file, "--with-admission", *options)
    setting.with_admission = setting.looks = True


@needs("MutatingAdmissionPolicy")
def test_compiled_rules_need_their_policies_and_no_kubextend(setting: Setting) -> None:
    compiled(setting)
    missing = setting.findings()
    assert [each.check for each in missing] == ["admission-policies"] * 4
    assert {"is not installed" in each.message for each in missing} == {True}
    with installed(setting.plane, setting.file, in_force=False):
        assert setting.findings() == []


@needs("MutatingAdmissionPolicy")
@pytest.mark.parametrize(
    ("kind", "change", "path"),
    [
        ("MutatingAdmissionPolicy", {"failurePolicy": "Ignore"}, "spec.failurePolicy"),
        (
            "ValidatingAdmissionPolicyBinding",
            {"validationActions": ["Warn"]},
            "spec.validationActions",
        ),
    ],
)
def test_a_changed_policy_is_found(kind: str, change: Object, path: str, setting: Setting) -> None:
    compiled(setting)
    with installed(setting.plane, setting.file, in_force=False):
        resource = f"{GROUP}/{RESOURCES[kind]}"
        (policy,) = setting.plane.api.items(resource, labelSelector="kubextend.dev/admission")
        name = policy["metadata"]["name"]
        setting.plane.api.call("PATCH", f"{resource}/{name}", {"spec": change}, MERGE)
        [found] = setting.findings()
    assert (found.check, found.message) == (
        "admission-policies",
        f"{kind}/{name} differs at {path}",
    )
    assert "kubextend admission" in found.hint


@needs("MutatingAdmissionPolicy")
def test_a_policy_that_no_rule_needs_is_found(setting: Setting) -> None:
    compiled(setting)
    with installed(setting.plane, setting.file, in_force=False):
        setting.config["profiles"][0]["plugins"] = {"score": {"enabled": [{"name": "PodState"}]}}
        found = [each for each in setting.findings() if each.check == "admission-policies"]
    assert [each.verdict for each in found] == [Verdict.WARNING] * 4
    assert all("kubectl delete" in each.hint for each in found)


@lacks("MutatingAdmissionPolicy")
def test_a_cluster_that_cannot_have_the_policies_is_found(setting: Setting) -> None:
    compiled(setting)
    [found] = setting.findings()
    assert "serves no MutatingAdmissionPolicy" in found.message


def test_what_a_plugin_reads_must_be_granted(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(PLUGIN_FOLDER)
    setting.config["outOfTree"] = ["informed:Informed"]
    plugins = {"filter": {"enabled": [{"name": "Informed"}]}}
    setting.config["profiles"][0] |= {"plugins": plugins, "pluginConfig": []}
    found = {(each.check, each.message) for each in setting.findings()}
    assert {message for check, message in found if check == "rights-missing"} == {
        f"kubextend may not {verb} {resource}"
        for verb in ("list", "watch")
        for resource in ("persistentvolumeclaims", "podgroups.e2e.kubextend.dev")
    }


def shipped(place: str, plane: ControlPlane, folder: Path) -> tuple[Object, Object]:
    """Return both configurations of a folder of deploy/, for this machine."""
    config = yaml.safe_load((DEPLOY / place / "kubextend.yaml").read_text())
    scheduler = yaml.safe_load((DEPLOY / place / "kube-scheduler.yaml").read_text())
    server, extender = config["server"], config.setdefault("extender", {})
    tls = "tls" in server
    port = plane.bench.free_port()
    url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    server |= {"host": "127.0.0.1", "port": port}
    server.pop("healthHost", None)
    server["healthPort"] = plane.bench.free_port()
    config["cluster"] = {"kubeconfig": str(plane.kubeconfig("kubextend"))}
    extender["urlPrefix"] = url
    scheduler.setdefault("clientConnection", {})["kubeconfig"] = "/etc/kubernetes/scheduler.conf"
    for entry in scheduler["extenders"]:
        entry["urlPrefix"] = url
    if tls:
        authority = Authority(folder / "pki")
        own, caller = authority.issue("server"), authority.issue("scheduler")
        files = {"certFile": own.cert, "keyFile": own.key, "clientCAFile": authority.cert}
        server["tls"] = {field: str(file) for field, file in files.items()}
        files = {"caFile": authority.cert, "certFile": caller.cert, "keyFile": caller.key}
        for part in (extender, *scheduler["extenders"]):
            part["tlsConfig"] = {field: str(file) for field, file in files.items()}
    return config, scheduler


def hold_lease(plane: ControlPlane, scheduler: Object) -> None:
    """Hold kube-scheduler's Lease for an hour, as a kube-scheduler would."""
    election = scheduler.get("leaderElection", {})
    name = election.get("resourceName", "kube-scheduler")
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": "e2e", "leaseDurationSeconds": 3600, "renewTime": now}
    lease = {"metadata": {"name": name}, "spec": spec}
    plane.api.call("POST", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases", lease)


@pytest.mark.parametrize("place", SHIPPED)
def test_a_shipped_configuration_has_no_findings(
    place: str, control_plane: ControlPlane, tmp_path: Path
) -> None:
    config, scheduler = shipped(place, control_plane, tmp_path)
    api = control_plane.api
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
    for lease in api.items(leases):
        api.call("DELETE", f"{leases}/{lease['metadata']['name']}")
    hold_lease(control_plane, scheduler)
    file = tmp_path / "running.yaml"
    file.write_text(yaml.safe_dump(config))
    bench = control_plane.bench
    program = bench.start(f"kubextend-doctor-{place}", KUBEXTEND, "serve", "--config", file)
    setting = Setting(deepcopy(config), scheduler, control_plane, tmp_path, looks=True)
    until(
        lambda: not [f for f in setting.findings() if f.check.startswith("server-")],
        "kubextend is ready",
        120.0,
        program=program,
    )
    assert setting.findings() == []
    bench.end(program)
