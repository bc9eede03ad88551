"""The chart makes the objects of the folders of deploy/, and its upgrades keep what runs."""

import copy
from pathlib import Path

import pytest
import yaml

from .chart import NAMESPACE, Helm, Key, Kustomize, build_deploy_tools, by_name
from .controlplane import ControlPlane
from .kubeapi import Object, gated, pod
from .manifests import CHART, DEPLOY, apply, path_of
from .queue_policies import GATE, QUEUED, SCHEDULER, await_queue, gates
from .queue_stack import LEASE, QueueStack, sorted_by
from .queued_pods import remove_gate
from .versions import needs
from .workbench import until

OTHER_GATE = "e2e.kubextend.dev/other"
KEEP = {"helm.sh/resource-policy": "keep"}
WAYS = ("second-scheduler", "service", "static-pod")
SECOND_SCHEDULER = (DEPLOY / "second-scheduler/kubextend.yaml").read_text()
SCHEDULER_FILE = (DEPLOY / "second-scheduler/kube-scheduler.yaml").read_text()
SERVICE = (DEPLOY / "service/kubextend.yaml").read_text()
LEADING = SERVICE.replace("server:\n", "server:\n  lease: {}\n")
EVERYTHING: Object = {"queue": {"enabled": True}, "podSize": True, "monitoring": True}
DIGEST = f"images.example/kubextend@sha256:{'0' * 64}"


def files(configuration: Object, install: str = "second-scheduler") -> Object:
    return {"install": install, "configuration": configuration}


# Values, the folders of deploy/, and what README.md says to take in there.
CASES: dict[str, tuple[Object, tuple[str, ...], tuple[str, ...]]] = {
    "second-scheduler": ({}, ("second-scheduler",), ()),
    "service": ({"install": "service"}, ("service",), ()),
    "service that binds": (
        {"install": "service", "bind": True, "networkPolicy": True},
        ("service",),
        ("- rbac-bind.yaml", "- network-policy.yaml"),
    ),
    "static-pod": ({"install": "static-pod"}, ("static-pod",), ()),
    "static-pod that binds": (
        {"install": "static-pod", "bind": True},
        ("static-pod",),
        ("- rbac-bind.yaml",),
    ),
    "everything": (EVERYTHING, ("second-scheduler", "queue", "pod-size", "monitoring"), ()),
}
REFUSED: dict[str, tuple[Object, str]] = {
    "a misspelt value": ({"replica": 3}, "replica"),
    "another way": ({"install": "sidecar"}, "install"),
    "one replica": ({"replicas": 1}, "replicas"),
    "an image without tag": ({"images": {"kubextend": "images.example/kubextend"}}, "images"),
    "other containers": ({"podSpec": {"containers": []}}, "podSpec"),
    "a leader beside kube-scheduler": ({"leader": True}, "install"),
    "rights to bind beside kube-scheduler": ({"bind": True}, "install"),
    "a policy without service": ({"networkPolicy": True}, "install"),
    "a leader without lease": ({"install": "service", "leader": True}, "belong together"),
    "a lease without leader": (files({"kubextend": LEADING}, "service"), "belong together"),
    "one of two files": (files({"kubextend": SECOND_SCHEDULER}), "belong together"),
    "a file for nobody": (files({"kube-scheduler": SCHEDULER_FILE}, "service"), "has no place"),
    "a file name": (files({"kubextend": "k.yaml", "kube-scheduler": "k.yaml"}), "--set-file"),
    "a queue of nobody": ({"queue": {"enabled": True, "schedulerNames": []}}, "schedulerNames"),
}


@pytest.fixture(scope="module")
def tools() -> Path:
    return build_deploy_tools()


@pytest.fixture
def helm(tools: Path, tmp_path: Path) -> Helm:
    return Helm(tools, tmp_path)


@pytest.fixture
def kustomize(tools: Path, tmp_path: Path) -> Kustomize:
    return Kustomize(tools, tmp_path)


def kept_by_kustomize(objects: dict[Key, Object]) -> dict[Key, Object]:
    """Return Helm's objects without the annotation that makes it keep what kustomize keeps."""
    plain = copy.deepcopy(objects)
    for key, thing in plain.items():
        annotations = thing["metadata"].pop("annotations", None)
        named_by_content = key[0] == "ConfigMap" and key[2] != "kubextend-dashboard"
        assert annotations == (KEEP if named_by_content else None), key
    return plain


@pytest.mark.parametrize("case", CASES)
def test_the_chart_makes_the_objects_that_kustomize_makes(
    case: str, helm: Helm, kustomize: Kustomize
) -> None:
    values, folders, taken_in = CASES[case]
    kustomize.take_in(folders[0], *taken_in)
    assert kept_by_kustomize(helm.template(values)) == kustomize.build(*folders)


def test_a_leader_is_that_of_kustomize(helm: Helm, kustomize: Kustomize) -> None:
    kustomize.change("service/kubextend.yaml", SERVICE, LEADING)
    kustomize.take_in("service", "components:", "- leader", "- rbac-bind.yaml")
    configuration = {"kubextend": LEADING}
    values = {"install": "service", "bind": True, "leader": True, "configuration": configuration}
    assert kept_by_kustomize(helm.template(values)) == kustomize.build("service")


def test_another_namespace_is_named_everywhere(helm: Helm, kustomize: Kustomize) -> None:
    kustomize.move("elsewhere")
    for way in WAYS:
        values = {"install": way, "queue": {"enabled": True}, "monitoring": True}
        made = helm.template(values, namespace="elsewhere")
        assert kept_by_kustomize(made) == kustomize.build(way, "queue", "monitoring")


def test_the_queue_is_that_of_the_named_schedulers(helm: Helm, kustomize: Kustomize) -> None:
    kustomize.change("queue/gate.yaml", "in ['kubextend-scheduler']", "in ['one', 'two']")
    values = {"queue": {"enabled": True, "schedulerNames": ["one", "two"]}}
    made = helm.template(values)
    assert kept_by_kustomize(made) == kustomize.build("second-scheduler", "queue")


def test_values_take_the_place_of_what_the_folder_says(helm: Helm, kustomize: Kustomize) -> None:
    profile = "- schedulerName: kubextend-scheduler\n"
    ours = SECOND_SCHEDULER.replace(profile, "- schedulerName: another\n")
    theirs = SCHEDULER_FILE.replace(profile, "- schedulerName: another\n")
    more = {"requests": {"cpu": "2", "memory": "1Gi"}, "limits": {"memory": "2Gi"}}
    tolerations = [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}]
    image = "images.example/kube-scheduler:v1"
    values = {
        "images": {"kubextend": DIGEST, "kube-scheduler": image},
        "replicas": 5,
        "resources": {"kubextend": more},
        "podSpec": {"tolerations": tolerations, "priorityClassName": "high"},
        "configuration": {"kubextend": ours, "kube-scheduler": theirs},
    }
    kustomize.change("second-scheduler/kubextend.yaml", SECOND_SCHEDULER, ours)
    kustomize.change("second-scheduler/kube-scheduler.yaml", SCHEDULER_FILE, theirs)
    expected = kustomize.build("second-scheduler")
    spec = expected["Deployment", NAMESPACE, "kubextend-scheduler"]["spec"]
    spec["replicas"] = 5
    pod = spec["template"]["spec"]
    pod |= {"tolerations": tolerations, "priorityClassName": "high"}
    pod["initContainers"][0] |= {"image": DIGEST, "resources": more}
    pod["containers"][0]["image"] = image
    assert kept_by_kustomize(helm.template(values)) == expected


def test_rules_that_kubextend_admission_wrote_are_among_the_objects(helm: Helm) -> None:
    written = (DEPLOY / "admission/rdma.yaml").read_text()
    rules = by_name([document for document in yaml.safe_load_all(written) if document])
    assert rules
    assert helm.template({"admission": written}) == helm.template({}) | rules


@pytest.mark.parametrize(
    ("way", "of_kubextend"), [("second-scheduler", "initContainers"), ("service", "containers")]
)
def test_kubextend_starts_without_the_rules_that_are_on_pods(
    way: str, of_kubextend: str, helm: Helm
) -> None:
    expected = helm.template({"install": way})
    (deployment,) = (each for each in expected.values() if each["kind"] == "Deployment")
    deployment["spec"]["template"]["spec"][of_kubextend][0]["args"].append("--with-admission")
    assert helm.template({"install": way, "withAdmission": True}) == expected


@pytest.mark.parametrize("what", REFUSED)
def test_values_that_cannot_be_meant_are_refused(what: str, helm: Helm) -> None:
    values, said = REFUSED[what]
    assert said in helm.refused(values)


def test_every_value_is_in_the_schema_with_what_it_is_for() -> None:
    schema = yaml.safe_load((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert schema["properties"].keys() == values.keys() | {"global"}
    assert all(each["description"] for each in schema["properties"].values())


def test_helm_finds_nothing_to_say_against_the_chart(helm: Helm) -> None:
    for way in WAYS:
        assert "0 chart(s) failed" in helm.run("lint", "--strict", CHART, f"--set=install={way}")


def test_the_package_holds_what_the_links_lead_to(helm: Helm, tmp_path: Path) -> None:
    helm.run("package", CHART, f"--destination={tmp_path}")
    (package,) = tmp_path.glob("kubextend-*.tgz")
    assert helm.template(EVERYTHING, chart=package) == helm.template(EVERYTHING)


def test_notes_say_what_is_left_to_do(helm: Helm) -> None:
    for way, left in zip(WAYS, ("rollout", "kubextend-tls", "and no pod"), strict=True):
        values = f"--set=install={way},queue.enabled=true"
        notes = helm.run("install", "kubextend", CHART, "--dry-run=client", values)
        assert left in notes
        assert "kubextend ungate" in notes


PREVIOUS = yaml.safe_load((Path(__file__).parent / "values" / "0.1.0.yaml").read_text())
OTHER_FILES = {"kubextend": f"{SECOND_SCHEDULER}# changed\n", "kube-scheduler": SCHEDULER_FILE}
CHANGED = {"images": {"kubextend": DIGEST}, "replicas": 2, "configuration": OTHER_FILES}


def specified(thing: Object) -> Object:
    return {key: value for key, value in thing.items() if key not in {"metadata", "status"}}


@needs("MutatingAdmissionPolicy")
def test_an_upgrade_keeps_every_object_the_lease_and_the_queue(
    own_plane: ControlPlane, tools: Path, tmp_path: Path
) -> None:
    plane, api = own_plane, own_plane.api
    apply(api, yaml.safe_load((DEPLOY / "second-scheduler/namespace.yaml").read_text()))
    release = Helm(tools, tmp_path, plane.kubeconfig("admin"))
    release.install(PREVIOUS)
    before = release.template(PREVIOUS)
    await_queue(plane)
    api.create_namespace("waiting", QUEUED)

    def objects() -> dict[Key, Object]:
        return {key: api.call("GET", path_of(api, each)) for key, each in before.items()}

    with QueueStack(plane, "upgraded", sorted_by("PrioritySort")) as stack:
        until(stack.leads, "kubextend leads the queue")
        api.create_pods("waiting", [waiting_pod(f"pod-{n}") for n in range(3)])
        was, lease, queued = objects(), held(api.call("GET", LEASE)), queue_of(plane)
        assert queued == {f"pod-{n}": {GATE, OTHER_GATE} for n in range(3)}
        release.upgrade({**PREVIOUS, **CHANGED})
        now = objects()
        api.create_pods("waiting", [waiting_pod("pod-3")])
        assert queue_of(plane) == queued | {"pod-3": {GATE, OTHER_GATE}}
        remove_gate(api, "waiting", "pod-3", OTHER_GATE)
        until(lambda: queue_of(plane)["pod-3"] == set(), "the queue releases a pod")
        assert held(api.call("GET", LEASE)) == lease
        api.delete_pods("waiting")
    assert {now[key]["metadata"]["uid"] == was[key]["metadata"]["uid"] for key in was} == {True}
    changed = {key for key in was if specified(was[key]) != specified(now[key])}
    assert changed == {("Deployment", NAMESPACE, "kubextend-scheduler")}
    new = release.template({**PREVIOUS, **CHANGED}).keys() - before.keys()
    assert [kind for kind, *_ in new] == ["ConfigMap"]


def held(lease: Object) -> Object:
    """Return what of a Lease does not change while one holder renews it."""
    spec = {key: value for key, value in lease["spec"].items() if key != "renewTime"}
    return {"uid": lease["metadata"]["uid"], **spec}


def queue_of(plane: ControlPlane) -> dict[str, set[str]]:
    return {pod["metadata"]["name"]: {*gates(pod)} for pod in plane.api.pods("waiting")}


def waiting_pod(name: str) -> Object:
    """Make a pod that the queue passes over as long as it has another gate."""
    return gated(pod(name, SCHEDULER), OTHER_GATE)
