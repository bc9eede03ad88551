"""``Pod``: what a request said of it, and nothing made up."""

import core_world as world
import pytest

from kubextend import core

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def read_pod(value: object) -> core.Pod | None:
    return core.read_args(world.compact({"Pod": value})).pod


def test_every_field_is_read() -> None:
    expression = {"key": "zone", "operator": "In", "values": ["a", "b"]}
    name = {"key": "metadata.name", "operator": "In", "values": ["n"]}
    required = {
        "nodeSelectorTerms": [{"matchExpressions": [expression], "matchFields": [name]}, {}]
    }
    pod = read_pod(
        {
            "metadata": {
                "name": "p",
                "namespace": "ns",
                "uid": "u",
                "labels": {"b": "2", "a": "1"},
                "annotations": {"note": "é"},
            },
            "spec": {
                "schedulerName": "mine",
                "nodeName": "n1",
                "priority": -5,
                "nodeSelector": {"disk": "ssd"},
                "tolerations": [{"key": "k", "operator": "Exists"}, {}],
                "affinity": {"nodeAffinity": {REQUIRED: required}},
            },
        }
    )
    assert pod is not None
    assert (pod.name, pod.namespace, pod.uid) == ("p", "ns", "u")
    assert (pod.scheduler_name, pod.node_name, pod.priority) == ("mine", "n1", -5)
    assert pod.labels == {"a": "1", "b": "2"}
    assert pod.annotations == {"note": "é"}
    assert pod.node_selector == {"disk": "ssd"}
    assert pod.tolerations == [("k", "Exists", "", ""), ("", "", "", "")]
    assert pod.required_terms == [
        ([("zone", "In", ["a", "b"])], [("metadata.name", "In", ["n"])]),
        ([], []),
    ]
    assert repr(pod) == "<Pod ns/p>"


def test_what_is_absent_is_empty_none_or_the_default_scheduler() -> None:
    for value in ({}, {"metadata": None, "spec": None}, {"spec": {"schedulerName": ""}}):
        pod = read_pod(value)
        assert pod is not None
        assert (pod.name, pod.namespace, pod.uid, pod.node_name) == ("", "", "", "")
        assert pod.scheduler_name == "default-scheduler"
        assert pod.priority is None
        assert (pod.labels, pod.annotations, pod.node_selector, pod.tolerations) == ({}, {}, {}, [])
        assert pod.required_terms is None


def test_a_null_pod_is_none() -> None:
    assert read_pod(None) is None
    assert core.read_args(b"{}").pod is None


def test_a_pod_matches_selectors_and_their_texts() -> None:
    pod = world.pod_of({"app": "web"})
    assert pod.matches("app=web")
    assert pod.matches(core.Selector("app in (web,db)"))
    assert not pod.matches("app!=web")
    with pytest.raises(ValueError, match="found"):
        pod.matches("app in")
    with pytest.raises(TypeError):
        pod.matches(7)  # type: ignore[arg-type]


def test_a_pod_cannot_be_made_or_changed_from_python() -> None:
    with pytest.raises(TypeError):
        core.Pod()
    pod = world.pod_of({"app": "web"})
    pod.labels["app"] = "db"
    assert pod.labels == {"app": "web"}, "each look is a new dict"
    with pytest.raises(AttributeError):
        pod.name = "other"  # type: ignore[misc]
