"""Reads the YAML files of deploy/ as objects, and applies them to a kube-apiserver."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import httpx
import yaml

from .controlplane import ROOT
from .kubeapi import APPLY, Api, Object
from .workbench import until

DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm"
HELLO_WORLD = DEPLOY / "examples" / "hello-world"
QUEUE_SORT = DEPLOY / "examples" / "queue-sort"
ELASTIC_QUOTAS = DEPLOY / "examples" / "capacity-scheduling" / "elasticquotas.yaml"
POD_GROUPS = DEPLOY / "examples" / "coscheduling" / "podgroups.yaml"
RBAC = "rbac.authorization.k8s.io"
KUBEXTEND_KIND = "ExtenderConfiguration"
SCHEDULER_KIND = "KubeSchedulerConfiguration"
# Kinds that a program reads from a file, and that kube-apiserver does not serve.
CONFIGURATION_KINDS = {KUBEXTEND_KIND, SCHEDULER_KIND, "Component", "Config", "Kustomization"}
# Kinds of the Prometheus Operator and of other projects, which bring their definitions.
KINDS_OF_OTHERS = {"PodMonitor", "PrometheusRule"} | {
    "AppGroup",
    "NetworkTopology",
    "NodeResourceTopology",
    "SeccompProfile",
}


def documents() -> list[tuple[Path, Object]]:
    """Return every YAML document below deploy/ that has a kind, each with its file."""
    found = []
    for path in sorted([*DEPLOY.rglob("*.yaml"), *DEPLOY.rglob("*.yml")]):
        for document in yaml.safe_load_all(path.read_text()):
            if isinstance(document, dict) and "kind" in document:
                found += [(path, part) for part in document.get("items", [document])]
    return found


def objects() -> list[tuple[Path, Object]]:
    """Return every object below deploy/ that is meant for kube-apiserver, each with its file."""
    left_out = CONFIGURATION_KINDS | KINDS_OF_OTHERS
    return [(p, d) for p, d in documents() if d["kind"] not in left_out]


def path_of(api: Api, manifest: Object, namespace: str = "default") -> str:
    """Return the path of an object of this kind and name in kube-apiserver.

    Raises: LookupError: kube-apiserver serves no such kind.
    """
    group_version = manifest["apiVersion"]
    root = f"/api/{group_version}" if "/" not in group_version else f"/apis/{group_version}"
    for resource in api.call("GET", root)["resources"]:
        if resource["kind"] == manifest["kind"] and "/" not in resource["name"]:
            metadata = manifest["metadata"]
            inside = f"/namespaces/{metadata.get('namespace', namespace)}"
            scope = inside if resource["namespaced"] else ""
            return f"{root}{scope}/{resource['name']}/{metadata['name']}"
    message = f"{manifest['kind']} is no kind of {group_version}"
    raise LookupError(message)


def apply(api: Api, manifest: Object, **query: str) -> Object:
    """Create or update an object by a server-side apply, and return the object."""
    return api.call(
        "PATCH", path_of(api, manifest), manifest, APPLY, fieldManager="e2e", force="true", **query
    )


def grant_kubextend(api: Api, user: str) -> None:
    """Grant a user the permissions that deploy/ grants kubextend, and no others."""
    name, group = f"e2e-{user}", "rbac.authorization.k8s.io"
    roles = [d for _, d in objects() if d["kind"] == "ClusterRole"]
    allowed = []
    for wanted in ("kubextend", "kubextend-bind"):
        rules = [role["rules"] for role in roles if role["metadata"]["name"] == wanted]
        assert rules, f"deploy/ has no ClusterRole named {wanted}"
        assert all(each == rules[0] for each in rules), "the ClusterRoles in deploy/ differ"
        allowed += rules[0]
    metadata = {"name": name}
    role = {"metadata": metadata, "rules": allowed}
    binding = {
        "metadata": metadata,
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
    }
    api.call("POST", f"/apis/{group}/v1/clusterroles", role)
    api.call("POST", f"/apis/{group}/v1/clusterrolebindings", binding)


def grant_printed(api: Api, name: str, roles: str) -> None:
    """Grant the user kubextend the ClusterRole that ``kubextend check --rbac`` printed.

    Args:
        api: a client that may create roles.
        name: the name of the ClusterRole and of its binding.
        roles: what the command printed.
    """
    role = next(each for each in yaml.safe_load_all(roles) if each["kind"] == "ClusterRole")
    role["metadata"]["name"] = name
    apply(api, role)
    binding = {
        "metadata": {"name": name},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": "kubextend"}],
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
    }
    api.call("POST", f"/apis/{RBAC}/v1/clusterrolebindings", binding)


def define(api: Api, file: Path) -> str:
    """Apply the CustomResourceDefinition of a file; return the path of all objects once served."""
    definition = yaml.safe_load(file.read_text())
    apply(api, definition)
    spec = definition["spec"]
    version = f"{spec['group']}/{spec['versions'][0]['name']}"
    plural = spec["names"]["plural"]

    def is_served() -> bool:
        with contextlib.suppress(httpx.HTTPStatusError):
            resources = api.call("GET", f"/apis/{version}")["resources"]
            return any(each["name"] == plural for each in resources)
        return False

    until(is_served, f"{plural} are served")
    return f"/apis/{version}/{plural}"


@contextlib.contextmanager
def elastic_quota(api: Api, namespace: str, spec: Object) -> Iterator[None]:
    """Keep an ElasticQuota in a namespace during a block; ``define`` has defined the kind.

    CapacityScheduling adds up the ``min`` of all ElasticQuotas, those of other tests too.
    """
    quota = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": "quota", "namespace": namespace},
        "spec": spec,
    }
    apply(api, quota)
    try:
        yield
    finally:
        api.call("DELETE", path_of(api, quota))
