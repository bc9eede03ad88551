"""The rights that kubextend needs, and the roles that ``kubextend check --rbac`` prints."""

from typing import Any

import pytest
import yaml
from tests.doors.command_line import ROOT, checked, profile

DEPLOY = ROOT / "deploy"
# The right to hold kube-scheduler's own Lease.
NOT_OURS = {"kubextend-scheduler-lease"}
Right = tuple[str, str, str, tuple[str, ...]]


def rights(documents: Any, kind: str) -> set[Right]:
    """Return every right of the roles of a kind: group, resource, verb, names."""
    return {
        (group, resource, verb, tuple(rule.get("resourceNames", ())))
        for document in documents
        if document and document["kind"] == kind
        for rule in document["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def roles(point: str = "filter", plugin: str = "HighCommPodFilter", **sections: Any) -> str:
    """Return what ``check --rbac`` prints for a configuration that enables a plugin at a point."""
    one = {"cluster": {}, "profiles": [profile(**{point: plugin})], **sections}
    done = checked(one, "--rbac")
    assert done.exit_code == 0, done.stderr
    return done.stdout


def printed(point: str = "filter", plugin: str = "HighCommPodFilter", **sections: Any) -> list[Any]:
    return list(yaml.safe_load_all(roles(point, plugin, **sections)))


def written(*paths: str) -> list[Any]:
    return [each for path in paths for each in yaml.safe_load_all((DEPLOY / path).read_text())]


def test_the_rights_are_those_of_the_manifests() -> None:
    ours = rights(printed("reserve", "Coscheduling"), "ClusterRole")
    assert ours == rights(written("service/rbac.yaml", "service/rbac-bind.yaml"), "ClusterRole")
    documents = printed("queueSort", "PrioritySort")
    assert rights(documents, "Role") == rights(written("queue/rbac.yaml"), "Role")
    # The leader releases the pods of the queue by its own Lease.
    led = printed("queueSort", "PrioritySort", server={"lease": {}})
    assert rights(led, "Role") == rights(written("service/leader/rbac.yaml"), "Role")
    cluster = rights(documents, "ClusterRole")
    assert rights(written("queue/rbac.yaml"), "ClusterRole") <= cluster


def test_what_deploy_grants_is_what_some_configuration_needs() -> None:
    files = sorted(str(path.relative_to(DEPLOY)) for path in DEPLOY.rglob("rbac*.yaml"))
    ours = [each for each in written(*files) if each["metadata"]["name"] not in NOT_OURS]
    documents = printed("queueSort", "PrioritySort", server={"lease": {}})
    documents += printed("reserve", "Coscheduling")
    granted, needed = (
        {right[:3] for kind in ("ClusterRole", "Role") for right in rights(of, kind)}
        for of in (ours, documents)
    )
    assert needed == granted


def test_a_plugin_gets_what_its_class_declares_and_no_more() -> None:
    without = rights(printed(), "ClusterRole")
    reads = (("", "persistentvolumeclaims"), ("scheduling.x-k8s.io", "podgroups"))
    assert rights(printed(plugin="Reads"), "ClusterRole") - without == {
        (*kind, verb, ()) for kind in reads for verb in ("list", "watch")
    }
    assert not any(resource == "pods" for _, resource, _, _ in without)


def test_a_lease_in_another_namespace_needs_a_role_there() -> None:
    documents = printed(server={"lease": {"namespace": "leases"}})
    namespaces = [each["metadata"].get("namespace") for each in documents]
    assert namespaces == [None, "leases", "kubextend-system"]


def test_the_roles_say_where_a_queue_without_a_namespace_has_its_lease_outside_of_a_pod() -> None:
    text = roles("queueSort", "PrioritySort")
    assert "the queue's Lease in kube-system: set queue.lease.namespace" in text
    named = roles("queueSort", "PrioritySort", queue={"lease": {"namespace": "leases"}})
    for known in (named, roles(), roles(server={"lease": {}})):
        assert "queue.lease.namespace" not in known


@pytest.mark.parametrize(
    ("point", "plugin", "sections"),
    [
        ("filter", "HighCommPodFilter", {}),
        ("queueSort", "PrioritySort", {}),
        ("filter", "HighCommPodFilter", {"server": {"lease": {}}}),
    ],
)
def test_the_roles_say_which_policy_narrows_them_and_have_the_right_that_it_asks_for(
    point: str, plugin: str, sections: dict[str, Any]
) -> None:
    text = roles(point, plugin, **sections)
    first, commands, *_ = text.split("# Grant")
    assert "First apply deploy/service/limits.yaml:" in first
    assert "with deploy/second-scheduler the account is kubextend-scheduler" in commands
    cluster = rights(yaml.safe_load_all(text), "ClusterRole")
    assert ("kubextend.dev", "podlimits", "obey", ()) in cluster


def test_there_are_no_rights_without_the_api() -> None:
    result = checked({}, "--rbac")
    assert result.exit_code == 1
    assert "needs no rights" in result.stderr
