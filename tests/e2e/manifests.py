"""Reads the YAML files of deploy/ as objects, and applies them to a kube-apiserver."""

import contextlib
from collections.abc import Iterator, Sequence
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
KINDS_OF_OTHERS = {"PodMonitor", "PrometheusRule", "AppGroup", "NetworkTopology"}
KINDS_OF_OTHERS |= {"NodeResourceTopology", "SeccompProfile"}


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


def grant(
    api: Api,
    name: str,
    account: str,
    rules: Sequence[Object] = (),
    *,
    role: str = "",
    namespace: str = "",
) -> None:
    """Give an account a new role of rules, or a ClusterRole that there is, in one namespace or all.

    Args:
        api: a client that may create roles.
        name: the name of the binding and of the new role.
        account: the user, or system:serviceaccount:NAMESPACE:NAME.
        rules: the rules of the new role.
        role: the ClusterRole that there is.
        namespace: empty: all.
    """
    within = {"namespace": namespace} if namespace else {}
    base: Object = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": name, **within}}
    scope = "" if namespace else "Cluster"
    if rules:
        apply(api, {**base, "kind": f"{scope}Role", "rules": [*rules]})
    kind = "ClusterRole" if role else f"{scope}Role"
    subject = {"apiGroup": RBAC, "kind": "User", "name": account}
    reference = {"apiGroup": RBAC, "kind": kind, "name": role or name}
    binding = {"kind": f"{scope}RoleBinding", "subjects": [subject], "roleRef": reference}
    apply(api, {**base, **binding})


def grant_kubextend(api: Api, user: str) -> None:
    """Grant a user the permissions that deploy/ grants kubextend, and no others."""
    roles = [d for _, d in objects() if d["kind"] == "ClusterRole"]
    allowed = []
    for wanted in ("kubextend", "kubextend-bind"):
        rules = [role["rules"] for role in roles if role["metadata"]["name"] == wanted]
        assert rules, f"deploy/ has no ClusterRole named {wanted}"
        assert all(each == rules[0] for each in rules), "the ClusterRoles in deploy/ differ"
        allowed += rules[0]
    grant(api, f"e2e-{user}", user, allowed)


def any_kind(group: str, version: str, kind: str, scope: str, **more: str) -> Object:
    """Return a definition of a kind whose objects may hold anything; ``more`` are annotations."""
    names = {"plural": f"{kind.lower()}s", "singular": kind.lower(), "kind": kind}
    if kind.endswith("y"):
        names["plural"] = f"{kind.lower()[:-1]}ies"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {"name": version, "served": True, "storage": True}
    versions = [{**served, "schema": {"openAPIV3Schema": schema}}]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{names['plural']}.{group}", "annotations": more},
        "spec": {"group": group, "scope": scope, "names": names, "versions": versions},
    }


def define(api: Api, given: Path | Object) -> str:
    """Apply a CustomResourceDefinition until it is served; return the path of all objects."""
    definition = yaml.safe_load(given.read_text()) if isinstance(given, Path) else given
    apply(api, definition)
    spec = definition["spec"]
    path = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
    until(lambda: serves(api, path), f"{path} is served")
    return path


def serves(api: Api, path: str) -> bool:
    try:
        api.items(path)
    except httpx.HTTPStatusError:
        return False
    return True


@contextlib.contextmanager
def elastic_quota(api: Api, namespace: str, spec: Object) -> Iterator[None]:
    """Keep an ElasticQuota in a namespace during a block; ``define`` has defined the kind.

    CapacityScheduling adds up the ``min`` of all ElasticQuotas, those of other tests too.
    """
    kind = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "ElasticQuota"}
    quota = {**kind, "metadata": {"name": "quota", "namespace": namespace}, "spec": spec}
    apply(api, quota)
    try:
        yield
    finally:
        api.call("DELETE", path_of(api, quota))
