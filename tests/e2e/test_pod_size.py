"""The policy of deploy/pod-size: what it lets in is kept whole; the rest is refused."""

import json

import pytest

from kubextend import core

from .controlplane import ControlPlane
from .kubeapi import MERGE, PREFERRED, REQUIRED, Api, Object, container
from .manifests import DEPLOY, apply, objects
from .workbench import until

NAMESPACE = "pod-size"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
# Of a larger pod kubextend leaves parts out.
MOST_BYTES = 64 << 10
# kube-apiserver adds two tolerations of its own to each pod.
MOST = {"labels": 48, "annotations": 64, "annotation_bytes": 16384, "tolerations": 20 - 2}
MOST |= {"gates": 16, "selected": 16, "terms": 16, "expressions": 16, "values": 64}
NONE = dict.fromkeys(MOST, 0) | {"annotations": 1, "annotation_bytes": 100}
# The number that is one more than the most, others that it needs, and what is said.
REFUSED: dict[str, tuple[dict[str, int], str]] = {
    "labels": ({}, "a pod may have 48 labels"),
    "annotations": ({"annotation_bytes": 400}, "64 annotations"),
    "annotation_bytes": ({}, "of 16 KiB together"),
    "tolerations": ({}, "20 tolerations"),
    "gates": ({}, "16 scheduling gates"),
    "selected": ({}, "16 labels in its node selector"),
    "terms": ({"expressions": 1, "values": 1}, "16 terms of node affinity"),
    "expressions": ({"values": 17}, "with 16 expressions"),
    "values": ({"terms": 1, "expressions": 1}, "64 values together"),
}
VALUE = "v" * 63


@pytest.fixture(scope="module")
def api(control_plane: ControlPlane) -> Api:
    """The policy is in force in one namespace, so that other tests keep their large pods.

    The namespace has a pod "before" that is larger than the policy allows, and older than it.
    """
    api = control_plane.api
    api.create_namespace(NAMESPACE)
    before = sized(labels=49, annotation_bytes=16385, gates=17)
    before["metadata"] |= {"name": "before", "finalizers": ["e2e.kubextend.dev/kept"]}
    api.call("POST", PODS, before)
    for path, manifest in objects():
        if path.parent == DEPLOY / "pod-size":
            if manifest["kind"].endswith("Binding"):
                own = {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}}
                manifest["spec"]["matchResources"] = {"namespaceSelector": own}
            apply(api, manifest)
    until(lambda: api.refusal("POST", PODS, sized(labels=49)), "the policy is in force")
    return api


def key(number: int) -> str:
    """The longest name of a label: a prefix of 253 characters and a name of 63."""
    prefix = ".".join(["p" * 61] * 4)
    return f"{prefix}aaaaa/{number:063}"


def sized(**numbers: int) -> Object:
    """Make a pod with so many of each, every one as long as Kubernetes allows.

    The expressions are in the first term that is required, and the values in the first expression.
    The other terms are preferred; such a term may be empty.
    """
    many = NONE | numbers
    first = [VALUE] * (many["values"] - many["expressions"] + 1)
    expressions = [
        {"key": key(number), "operator": "NotIn", "values": [VALUE] if number else first}
        for number in range(many["expressions"])
    ]
    affinity: Object = {PREFERRED: [{"weight": 1, "preference": {}}] * (many["terms"] - 1)}
    if expressions:
        affinity[REQUIRED] = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
    tolerated = {"operator": "Equal", "value": VALUE, "effect": "PreferNoSchedule"}
    texts = {f"a{number:02}": "" for number in range(many["annotations"])}
    texts["a00"] = "x" * (many["annotation_bytes"] - 3 * len(texts))

    def keys(of: str) -> list[str]:
        return [key(number) for number in range(many[of])]

    labels = dict.fromkeys(keys("labels"), VALUE)
    return {
        "metadata": {"name": "sized", "labels": labels, "annotations": texts},
        "spec": {
            "containers": [container()],
            "tolerations": [{"key": each, **tolerated} for each in keys("tolerations")],
            "schedulingGates": [{"name": each} for each in keys("gates")],
            "nodeSelector": dict.fromkeys(keys("selected"), VALUE),
            "affinity": {"nodeAffinity": affinity},
        },
    }


def test_a_pod_that_has_the_most_of_everything_is_let_in_and_kept_whole(api: Api) -> None:
    made = api.call("POST", PODS, sized(**MOST), dryRun="All")
    resources = {f"example.com/{number:050}": "1" for number in range(2000)}
    made["spec"]["containers"][0]["resources"] = {"requests": resources}
    store = core.PodStore(max_pod_bytes=MOST_BYTES)
    listed = {"metadata": {"resourceVersion": "1"}, "items": [made]}
    store.replace(json.dumps(listed).encode())
    (kept,) = store.pods()
    counted = (kept.labels, kept.annotations, kept.scheduling_gates, kept.node_selector)
    assert [len(each) for each in counted] == [48, 64, 16, 16]
    assert len(kept.tolerations) == 20


@pytest.mark.parametrize("of", REFUSED)
def test_a_pod_that_has_one_more_of_anything_is_refused_with_the_reason(of: str, api: Api) -> None:
    others, says = REFUSED[of]
    assert says in api.refusal("POST", PODS, sized(**{of: MOST[of] + 1}, **others))


def test_a_pod_that_was_there_before_is_changed_and_let_go(api: Api) -> None:
    path = f"{PODS}/before"
    label = {"metadata": {"labels": {"one": "more"}}}
    assert "48 labels" in api.refusal("PATCH", path, label, MERGE)
    api.call("PATCH", path, {"metadata": {"finalizers": None}}, MERGE)
    api.delete_pod(NAMESPACE, "before")
    assert [pod["metadata"]["name"] for pod in api.pods(NAMESPACE)] == []
