"""``kubextend doctor`` finds planted mistakes, and finds nothing in what deploy/ ships.

What it finds without a cluster is in tests/cli/test_doctor.py.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from kubextend.cli import main

from .admission_rules import GROUP, RESOURCES, installed
from .certificates import Authority
from .controlplane import ControlPlane
from .kubeapi import MERGE, Object
from .manifests import DEPLOY
from .stack import KUBEXTEND, PLUGIN_FOLDER, Mode, Stack, scheduler_configuration
from .versions import KUBE, lacks, needs
from .workbench import until

SHIPPED = ("second-scheduler", "service", "static-pod")
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


@dataclass
class Setting:
    """What the doctor examines, for a test to change.

    Attributes:
        config: kubextend's configuration.
        scheduler: kube-scheduler's.
        looks: whether the doctor looks with the credentials of an administrator.
        with_admission: whether the doctor takes the rules for compiled.
    """

    config: Object
    scheduler: Object
    plane: ControlPlane
    folder: Path
    looks: bool = False
    with_admission: bool = False

    @property
    def file(self) -> Path:
        return self._written("kubextend.yaml", self.config)

    def findings(self) -> list[Object]:
        """Return what is neither well nor skipped."""
        theirs = self._written("kube-scheduler.yaml", self.scheduler)
        words = ["doctor", "--config", self.file, "--scheduler", theirs, "--output", "json"]
        # A kube-apiserver that is built from its Go module does not know its version.
        words += ["--kube-version", KUBE]
        words += ["--kubeconfig", self.plane.kubeconfig("admin")] if self.looks else []
        words += ["--with-admission"] if self.with_admission else []
        done = CliRunner().invoke(main, [str(word) for word in words])
        return [f for f in json.loads(done.stdout) if f["verdict"] in {"warning", "error"}]

    def _written(self, name: str, content: Object) -> Path:
        file = self.folder / name
        file.write_text(json.dumps(content))
        return file


@pytest.fixture(scope="module")
def control_plane(own_plane: ControlPlane) -> ControlPlane:
    """The doctor judges all pods, rights and Leases of a control plane."""
    return own_plane


@pytest.fixture(scope="module")
def stack(control_plane: ControlPlane) -> Iterator[Stack]:
    with Stack(control_plane, "doctor", Mode(tls=True, binds=True), scheduler=False) as running:
        yield running


@pytest.fixture
def setting(stack: Stack, control_plane: ControlPlane, tmp_path: Path) -> Setting:
    config = json.loads(stack.config.read_text())
    written = scheduler_configuration(control_plane, stack.config)
    return Setting(config, written, control_plane, tmp_path)


def test_a_right_setting_has_no_findings(setting: Setting) -> None:
    assert setting.findings() == []


def the_name_is_not_in_the_certificate(setting: Setting) -> None:
    setting.config["extender"]["tlsConfig"]["serverName"] = "kubextend.other.svc"


def the_authority_is_another(setting: Setting) -> None:
    other = Authority(setting.folder / "other")
    setting.config["extender"]["tlsConfig"]["caFile"] = str(other.cert)


def the_client_certificate_is_of_another(setting: Setting) -> None:
    files = Authority(setting.folder / "other").issue("scheduler").files
    setting.config["extender"]["tlsConfig"] |= files


def nobody_answers_at_the_api(setting: Setting) -> None:
    nobody = f"https://127.0.0.1:{setting.plane.bench.free_port()}"
    kubeconfig = setting.plane.kubeconfig("kubextend", nobody)
    setting.config["cluster"]["kubeconfig"] = str(kubeconfig)


def queued(setting: Setting) -> None:
    plugins = setting.config["profiles"][0]["plugins"]
    plugins["queueSort"] = {"enabled": [{"name": "PrioritySort"}]}


Plant = Callable[[Setting], None]
PLANTED: list[tuple[Plant, str, str]] = [
    (the_name_is_not_in_the_certificate, "server-reachable", "Hostname mismatch"),
    (the_authority_is_another, "server-reachable", "the certificate is refused"),
    (the_client_certificate_is_of_another, "server-reachable", "no answer"),
    (nobody_answers_at_the_api, "api-reachable", "no answer"),
    (queued, "rights-missing", "may not patch pods"),
]


@pytest.mark.parametrize(("plant", "check", "text"), PLANTED, ids=[p[0].__name__ for p in PLANTED])
def test_a_planted_mistake_is_found(plant: Plant, check: str, text: str, setting: Setting) -> None:
    plant(setting)
    found = setting.findings()
    assert any(text in each["message"] for each in found if each["check"] == check), found


def test_what_a_plugin_reads_must_be_granted(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(PLUGIN_FOLDER)
    setting.config["outOfTree"] = ["informed:Informed"]
    plugins = {"filter": {"enabled": [{"name": "Informed"}]}}
    setting.config["profiles"][0] |= {"plugins": plugins, "pluginConfig": []}
    missing = {f["message"] for f in setting.findings() if f["check"] == "rights-missing"}
    resources = ("persistentvolumeclaims", "podgroups.e2e.kubextend.dev")
    assert missing == {f"kubextend may not {v} {r}" for v in ("list", "watch") for r in resources}


@pytest.fixture
def compiled(setting: Setting) -> Setting:
    """A setting in which every rule is compiled, and kube-scheduler calls nobody."""
    plugins = {"filter": {"enabled": [{"name": "HighCommPodFilter"}]}}
    setting.config["profiles"][0] |= {"plugins": plugins, "pluginConfig": []}
    setting.config["extender"]["bind"] = False
    setting.config["server"]["port"] = setting.plane.bench.free_port()
    setting.scheduler = scheduler_configuration(setting.plane, setting.file, "--with-admission")
    setting.with_admission = setting.looks = True
    return setting


@needs("MutatingAdmissionPolicy")
def test_compiled_rules_need_their_policies_as_they_were_written_and_no_others(
    compiled: Setting,
) -> None:
    missing = compiled.findings()
    assert [each["check"] for each in missing] == ["admission-policies"] * 4
    assert {"is not installed" in each["message"] for each in missing} == {True}
    api = compiled.plane.api
    with installed(compiled.plane, compiled.file, in_force=False):
        assert compiled.findings() == []
        changes: dict[str, Object] = {
            "MutatingAdmissionPolicy": {"failurePolicy": "Ignore"},
            "ValidatingAdmissionPolicyBinding": {"validationActions": ["Warn"]},
        }
        for kind, change in changes.items():
            resource = f"{GROUP}/{RESOURCES[kind]}"
            (policy,) = api.items(resource, labelSelector="kubextend.dev/admission")
            name = policy["metadata"]["name"]
            api.call("PATCH", f"{resource}/{name}", {"spec": change}, MERGE)
            told = {each["message"]: each["hint"] for each in compiled.findings()}
            (field,) = change
            assert "kubextend admission" in told[f"{kind}/{name} differs at spec.{field}"]
        compiled.config["profiles"][0]["plugins"] = {"score": {"enabled": [{"name": "PodState"}]}}
        left = [f for f in compiled.findings() if f["check"] == "admission-policies"]
    assert [each["verdict"] for each in left] == ["warning"] * 4
    assert all("kubectl delete" in each["hint"] for each in left)


@lacks("MutatingAdmissionPolicy")
def test_a_cluster_that_cannot_have_the_policies_is_found(compiled: Setting) -> None:
    [found] = compiled.findings()
    assert "serves no MutatingAdmissionPolicy" in found["message"]


def shipped(place: str, plane: ControlPlane, folder: Path) -> tuple[Object, Object]:
    """Return both configurations of a folder of deploy/, for this machine."""
    config = yaml.safe_load((DEPLOY / place / "kubextend.yaml").read_text())
    scheduler = yaml.safe_load((DEPLOY / place / "kube-scheduler.yaml").read_text())
    server, extender = config["server"], config.setdefault("extender", {})
    port = plane.bench.free_port()
    url = f"{'https' if 'tls' in server else 'http'}://127.0.0.1:{port}"
    server.pop("healthHost", None)
    server |= {"host": "127.0.0.1", "port": port, "healthPort": plane.bench.free_port()}
    config["cluster"] = {"kubeconfig": str(plane.kubeconfig("kubextend"))}
    scheduler.setdefault("clientConnection", {})["kubeconfig"] = "/etc/kubernetes/scheduler.conf"
    callers = (extender, *scheduler["extenders"])
    for caller in callers:
        caller["urlPrefix"] = url
    if "tls" in server:
        authority = Authority(folder / "pki")
        ca = str(authority.cert)
        server["tls"] = {**authority.issue("server").files, "clientCAFile": ca}
        for caller in callers:
            caller["tlsConfig"] = {**authority.issue("scheduler").files, "caFile": ca}
    return config, scheduler


def hold_lease(plane: ControlPlane, scheduler: Object) -> None:
    """Hold kube-scheduler's Lease, and no other, for an hour, as a kube-scheduler would."""
    for lease in plane.api.items(LEASES):
        plane.api.call("DELETE", f"{LEASES}/{lease['metadata']['name']}")
    name = scheduler.get("leaderElection", {}).get("resourceName", "kube-scheduler")
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": "e2e", "leaseDurationSeconds": 3600, "renewTime": now}
    plane.api.call("POST", LEASES, {"metadata": {"name": name}, "spec": spec})


@pytest.mark.parametrize("place", SHIPPED)
def test_a_shipped_configuration_has_no_findings(
    place: str, control_plane: ControlPlane, tmp_path: Path
) -> None:
    config, scheduler = shipped(place, control_plane, tmp_path)
    hold_lease(control_plane, scheduler)
    setting = Setting(config, scheduler, control_plane, tmp_path, looks=True)
    bench = control_plane.bench
    program = bench.start(f"kubextend-{place}", KUBEXTEND, "serve", "--config", setting.file)

    def is_ready() -> bool:
        return not any(f["check"].startswith("server-") for f in setting.findings())

    until(is_ready, "kubextend is ready", program=program)
    assert setting.findings() == []
    bench.end(program)
