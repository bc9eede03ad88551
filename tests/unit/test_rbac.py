"""The rights that kubextend needs, and the roles that ``kubextend check --rbac`` prints."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from kubextend import config, discovery
from kubextend.errors import KubextendError
from kubextend.queue_controller import NAMESPACE_OUTSIDE_OF_A_POD
from kubextend.rbac import needed_rights, roles

DEPLOY = Path(__file__).parents[2] / "deploy"
# The right to hold kube-scheduler's own Lease.
NOT_OURS = {"kubextend-scheduler-lease"}
Right = tuple[str, str, str, tuple[str, ...]]


class Reads:
    name = "Reads"
    informers = ("persistentvolumeclaims", "scheduling.x-k8s.io/v1alpha1/podgroups")

    def filter(self, *_: Any) -> None: ...


def rights(documents: Any, kind: str) -> set[Right]:
    """Every right of the roles of a kind: group, resource, verb, names."""
    return {
        (group, resource, verb, tuple(rule.get("resourceNames", ())))
        for document in documents
        if document and document["kind"] == kind
        for rule in document["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def parsed(
    point: str = "filter", plugin: str = "HighCommPodFilter", **tree: Any
) -> config.ExtenderConfiguration:
    profile = {"plugins": {point: {"enabled": [{"name": plugin}]}}}
    whole = {
        "apiVersion": "kubextend.dev/v1alpha1",
        "kind": "ExtenderConfiguration",
        "cluster": {},
        "profiles": [profile],
        **tree,
    }
    known = discovery.known_plugins({"Reads": Reads})
    return config.parse(whole, known=known)


def printed(point: str = "filter", plugin: str = "HighCommPodFilter", **tree: Any) -> list[Any]:
    return list(yaml.safe_load_all(roles(parsed(point, plugin, **tree))))


def written(*paths: str) -> list[Any]:
    return [each for path in paths for each in yaml.safe_load_all((DEPLOY / path).read_text())]


def test_the_rights_are_those_of_the_manifests() -> None:
    ours = rights(printed("reserve", "Coscheduling"), "ClusterRole")
    assert ours == rights(written("service/rbac.yaml", "service/rbac-bind.yaml"), "ClusterRole")


def test_the_rights_of_the_queue_and_a_leader_are_those_of_the_manifests() -> None:
    documents = printed("queueSort", "PrioritySort", server={"lease": {}})
    kept = rights(written("service/leader/rbac.yaml", "queue/rbac.yaml"), "Role")
    assert rights(documents, "Role") == kept
    cluster = rights(documents, "ClusterRole")
    assert rights(written("queue/rbac.yaml"), "ClusterRole") <= cluster


def test_what_deploy_grants_is_what_some_configuration_needs() -> None:
    files = sorted(str(path.relative_to(DEPLOY)) for path in DEPLOY.rglob("rbac*.yaml"))
    granted = {
        (verb, group, resource)
        for document in written(*files)
        if document["metadata"]["name"] not in NOT_OURS
        for rule in document.get("rules", ())
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    queued = parsed("queueSort", "PrioritySort", server={"lease": {}})
    needed = [needed_rights(given, "here") for given in (queued, parsed("reserve", "Coscheduling"))]
    assert {right[:3] for rights in needed for right in rights} == granted


def test_no_right_is_asked_for_twice() -> None:
    queued = parsed("queueSort", "PrioritySort", server={"lease": {}})
    for given in (parsed(), parsed(plugin="Reads"), parsed("reserve", "Coscheduling"), queued):
        needed = needed_rights(given, "here")
        assert len(needed) == len(set(needed))


def test_a_lease_needs_rights_in_its_namespace_and_a_leader_in_the_namespace_of_its_pod() -> None:
    given = parsed(server={"lease": {"namespace": "there", "name": "l"}})
    assert {str(right) for right in needed_rights(given, "here") if right.namespace} == {
        "create leases.coordination.k8s.io -n there",
        "get leases.coordination.k8s.io/l -n there",
        "update leases.coordination.k8s.io/l -n there",
        "patch pods -n here",
    }


def test_a_plugin_gets_what_its_class_declares_and_no_more() -> None:
    without = rights(printed(), "ClusterRole")
    assert rights(printed(plugin="Reads"), "ClusterRole") - without == {
        (group, resource, verb, ())
        for group, resource in (
            ("", "persistentvolumeclaims"),
            ("scheduling.x-k8s.io", "podgroups"),
        )
        for verb in ("list", "watch")
    }
    assert not any(resource == "pods" for _, resource, _, _ in without)


def test_a_lease_in_another_namespace_needs_a_role_there() -> None:
    documents = printed(server={"lease": {"namespace": "leases"}})
    assert [each["metadata"].get("namespace") for each in documents] == [
        None,
        "leases",
        "kubextend-system",
    ]


def test_the_roles_say_where_a_queue_without_a_namespace_has_its_lease_outside_of_a_pod() -> None:
    text = roles(parsed("queueSort", "PrioritySort"))
    assert f"the queue's Lease in {NAMESPACE_OUTSIDE_OF_A_POD}: set queue.lease.namespace" in text
    named = parsed("queueSort", "PrioritySort", queue={"lease": {"namespace": "leases"}})
    for known in (roles(named), roles(parsed()), roles(parsed(server={"lease": {}}))):
        assert "queue.lease.namespace" not in known


@pytest.mark.parametrize(
    "given",
    [parsed(), parsed("queueSort", "PrioritySort"), parsed(server={"lease": {}})],
    ids=["a filter", "a queue", "a leader"],
)
def test_the_roles_say_which_policy_narrows_them_and_have_the_right_that_it_asks_for(
    given: config.ExtenderConfiguration,
) -> None:
    text = roles(given)
    first, commands, *_ = text.split("# Grant")
    assert "First apply deploy/service/limits.yaml:" in first
    assert "with deploy/second-scheduler the account is kubextend-scheduler" in commands
    cluster = rights(yaml.safe_load_all(text), "ClusterRole")
    assert ("kubextend.dev", "podlimits", "obey", ()) in cluster


def test_the_roles_are_for_the_namespace_of_the_pod_where_that_is_known() -> None:
    text = roles(parsed("queueSort", "PrioritySort", server={"lease": {}}), "mine")
    namespaces = [each["metadata"].get("namespace") for each in yaml.safe_load_all(text)]
    assert namespaces == [None, "mine"]
    assert text.count("--serviceaccount=mine:kubextend") == 2
    assert "kubextend-system" not in text
    assert "queue.lease.namespace" not in text


def test_without_the_api_there_are_no_rights() -> None:
    assert needed_rights(parsed(cluster=None), "here") == []
    with pytest.raises(KubextendError, match="needs no rights"):
        printed(cluster=None)
