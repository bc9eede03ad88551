"""Everything in deploy/ is what a real kube-apiserver and kubextend itself accept."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from .certificates import Authority
from .controlplane import ControlPlane
from .kubeapi import Api, NodePool, Object
from .manifests import DEPLOY, KUBEXTEND_KIND, SCHEDULER_KIND, apply, documents, objects
from .stack import Scheduler, Stack, run_kubextend
from .versions import is_served
from .workload import Workload

SERVED_BY_DEFAULT = {"default", "kube-system", "kube-public", "kube-node-lease"}
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
RDMA = DEPLOY / "examples" / "rdma"


def configurations() -> Iterator[tuple[str, Object]]:
    """Each ExtenderConfiguration, in a file of its own or in a ConfigMap."""
    for path, document in documents():
        if document["kind"] == KUBEXTEND_KIND:
            yield str(path.relative_to(DEPLOY)), document
        if document["kind"] == "ConfigMap":
            for key, text in document.get("data", {}).items():
                if f"kind: {KUBEXTEND_KIND}" in text:
                    yield f"{path.relative_to(DEPLOY)}:{key}", yaml.safe_load(text)


@pytest.fixture(scope="module")
def namespaces(api: Api) -> None:
    """Make the namespaces that the manifests bring or name; a dry run does not."""
    own = {d["metadata"]["name"]: d for _, d in objects() if d["kind"] == "Namespace"}
    referred = {d["metadata"].get("namespace", "default") for _, d in objects()}
    for name in (own.keys() | referred) - SERVED_BY_DEFAULT:
        bare = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        apply(api, own.get(name, bare))


FILES = sorted({path for path, _ in objects()})


@pytest.mark.usefixtures("namespaces")
@pytest.mark.parametrize("file", FILES, ids=lambda path: str(path.relative_to(DEPLOY)))
def test_a_real_kube_apiserver_accepts_the_manifests_in_a_server_side_dry_run(
    file: Path, api: Api
) -> None:
    for path, thing in objects():
        if path == file and is_served(thing["kind"]):
            assert apply(api, thing, dryRun="All")["kind"] == thing["kind"]


def test_the_pods_of_all_manifests_run_where_pod_security_is_restricted(api: Api) -> None:
    api.create_namespace("restricted", RESTRICTED)
    templates = [d["spec"]["template"] for _, d in objects() if "template" in d.get("spec", {})]
    assert templates
    for template in templates:
        metadata = {**template.get("metadata", {}), "name": "restricted"}
        pod = {"apiVersion": "v1", "kind": "Pod", **template, "metadata": metadata}
        api.call("POST", "/api/v1/namespaces/restricted/pods", pod, dryRun="All")


@pytest.mark.parametrize("name", dict(configurations()))
def test_kubextend_accepts_the_configuration(name: str, tmp_path: Path, examples: Path) -> None:
    configuration = dict(configurations())[name]
    # Its certificates are in a Secret.
    authority = Authority(tmp_path / "pki")
    files = {**authority.issue("server").files, "clientCAFile": str(authority.cert)}
    if "tls" in configuration.get("server", {}):
        configuration["server"]["tls"] |= files
    path = tmp_path / "kubextend.yaml"
    path.write_text(yaml.safe_dump(configuration))
    assert run_kubextend("check", path, python_path=[examples])


def test_a_real_kube_scheduler_starts_with_each_scheduler_configuration(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    authority = Authority(tmp_path / "pki")
    files = {**authority.issue("scheduler").files, "caFile": str(authority.cert)}
    kubeconfig = str(control_plane.kubeconfig("system:kube-scheduler"))
    files_of_theirs = [path for path, d in documents() if d["kind"] == SCHEDULER_KIND]
    assert files_of_theirs
    for path in files_of_theirs:
        config = yaml.safe_load(path.read_text())
        config["clientConnection"] = {"kubeconfig": kubeconfig}
        config["leaderElection"] = {"leaderElect": False}
        for extender in config["extenders"]:
            if "tlsConfig" in extender:
                extender["tlsConfig"] |= files
        Scheduler(control_plane, f"deploy-{path.parent.name}", config).close()


RDMA_NODES = {"rdma-100", "rdma-200"}
# As the table in deploy/examples/rdma/pods.yaml says.
LANDS_ON = {
    "kubextend.yaml": {"chatty": RDMA_NODES, "quiet": {"plain", *RDMA_NODES}},
    "label-match.yaml": {"chatty": {"rdma-200"}, "quiet": {"plain"}},
}


def test_the_pods_of_the_rdma_example_land_where_it_says(own_plane: ControlPlane) -> None:
    api = own_plane.api
    api.create_nodes(node for path, node in objects() if path == RDMA / "nodes.yaml")
    for file, expected in LANDS_ON.items():
        (profile,) = yaml.safe_load((RDMA / file).read_text())["profiles"]
        name = f"rdma-{Path(file).stem}"
        with Stack(own_plane, name, profile=profile):
            workload = Workload(api, name, name, NodePool(api, name, 0))
            api.create_pods(name, (d for path, d in objects() if path == RDMA / "pods.yaml"))
            placed = workload.until_placed([*expected])
            assert {pod for pod, node in placed.items() if node not in expected[pod]} == set()
            workload.close()
    for name in ("plain", *RDMA_NODES):
        api.delete_node(name)


def test_no_role_in_deploy_uses_a_wildcard() -> None:
    roles = [d for _, d in objects() if d["kind"] in {"ClusterRole", "Role"}]
    rules = [rule for role in roles for rule in role["rules"]]
    assert rules
    for rule in rules:
        assert "*" not in [*rule.get("apiGroups", []), *rule.get("resources", []), *rule["verbs"]]
