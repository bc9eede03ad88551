"""deploy/ says the same thing in all its places, and its examples come out as they say.

What a real kube-apiserver and kube-scheduler make of it is in tests/e2e.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.doors.command_line import FITS, ROOT, run, write

DEPLOY = ROOT / "deploy"
RDMA = DEPLOY / "examples" / "rdma"
PLACES = ("second-scheduler", "service", "static-pod")
Object = dict[str, Any]
# A replica renews its Lease of 15 s, and gives up to lead 10 s after the last time.
LEASE_S, RENEW_S = 15, 10
LEADS = {(verb, "leases") for verb in ("create", "get", "update")}
NODES = ("plain", "rdma-100", "rdma-200")
NO_RDMA = "Node does not support RDMA"
# The table in pods.yaml. A score of 50 with weight 4 is 20 on the wire.
CHATTY = {"rejected": {"plain": NO_RDMA}, "scores": {"plain": 0, "rdma-100": 0, "rdma-200": 20}}
QUIET = {"rejected": {}, "scores": {"plain": 20, "rdma-100": 0, "rdma-200": 0}}
EXPECTED = {
    ("chatty", "kubextend.yaml"): {**CHATTY, "scores": {}},
    ("chatty", "label-match.yaml"): CHATTY,
    ("quiet", "kubextend.yaml"): {**QUIET, "scores": {}},
    ("quiet", "label-match.yaml"): QUIET,
}


def documents(path: Path) -> list[Object]:
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def granted(kind: str, name: str) -> list[set[tuple[str, str]]]:
    """Return verb and resource of each rule of the roles with this name, a set for each place."""
    return [
        {
            (verb, resource)
            for rule in document["rules"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }
        for path in sorted(DEPLOY.rglob("rbac*.yaml"))
        for document in documents(path)
        if (document["kind"], document["metadata"]["name"]) == (kind, name)
    ]


def containers() -> list[Any]:
    """Return every container of every manifest, with its pod's spec."""
    found = []
    for path in sorted(DEPLOY.rglob("*.yaml")):
        for document in documents(path):
            spec = document.get("spec", {}) if document.get("kind") in {"Pod", "Deployment"} else {}
            spec = spec.get("template", {}).get("spec", spec)
            for each in [*spec.get("initContainers", []), *spec.get("containers", [])]:
                name = f"{path.relative_to(DEPLOY)}:{each['name']}"
                found.append(pytest.param(spec, each, id=name))
    return found


@pytest.mark.parametrize(("pod", "file"), EXPECTED)
def test_the_rdma_example_is_decided_as_its_table_says(pod: str, file: str, tmp_path: Path) -> None:
    (manifest,) = (p for p in documents(RDMA / "pods.yaml") if p["metadata"]["name"] == pod)
    listed = {"metadata": {"resourceVersion": "1"}, "items": documents(RDMA / "nodes.yaml")}
    nodes = write(tmp_path / "nodes.json", listed)
    asked = {"Pod": manifest, "Nodes": None, "NodeNames": NODES}
    request = write(tmp_path / "request.json", asked)
    options = ("--config", RDMA / file, "--nodes", nodes, "--output", "json")
    answers = [run(verb, request, *options).stdout for verb in ("filter", "prioritize")]
    verdict, scores = map(json.loads, answers)
    rejected = verdict["FailedAndUnresolvableNodes"] or {}
    found = {"rejected": rejected, "scores": {each["Host"]: each["Score"] for each in scores or ()}}
    assert found == EXPECTED[pod, file]
    assert verdict["NodeNames"] == [node for node in NODES if node not in rejected]


@pytest.mark.slow
def test_the_demo_runs_through() -> None:
    command = [sys.executable, DEPLOY / "demo" / "demo.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert done.stdout.endswith("README.md says how to go on with a real cluster.\n")


@pytest.mark.parametrize("place", PLACES)
def test_the_written_scheduler_configuration_is_the_one_of_the_configuration_beside_it(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With every comment; its command is in the first lines of the configuration."""
    folder = DEPLOY / place
    text = (folder / "kubextend.yaml").read_text()
    for name in ("tls.crt", "tls.key", "ca.crt"):
        (tmp_path / name).touch()
    write(tmp_path / "kubextend.yaml", text.replace("/etc/kubextend/tls", str(tmp_path)))
    (head,) = re.findall(r"^#   kubextend ((?:.*\\\n)?.*)$", text, re.MULTILINE)
    arguments, written = re.sub(r"\\\n# +", "", head).split(" > ")
    monkeypatch.chdir(tmp_path)
    assert run(*arguments.split()).stdout == (folder / written).read_text()
    fits = run("check", folder / "kubextend.yaml", "--scheduler", folder / written)
    assert FITS in fits.stdout, fits.stderr


@pytest.mark.parametrize(("spec", "container"), containers())
def test_a_container_of_ours_can_change_nothing_outside_of_its_process(
    spec: Object, container: Object
) -> None:
    context = spec.get("securityContext", {}) | container["securityContext"]
    assert context["allowPrivilegeEscalation"] is False
    assert context["readOnlyRootFilesystem"] is True
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["resources"]["requests"].keys() <= {"cpu", "memory"}
    # kubeadm gives its kubeconfig to root, and a static pod can read it from nowhere else.
    in_static_pod = spec.get("hostNetwork", False) and container["name"] == "kube-scheduler"
    assert context.get("runAsNonRoot", False) is not in_static_pod


def test_every_place_gives_kubextend_the_same_role_and_exactly_what_it_calls() -> None:
    # Pods and Events: where an enabled plugin needs pods, or holds them.
    calls = {(verb, of) for verb in ("list", "watch") for of in ("nodes", "pods")}
    calls |= {("patch", "pods/status"), ("obey", "podlimits"), ("create", "events")}
    assert granted("ClusterRole", "kubextend") == [calls, calls]


def test_pods_may_be_bound_only_where_somebody_asks_for_that() -> None:
    bind = {("create", "pods/binding"), ("get", "pods")}
    assert granted("ClusterRole", "kubextend-bind") == [bind, bind]
    kustomization = yaml.safe_load((DEPLOY / "service/kustomization.yaml").read_text())
    assert "rbac.yaml" in kustomization["resources"]
    assert "rbac-bind.yaml" not in kustomization["resources"]
    # No configuration that is shipped needs it.
    for place in PLACES:
        assert "bindVerb" not in (DEPLOY / place / "kube-scheduler.yaml").read_text()


@pytest.mark.parametrize("place", PLACES)
def test_what_requests_may_hold_fits_into_the_container(place: str) -> None:
    configured = yaml.safe_load((DEPLOY / place / "kubextend.yaml").read_text())
    held = configured["server"]["maxInFlightBytes"]
    assert configured["server"]["maxBodyBytes"] <= held
    manifest = DEPLOY / place / ("pod.yaml" if place == "static-pod" else "deployment.yaml")
    limits = manifest.read_text().partition("limits:")[2]
    limit = re.search(r"^ +memory: (\d+)Mi$", limits, re.MULTILINE)
    # The rest is for the program, nodes and pods.
    assert held <= int(limit[1]) * 2**20 / 4


def test_what_is_in_flight_ends_before_the_kubelet_kills() -> None:
    """The drain delay is part of the 25 s; a preStop hook would come on top of it."""
    for path in DEPLOY.rglob("*.yaml"):
        assert "preStop" not in path.read_text()
    service = yaml.safe_load((DEPLOY / "service/kubextend.yaml").read_text())
    assert service["server"]["drainDelay"] == "5s"


def test_the_roles_of_the_queue_are_exactly_what_the_queue_calls() -> None:
    (on_pods,) = granted("ClusterRole", "kubextend-queue")
    (on_leases,) = granted("Role", "kubextend-queue")
    on_gates = {("remove", "schedulinggates")}
    assert on_pods == on_gates | {(verb, "pods") for verb in ("list", "watch", "patch")}
    assert on_leases == LEADS


def with_leader(kind: str) -> Object:
    """Return the object of deploy/service of this kind and the name kubextend, with leader/."""
    service = DEPLOY / "service"
    found = [each for path in service.glob("*.yaml") for each in documents(path)]
    (thing,) = (
        each
        for each in found
        if (each.get("kind"), each.get("metadata", {}).get("name")) == (kind, "kubextend")
    )
    (component,) = documents(service / "leader/kustomization.yaml")
    for patch in component["patches"]:
        if patch["target"] == {"kind": kind, "name": "kubextend"}:
            for operation in yaml.safe_load(patch["patch"]):
                added(thing, operation)
    return thing


def added(thing: Any, operation: Object) -> None:
    """Carry out one operation "add" of a JSON patch (RFC 6902)."""
    assert operation["op"] == "add"
    *steps, last = (step.replace("~1", "/") for step in operation["path"].split("/")[1:])
    for step in steps:
        thing = thing[int(step) if isinstance(thing, list) else step]
    assert last not in thing
    thing[last] = operation["value"]


def test_the_verbs_go_to_the_leader_and_health_is_that_of_every_replica() -> None:
    services = documents(DEPLOY / "service/service.yaml")
    verbs, health = (each["spec"] for each in services if each["kind"] == "Service")
    everyone = {"app.kubernetes.io/name": "kubextend"}
    assert (verbs["selector"], health["selector"]) == (everyone, everyone)
    assert health["publishNotReadyAddresses"] is True
    leads = with_leader("Service")["spec"]["selector"]
    assert leads == everyone | {"kubextend.dev/leader": "true"}


def test_a_replica_knows_its_pod() -> None:
    (deployment,) = documents(DEPLOY / "service/deployment.yaml")
    template = deployment["spec"]["template"]
    (container,) = template["spec"]["containers"]
    paths = {each["name"]: each["valueFrom"]["fieldRef"]["fieldPath"] for each in container["env"]}
    assert paths == {"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace"}
    # The label is no label of the template: all replicas would have it.
    assert "kubextend.dev/leader" not in template["metadata"]["labels"]


def test_a_replica_that_keeps_the_label_leaves_the_service_before_another_one_leads() -> None:
    (container,) = with_leader("Deployment")["spec"]["template"]["spec"]["containers"]
    probe = container["readinessProbe"]
    after_s = RENEW_S + probe["periodSeconds"] * probe["failureThreshold"]
    assert after_s <= LEASE_S + 1


def test_the_role_of_the_leader_is_exactly_what_a_replica_calls_to_lead() -> None:
    (on_own,) = granted("Role", "kubextend-leader")
    assert on_own == LEADS | {("patch", "pods")}
    role, binding = documents(DEPLOY / "service/leader/rbac.yaml")
    named = [rule.get("resourceNames") for rule in role["rules"]]
    assert named == [None, ["kubextend"], None]
    subjects = [d["subjects"] for d in documents(DEPLOY / "service/rbac.yaml") if "subjects" in d]
    assert [binding["subjects"]] == subjects


def accounts(bindings: list[Object]) -> set[tuple[str, str]]:
    return {(each["kind"], each["name"]) for of in bindings for each in of.get("subjects", ())}


@pytest.mark.parametrize("place", PLACES)
def test_every_way_brings_the_one_policy_and_the_right_by_which_it_limits(place: str) -> None:
    folder = DEPLOY / place
    assert (folder / "limits.yaml").read_text() == (DEPLOY / "service/limits.yaml").read_text()
    (kustomization,) = documents(folder / "kustomization.yaml")
    assert {"rbac.yaml", "limits.yaml"} <= set(kustomization["resources"])
    policy, binding = documents(folder / "limits.yaml")
    assert binding["spec"]["validationActions"] == ["Deny"]
    # It names no account, and asks for a right that every account here has.
    assert "kubextend'" not in json.dumps(policy)
    obeying = {
        role["metadata"]["name"]
        for role in documents(folder / "rbac.yaml")
        if role["kind"] == "ClusterRole"
        and {"apiGroups": ["kubextend.dev"], "resources": ["podlimits"], "verbs": ["obey"]}
        in role["rules"]
    }
    bindings = [each for path in folder.rglob("rbac*.yaml") for each in documents(path)]
    everybody = accounts(bindings)
    obey = [each for each in bindings if each["kind"] == "ClusterRoleBinding"]
    bound = accounts([each for each in obey if each["roleRef"]["name"] in obeying])
    assert bound == everybody != set()


@pytest.mark.parametrize("place", PLACES)
def test_under_overload_leases_have_the_level_of_leader_elections_and_the_rest_a_high_one(
    place: str,
) -> None:
    text = (DEPLOY / place / "flow-schemas.yaml").read_text()
    assert text == (DEPLOY / "service/flow-schemas.yaml").read_text()
    (kustomization,) = documents(DEPLOY / place / "kustomization.yaml")
    assert "flow-schemas.yaml" in kustomization["resources"]
    leases, rest = (schema["spec"] for schema in documents(DEPLOY / place / "flow-schemas.yaml"))
    levels = [spec["priorityLevelConfiguration"]["name"] for spec in (leases, rest)]
    assert levels == ["leader-election", "workload-high"]
    # Before the schema of all service accounts, whose precedence is 9000.
    assert leases["matchingPrecedence"] < rest["matchingPrecedence"] < 9000
    (named,) = (rule["resourceRules"] for rule in leases["rules"])
    assert named[0]["resources"] == ["leases"]
    bindings = [each for path in DEPLOY.rglob("rbac*.yaml") for each in documents(path)]
    for spec in (leases, rest):
        (rule,) = spec["rules"]
        subjects = {(of["kind"], list(of.values())[1]["name"]) for of in rule["subjects"]}
        assert subjects == accounts([each for each in bindings if "subjects" in each])


def test_the_image_and_the_manifests_agree_on_user_paths_and_version() -> None:
    image = (DEPLOY / "Dockerfile").read_text()
    manifests = "\n".join(path.read_text() for path in sorted(DEPLOY.rglob("*.yaml")))
    (version,) = re.findall(r'^version = "(.*)"$', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)
    assert "USER 65532:65532" in image
    assert set(re.findall(r"runAs(?:User|Group): (\d+)", manifests)) == {"65532"}
    assert set(re.findall(r"kubextend:(\d[\d.]*)", image + manifests)) == {version}
    (chart,) = documents(DEPLOY / "helm/Chart.yaml")
    assert (chart["version"], chart["appVersion"]) == (version, version)
    (rust_version,) = re.findall(r'rust-version = "(.*)"', (ROOT / "Cargo.toml").read_text())
    (rust_image,) = re.findall(r"^FROM rust:(\d+\.\d+)", image, re.MULTILINE)
    assert tuple(map(int, rust_image.split("."))) >= tuple(map(int, rust_version.split(".")))


def test_the_manifests_name_the_newest_kube_scheduler_of_the_e2e_tests() -> None:
    newest = max((ROOT / "tests/e2e/tools").glob("1.*"), key=lambda module: module.name)
    pinned = re.findall(r"\tk8s.io/kubernetes (v\S+)", (newest / "go.mod").read_text())
    (container,) = documents(DEPLOY / "static-pod/pod.yaml")[0]["spec"]["containers"]
    image = container["image"].removeprefix("kube-scheduler:")
    images = documents(DEPLOY / "second-scheduler/kustomization.yaml")[0]["images"]
    tags = [each["newTag"] for each in images if each["name"] == "kube-scheduler"]
    assert [image] == tags == pinned


def test_no_image_names_a_registry() -> None:
    """Where images come from is the cluster's affair."""
    manifests = [*DEPLOY.rglob("*.yaml"), DEPLOY / "Dockerfile"]
    text = "\n".join(path.read_text() for path in manifests)
    named = re.findall(r"^\s*(?:FROM|image:|newName:) (\S+)", text, re.MULTILINE)
    assert named
    assert [name for name in named if "/" in name] == []
