"""The roles that ``kubextend check --rbac`` prints."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from kubextend import config, discovery
from kubextend.errors import KubextendError
from kubextend.rbac import roles

DEPLOY = Path(__file__).parents[2] / "deploy"
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


def printed(point: str = "filter", plugin: str = "HighCommPodFilter", **tree: Any) -> list[Any]:
    profile = {"plugins": {point: {"enabled": [{"name": plugin}]}}}
    whole = {
        "apiVersion": "kubextend.dev/v1alpha1",
        "kind": "ExtenderConfiguration",
        "cluster": {},
        "profiles": [profile],
        **tree,
    }
    known = discovery.known_plugins({"Reads": Reads})
    return list(yaml.safe_load_all(roles(config.parse(whole, known=known))))


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


def test_without_the_api_there_are_no_rights() -> None:
    with pytest.raises(KubextendError, match="needs no rights"):
        printed(cluster=None)
