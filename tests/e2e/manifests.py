"""The files of deploy/, as objects."""

from pathlib import Path

import yaml

from .controlplane import ROOT
from .kubeapi import APPLY, Api, Object

DEPLOY = ROOT / "deploy"
HELLO_WORLD = DEPLOY / "examples" / "hello-world"
QUEUE_SORT = DEPLOY / "examples" / "queue-sort"
KUBEXTEND_KIND = "ExtenderConfiguration"
SCHEDULER_KIND = "KubeSchedulerConfiguration"
# Read by a program from a file; no API serves them.
CONFIGURATION_KINDS = {KUBEXTEND_KIND, SCHEDULER_KIND, "Config", "Kustomization"}


def documents() -> list[tuple[Path, Object]]:
    """Every YAML document below deploy/ with its file."""
    found = []
    for path in sorted([*DEPLOY.rglob("*.yaml"), *DEPLOY.rglob("*.yml")]):
        for document in yaml.safe_load_all(path.read_text()):
            if isinstance(document, dict) and "kind" in document:
                found += [(path, part) for part in document.get("items", [document])]
    return found


def objects() -> list[tuple[Path, Object]]:
    """Every object that is meant for kube-apiserver."""
    return [(p, d) for p, d in documents() if d["kind"] not in CONFIGURATION_KINDS]


def path_of(api: Api, manifest: Object, namespace: str = "default") -> str:
    """Where kube-apiserver keeps an object of this kind and name.

    Raises: LookupError: it serves no such kind.
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
    """Let kube-apiserver make the object, or make it so, and return it."""
    return api.call(
        "PATCH", path_of(api, manifest), manifest, APPLY, fieldManager="e2e", force="true", **query
    )


def grant_kubextend(api: Api, user: str) -> None:
    """Allow a user what deploy/ allows kubextend, and nothing else."""
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
