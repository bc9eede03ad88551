"""Everything in deploy/ is what a real kube-apiserver and kubextend itself accept."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from .certificates import Authority
from .controlplane import ControlPlane, NewControlPlane
from .kubeapi import Api, Object, placed_on
from .manifests import (
    DEPLOY,
    KUBEXTEND_KIND,
    SCHEDULER_KIND,
    apply,
    documents,
    objects,
)
from .stack import Mode, Scheduler, Stack, run_kubextend
from .versions import needs
from .workbench import until

SERVED_BY_DEFAULT = {"default", "kube-system", "kube-public", "kube-node-lease"}
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
RDMA = DEPLOY / "examples" / "rdma"


def named(manifest: tuple[Path, Object]) -> str:
    path, thing = manifest
    name = thing.get("metadata", {}).get("name", "")
    return f"{path.relative_to(DEPLOY)}:{thing['kind']}/{name}"


def configurations() -> Iterator[tuple[str, str]]:
    """Each ExtenderConfiguration, in a file of its own or in a ConfigMap."""
    for path, document in documents():
        if document["kind"] == KUBEXTEND_KIND:
            yield str(path.relative_to(DEPLOY)), yaml.safe_dump(document)
        if document["kind"] == "ConfigMap":
            for key, text in document.get("data", {}).items():
                if f"kind: {KUBEXTEND_KIND}" in text:
                    yield f"{path.relative_to(DEPLOY)}:{key}", text


def pod_templates() -> list[tuple[Path, Object]]:
    return [(path, d) for path, d in objects() if "template" in d.get("spec", {})]


@pytest.fixture(scope="module")
def namespaces(api: Api) -> set[str]:
    """Namespaces that the manifests bring or name; a dry run does not make them."""
    own = {d["metadata"]["name"]: d for _, d in objects() if d["kind"] == "Namespace"}
    referred = {d["metadata"].get("namespace", "default") for _, d in objects()}
    for name in (own.keys() | referred) - SERVED_BY_DEFAULT:
        bare = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        apply(api, own.get(name, bare))
    return own.keys() | referred


@pytest.mark.parametrize(
    "manifest",
    [pytest.param(found, id=named(found), marks=needs(found[1]["kind"])) for found in objects()],
)
def test_a_real_kube_apiserver_accepts_the_manifest_in_a_server_side_dry_run(
    manifest: tuple[Path, Object], api: Api, namespaces: set[str]
) -> None:
    path, thing = manifest
    assert namespaces
    applied = apply(api, thing, dryRun="All")
    assert applied["kind"] == thing["kind"], path


@pytest.mark.parametrize("manifest", pod_templates(), ids=map(named, pod_templates()))
def test_the_pods_of_a_manifest_run_where_pod_security_is_restricted(
    manifest: tuple[Path, Object], api: Api, restricted: str
) -> None:
    path, thing = manifest
    template = thing["spec"]["template"]
    metadata = {**template.get("metadata", {}), "name": "restricted"}
    pod = {"apiVersion": "v1", "kind": "Pod", **template, "metadata": metadata}
    created = api.call("POST", f"/api/v1/namespaces/{restricted}/pods", pod, dryRun="All")
    assert created["kind"] == "Pod", path


@pytest.fixture(scope="module")
def restricted(api: Api) -> str:
    return api.create_namespace("restricted", RESTRICTED)


def on_this_machine(configuration: Object, folder: Path) -> Path:
    """Write the configuration with certificates that exist here; theirs are in a Secret."""
    authority = Authority(folder / "pki")
    own = authority.issue("server")
    files = {"certFile": own.cert, "keyFile": own.key, "clientCAFile": authority.cert}
    server = configuration.get("server", {})
    for field in server.get("tls", {}):
        server["tls"][field] = str(files[field])
    path = folder / "kubextend.yaml"
    path.write_text(yaml.safe_dump(configuration))
    return path


@pytest.mark.parametrize("name", dict(configurations()))
def test_kubextend_accepts_the_configuration(
    name: str, tmp_path: Path, hello_world: Path, queue_sort: Path
) -> None:
    configuration = yaml.safe_load(dict(configurations())[name])
    checked = on_this_machine(configuration, tmp_path)
    assert run_kubextend("check", checked, python_path=[hello_world, queue_sort])


def scheduler_files() -> list[Path]:
    return [path for path, d in documents() if d["kind"] == SCHEDULER_KIND]


@pytest.mark.parametrize("path", scheduler_files(), ids=lambda p: str(p.relative_to(DEPLOY)))
def test_the_scheduler_configuration_is_what_kubextend_writes(path: Path, tmp_path: Path) -> None:
    ours = yaml.safe_load(path.with_name("kubextend.yaml").read_text())
    written = yaml.safe_load(path.read_text())
    kubeconfig = written.get("clientConnection", {}).get("kubeconfig")
    options = ["--kubeconfig", kubeconfig] if kubeconfig else []
    config = on_this_machine(ours, tmp_path)
    output = run_kubextend("scheduler-config", "--config", config, *options)
    assert yaml.safe_load(output) == written


@pytest.mark.parametrize("path", scheduler_files(), ids=lambda p: str(p.relative_to(DEPLOY)))
def test_a_real_kube_scheduler_starts_with_the_scheduler_configuration(
    path: Path, control_plane: ControlPlane, tmp_path: Path
) -> None:
    config = yaml.safe_load(path.read_text())
    config["clientConnection"] = {
        "kubeconfig": str(control_plane.kubeconfig("system:kube-scheduler"))
    }
    config["leaderElection"] = {"leaderElect": False}
    authority = Authority(tmp_path / "pki")
    pair = authority.issue("scheduler")
    files = {"caFile": authority.cert, "certFile": pair.cert, "keyFile": pair.key}
    for extender in config["extenders"]:
        for field in extender.get("tlsConfig", {}):
            extender["tlsConfig"][field] = str(files[field])
    here = tmp_path / "kube-scheduler.yaml"
    here.write_text(yaml.safe_dump(config))
    Scheduler(control_plane, f"deploy-{path.parent.name}", here).close()


RDMA_NODES = {"rdma-100", "rdma-200"}
# As the table in deploy/examples/rdma/pods.yaml says.
LANDS_ON = {
    "kubextend.yaml": {"chatty": RDMA_NODES, "quiet": {"plain", *RDMA_NODES}},
    "label-match.yaml": {"chatty": {"rdma-200"}, "quiet": {"plain"}},
}


@pytest.fixture(scope="module")
def example_plane(new_control_plane: NewControlPlane) -> ControlPlane:
    """A control plane with the example's nodes and no other."""
    plane = new_control_plane()
    for path, node in objects():
        if path == RDMA / "nodes.yaml":
            plane.api.call("POST", "/api/v1/nodes", node)
    return plane


@pytest.mark.parametrize("file", LANDS_ON)
def test_the_pods_of_the_rdma_example_land_where_it_says(
    file: str, example_plane: ControlPlane
) -> None:
    (profile,) = yaml.safe_load((RDMA / file).read_text())["profiles"]
    api = example_plane.api
    name = f"rdma-{Path(file).stem}"
    stack = Stack(example_plane, name, Mode(names=True), profile=profile)
    namespace = api.create_namespace(name)
    api.create_pods(namespace, (d for path, d in objects() if path == RDMA / "pods.yaml"))
    expected = LANDS_ON[file]
    until(lambda: len(placed_on(api.pods(namespace))) == len(expected), "the pods are placed")
    nodes = placed_on(api.pods(namespace))
    assert {pod: node in expected[pod] for pod, node in nodes.items()} == dict.fromkeys(
        expected, True
    )
    api.delete_pods(namespace)
    stack.close()


def test_no_role_in_deploy_uses_a_wildcard() -> None:
    rules = [
        (path, rule)
        for path, d in objects()
        if d["kind"] in {"ClusterRole", "Role"}
        for rule in d["rules"]
    ]
    granted = [
        value
        for _, rule in rules
        for value in itertools.chain(
            rule.get("apiGroups", []), rule.get("resources", []), rule["verbs"]
        )
    ]
    assert rules
    assert "*" not in granted


def test_deploy_holds_the_three_ways_to_run_beside_kube_scheduler() -> None:
    kinds = {d["kind"] for _, d in objects()}
    assert {"Pod", "Deployment", "Service", "ClusterRole", "Node"} <= kinds
    assert dict(configurations())
