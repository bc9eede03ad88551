"""The policy of deploy/pod-size: what it lets in is kept whole; the rest is refused."""

import json

import httpx
import pytest

from kubextend import core
from kubextend.framework.handle import MAX_POD_BYTES

from .controlplane import ControlPlane
from .kubeapi import MERGE, Api, Object
from .manifests import DEPLOY, apply, objects
from .workbench import until

NAMESPACE = "pod-size"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
LABELS, ANNOTATIONS, ANNOTATION_BYTES, TOLERATIONS, GATES = 48, 64, 16384, 20, 16
SELECTED, TERMS, EXPRESSIONS, VALUES = 16, 16, 16, 64


@pytest.fixture(scope="module")
def before(control_plane: ControlPlane) -> str:
    """The name of a pod that is larger than the policy allows and older than it."""
    api = control_plane.api
    api.create_namespace(NAMESPACE)
    pod = sized(labels=LABELS + 1, annotation_bytes=ANNOTATION_BYTES + 1, gates=GATES + 1)
    pod["metadata"]["name"] = "before"
    pod["metadata"]["finalizers"] = ["e2e.kubextend.dev/kept"]
    api.call("POST", PODS, pod)
    return str(pod["metadata"]["name"])


@pytest.fixture(scope="module")
def api(control_plane: ControlPlane, before: str) -> Api:
    """The policy is in force in one namespace, so that other tests keep their large pods."""
    api = control_plane.api
    for path, manifest in objects():
        if path.parent == DEPLOY / "pod-size":
            if manifest["kind"].endswith("Binding"):
                own = {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}}
                manifest["spec"]["matchResources"] = {"namespaceSelector": own}
            apply(api, manifest)
    until(lambda: refusal(api, sized(labels=LABELS + 1)), "the policy is in force")
    return api


def refusal(api: Api, pod: Object) -> str:
    """What kube-apiserver says when it refuses the pod; empty where it takes the pod."""
    try:
        api.call("POST", PODS, pod, dryRun="All")
    except httpx.HTTPStatusError as refused:
        return str(refused)
    return ""


def key(number: int) -> str:
    """The longest name of a label: a prefix of 253 characters and a name of 63."""
    prefix = ".".join(["p" * 61] * 4)
    return f"{prefix}aaaaa/{number:063}"


VALUE = "v" * 63


def sized(  # noqa: PLR0913  one for each number of the policy
    *,
    labels: int = 0,
    annotations: int = 1,
    annotation_bytes: int = 100,
    tolerations: int = 0,
    gates: int = 0,
    selected: int = 0,
    terms: int = 0,
    expressions: int = 0,
    values: int = 0,
) -> Object:
    """Make a pod with so many of each, every one as long as Kubernetes allows.

    The expressions are in the first term that is required, and the values in the first expression.
    The other terms are preferred; such a term may be empty.
    """
    names = [f"a{number:02}" for number in range(annotations)]
    texts = dict.fromkeys(names, "")
    texts[names[0]] = "x" * (annotation_bytes - 3 * annotations)
    first = [VALUE] * (values - expressions + 1)
    wanted = [
        {"key": key(number), "operator": "NotIn", "values": [VALUE] if number else first}
        for number in range(expressions)
    ]
    required = {"nodeSelectorTerms": [{"matchExpressions": wanted}]}
    preferred = [{"weight": 1, "preference": {}} for _ in range(terms - 1)]
    affinity = {
        **({"requiredDuringSchedulingIgnoredDuringExecution": required} if expressions else {}),
        "preferredDuringSchedulingIgnoredDuringExecution": preferred,
    }
    tolerated = [
        {"key": key(number), "operator": "Equal", "value": VALUE, "effect": "PreferNoSchedule"}
        for number in range(tolerations)
    ]
    return {
        "metadata": {
            "name": "sized",
            "labels": {key(number): VALUE for number in range(labels)},
            "annotations": texts,
        },
        "spec": {
            "containers": [{"name": "c", "image": "registry.invalid/none"}],
            "tolerations": tolerated,
            "schedulingGates": [{"name": key(number)} for number in range(gates)],
            "nodeSelector": {key(number): VALUE for number in range(selected)},
            "affinity": {"nodeAffinity": affinity},
        },
    }


# kube-apiserver adds two tolerations of its own to each pod.
MOST = {
    "labels": LABELS,
    "annotations": ANNOTATIONS,
    "annotation_bytes": ANNOTATION_BYTES,
    "tolerations": TOLERATIONS - 2,
    "gates": GATES,
    "selected": SELECTED,
    "terms": TERMS,
    "expressions": EXPRESSIONS,
    "values": VALUES,
}


def test_a_pod_that_has_the_most_of_everything_is_let_in_and_kept_whole(api: Api) -> None:
    made = api.call("POST", PODS, sized(**MOST), dryRun="All")
    resources = {f"example.com/{number:050}": "1" for number in range(2000)}
    made["spec"]["containers"][0]["resources"] = {"requests": resources}
    store = core.PodStore(max_pod_bytes=MAX_POD_BYTES)
    listed = {"metadata": {"resourceVersion": "1"}, "items": [made]}
    store.replace(json.dumps(listed).encode())
    (kept,) = store.pods()
    assert len(kept.labels) == LABELS
    assert len(kept.annotations) == ANNOTATIONS
    assert len(kept.tolerations) == TOLERATIONS
    assert len(kept.scheduling_gates) == GATES
    assert len(kept.node_selector) == SELECTED


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"labels": LABELS + 1}, "a pod may have 48 labels"),
        ({"annotations": ANNOTATIONS + 1, "annotation_bytes": 400}, "64 annotations"),
        ({"annotation_bytes": ANNOTATION_BYTES + 1}, "of 16 KiB together"),
        ({"tolerations": TOLERATIONS - 1}, "20 tolerations"),
        ({"gates": GATES + 1}, "16 scheduling gates"),
        ({"selected": SELECTED + 1}, "16 labels in its node selector"),
        ({"terms": TERMS + 1, "expressions": 1, "values": 1}, "16 terms of node affinity"),
        ({"expressions": EXPRESSIONS + 1, "values": EXPRESSIONS + 1}, "with 16 expressions"),
        ({"terms": 1, "expressions": 1, "values": VALUES + 1}, "64 values together"),
    ],
)
def test_a_pod_that_has_one_more_of_anything_is_refused_with_the_reason(
    more: dict[str, int], says: str, api: Api
) -> None:
    assert says in refusal(api, sized(**more))


def test_a_pod_that_was_there_before_is_changed_and_let_go(api: Api, before: str) -> None:
    path = f"{PODS}/{before}"
    label = {"metadata": {"labels": {"one": "more"}}}
    with pytest.raises(httpx.HTTPStatusError, match="48 labels"):
        api.call("PATCH", path, label, MERGE)
    api.call("PATCH", path, {"metadata": {"finalizers": None}}, MERGE)
    api.delete_pod(NAMESPACE, before)
    assert [pod["metadata"]["name"] for pod in api.pods(NAMESPACE)] == []
