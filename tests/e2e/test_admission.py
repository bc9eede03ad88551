"""Rules that ``kubextend admission`` compiled, on a real kube-apiserver: put on pods, and kept."""

import contextlib
import copy
import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import httpx
import pytest

from .admission_rules import (
    PODS,
    affinity_or_refusal,
    bare_pod,
    installed,
    is_refused,
    made,
    profile,
)
from .affinity_model import (
    Change,
    Pod,
    Rule,
    outcomes,
    random_affinity,
    sorted_rules,
    with_rules,
    without_empty,
)
from .controlplane import ControlPlane
from .kubeapi import JSON_PATCH, MERGE, PREFERRED, REQUIRED, Api, Object, gated
from .manifests import apply, grant, path_of
from .mutating_webhook import NEW_PODS, Patch, webhook_installed
from .stack import configuration
from .versions import needs
from .workbench import until

pytestmark = needs("MutatingAdmissionPolicy")

SCHEDULER = "admission-rules"
# Of the random pods, those that are compared beside mutators of somebody else.
CASES, BESIDE_OTHERS = 500, 60


def expression(key: str, operator: str, *values: str) -> Object:
    return {"key": key, "operator": operator} | ({"values": [*values]} if values else {})


def preference(weight: int, *expressions: Object) -> Object:
    return {"weight": weight, "preference": {"matchExpressions": [*expressions]}}


# Each rule twice: as the configuration says it, and as the model knows it.
FILTERS = [
    {"podSelector": "job=train", "nodeSelector": "zone in (b, a), !spot"},
    {"podSelector": "job=train", "nodeSelector": "example.com/gpus>7"},
    {"podSelector": "team", "nodeSelector": "disk!=slow"},
    {"podSelector": "team", "nodeSelector": "zone in (b, a)"},
]
SCORES = [
    {"podSelector": "job=train", "nodeSelector": "disk=a", "score": 40},
    {"podSelector": "job=serve", "nodeSelector": "!spot, zone", "score": 20},
    {"podSelector": "team", "nodeSelector": "disk=a", "score": 40},
]
IN_ZONE = expression("zone", "In", "a", "b")
ON_A_DISK = expression("disk", "In", "a")
NOT_SPOT = expression("spot", "DoesNotExist")
ON_EIGHT = expression("example.com/gpus", "Gt", "7")
TRAIN, SERVE, OTHER, RED = {"job": "train"}, {"job": "serve"}, {"job": "other"}, {"team": "red"}
RULES = [
    Rule(TRAIN, [NOT_SPOT, IN_ZONE, ON_EIGHT], [preference(40, ON_A_DISK)]),
    # The points of both rules count, so it must not be taken for the other.
    Rule(
        RED, [expression("disk", "NotIn", "slow"), IN_ZONE], [preference(40, ON_A_DISK, ON_A_DISK)]
    ),
    Rule(SERVE, [], [preference(20, NOT_SPOT, expression("zone", "Exists"))]),
]
KNOWN = [need for rule in RULES for need in rule.needs]
LABELS: list[Object] = [{}, TRAIN, SERVE, OTHER, RED, RED | TRAIN, RED | SERVE]


@pytest.fixture(scope="module")
def rules(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    file = tmp_path_factory.mktemp("rules") / "kubextend.yaml"
    with installed(control_plane, configuration(file, profile(SCHEDULER, FILTERS, SCORES))):
        yield


def cases() -> list[Pod]:
    """Return random pods, the same in every run; the author of some wrote the rules already."""
    chance = random.Random(17)
    return [_case(chance) for _ in range(CASES)]


def _case(chance: random.Random) -> Pod:
    labels, affinity = chance.choice(LABELS), random_affinity(chance, KNOWN)
    written = chance.choice(([], [], RULES, [chance.choice(RULES)]))
    return Pod(labels, with_rules(affinity, written, labels) if written else affinity)


def as_object(case: Pod, **labels: str) -> Object:
    spec = {} if case.affinity is None else {"affinity": case.affinity}
    return bare_pod(SCHEDULER, {**case.labels, **labels}, **spec)


@pytest.mark.usefixtures("rules")
def test_a_pods_own_affinity_is_kept_and_the_rules_are_in_every_term_once(api: Api) -> None:
    pods = [as_object(case) for case in cases()]
    shown = api.create_all("/api/v1/namespaces/default/pods?dryRun=All", pods)
    for case, pod in zip(cases(), shown, strict=True):
        expected = sorted_rules(with_rules(case.affinity, RULES, case.labels), case.affinity)
        found = sorted_rules(without_empty(pod["spec"].get("affinity")), case.affinity)
        assert found == expected, case


@pytest.mark.usefixtures("rules")
@pytest.mark.parametrize("required", [{}, {"nodeSelectorTerms": []}], ids=["none", "empty"])
def test_a_pod_that_kube_apiserver_refuses_for_its_affinity_is_refused_as_before(
    required: Object, api: Api
) -> None:
    pod = bare_pod(SCHEDULER, TRAIN, affinity={"nodeAffinity": {REQUIRED: required}})
    with pytest.raises(httpx.HTTPStatusError) as refusal:
        made(api, pod, dryRun="All")
    assert refusal.value.response.status_code == httpx.codes.UNPROCESSABLE_ENTITY
    assert "nodeSelectorTerms: Required value" in str(refusal.value)


OWNED = [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "1"}]
OWNED[0] |= {"controller": True}
CONTROLLER = "system:serviceaccount:kube-system:daemon-set-controller"
MIRROR = bare_pod(SCHEDULER, TRAIN, nodeName="n")
MIRROR["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "0123"}


@pytest.mark.usefixtures("rules")
@pytest.mark.parametrize(
    ("namespace", "pod"),
    [
        ("kube-system", bare_pod(SCHEDULER, TRAIN)),
        ("default", bare_pod("another", TRAIN)),
        ("default", bare_pod(SCHEDULER, TRAIN, nodeName="n")),
        ("default", bare_pod(SCHEDULER, OTHER)),
        ("default", MIRROR),
    ],
    ids=["of kube-system", "of another scheduler", "on a node", "of no rule", "static"],
)
def test_a_pod_is_left_as_it_is(namespace: str, pod: Object, api: Api) -> None:
    assert "affinity" not in made(api, pod, namespace, dryRun="All")["spec"]


@pytest.mark.usefixtures("rules")
def test_a_pod_of_a_daemon_set_is_left_as_it_is_and_nobody_can_pretend_to_be_one(
    control_plane: ControlPlane,
) -> None:
    pod = bare_pod(SCHEDULER, TRAIN)
    pod["metadata"]["ownerReferences"] = OWNED
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]}
    grant(control_plane.api, "e2e-admission-pods", CONTROLLER, [rule])
    with control_plane.api_of(CONTROLLER) as controller:
        until(lambda: not controller.refusal("POST", PODS, pod), "the controller may create pods")
        assert "affinity" not in made(controller, pod, dryRun="All")["spec"]
        # Such as a pod of a ReplicaSet, where all controllers share an account.
        pod["metadata"]["ownerReferences"] = [OWNED[0] | {"kind": "ReplicaSet"}]
        assert "affinity" in made(controller, pod, dryRun="All")["spec"]
    pod["metadata"]["ownerReferences"] = OWNED
    assert "affinity" in made(control_plane.api, pod, dryRun="All")["spec"]


NewGated = Callable[..., str]


@pytest.fixture
def new_gated(api: Api, rules: None) -> Iterator[NewGated]:
    """Return a function that creates a gated pod and returns its path; the pods are deleted."""
    del rules
    names: list[str] = []

    def create(labels: Object, **spec: object) -> str:
        pod = gated(bare_pod(SCHEDULER, labels, **spec), "e2e.kubextend.dev/g")
        names.append(made(api, pod)["metadata"]["name"])
        return f"{PODS}/{names[-1]}"

    yield create
    for name in names:
        api.delete_pod("default", name)


TERMS = f"/spec/affinity/nodeAffinity/{REQUIRED}/nodeSelectorTerms"
OWN = {"key": "own", "operator": "Exists"}


def test_an_owner_cannot_take_a_rule_off_a_gated_pod_nor_a_label_without_its_rule(
    new_gated: NewGated, api: Api
) -> None:
    patch = {"spec": {"affinity": {"nodeAffinity": {PREFERRED: None}}}}
    assert is_refused(api, "PATCH", new_gated(TRAIN), patch, MERGE)
    path = new_gated(OTHER)
    for subresource in ("", "/status"):
        patch = {"metadata": {"labels": TRAIN}}
        assert is_refused(api, "PATCH", f"{path}{subresource}", patch, MERGE)
    api.call("PATCH", path, {"metadata": {"labels": {"free": "yes"}}}, MERGE)
    # Nor can the owner fill an empty term without the rule.
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{}]}}}
    path = new_gated(RED, affinity=affinity)
    without = [{"op": "add", "path": f"{TERMS}/0/matchExpressions", "value": [OWN]}]
    assert api.refusal("PATCH", path, without, JSON_PATCH)


def test_an_owner_may_narrow_a_gated_pod_further_and_nobody_may_widen_it(
    new_gated: NewGated, api: Api
) -> None:
    path, first = new_gated(TRAIN), f"{TERMS}/0/matchExpressions"
    api.call("PATCH", path, [{"op": "add", "path": f"{first}/-", "value": OWN}], JSON_PATCH)
    assert api.refusal("PATCH", path, [{"op": "remove", "path": f"{first}/0"}], JSON_PATCH)
    # Without the label the pod keeps the rule, and may have the label again.
    api.call("PATCH", path, {"metadata": {"labels": {"job": None}}}, MERGE)
    api.call("PATCH", path, {"metadata": {"labels": TRAIN}}, MERGE)
    api.call("PATCH", path, {"spec": {"schedulingGates": []}}, MERGE)


def other_policy(name: str, expression: str, reinvocation: str) -> list[Object]:
    """A policy of somebody else that patches the pods with the label ``other``."""
    chosen = f"object.metadata.?labels[?'other'].orValue('') == '{name}'"
    spec = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": reinvocation,
        "matchConstraints": {"resourceRules": [NEW_PODS]},
        "matchConditions": [{"name": "chosen", "expression": chosen}],
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}],
    }
    base = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": name}}
    return [
        {"kind": "MutatingAdmissionPolicy", "spec": spec, **base},
        {"kind": "MutatingAdmissionPolicyBinding", "spec": {"policyName": name}, **base},
    ]


TERM = "Object.spec.affinity.nodeAffinity." + REQUIRED + ".nodeSelectorTerms"
TERMS_OF_POD = f"object.spec.?affinity.?nodeAffinity.?{REQUIRED}.?nodeSelectorTerms.orValue([])"
ADDED = {"matchExpressions": [expression("added", "Exists")]}


def add_term(pod: Pod) -> Pod:
    """Widen the required terms of a pod that has any by one more, once."""
    affinity = copy.deepcopy(pod.affinity) or {}
    terms = affinity.get("nodeAffinity", {}).get(REQUIRED, {}).get("nodeSelectorTerms", [])
    keys = {each["key"] for term in terms for each in term.get("matchExpressions", ())}
    if not terms or "added" in keys:
        return pod
    terms.append(copy.deepcopy(ADDED))
    return Pod(pod.labels, affinity)


def add_label(pod: Pod) -> Pod:
    return Pod({**pod.labels, "job": "train"}, pod.affinity)


def strip(pod: Pod) -> Pod:
    return Pod(pod.labels, {})


# What policies or webhooks of somebody else do, as the model knows it and in CEL.
OTHERS: dict[Change, str] = {
    add_term: f"{TERMS_OF_POD}.size() == 0 || {TERMS_OF_POD}.exists(t,"
    " t.?matchExpressions.orValue([]).exists(e, e.key == 'added')) ? [] :"
    f" [JSONPatch{{op: 'add', path: '{TERMS}/-', value: {TERM}{{matchExpressions:"
    f" [{TERM}.matchExpressions{{key: 'added', operator: 'Exists'}}]}}}}]",
    add_label: "[JSONPatch{op: 'add', path: '/metadata/labels/job', value: 'train'}]",
    strip: "[JSONPatch{op: 'add', path: '/spec/affinity', value: Object.spec.affinity{}}]",
}
others = pytest.mark.parametrize("change", OTHERS, ids=lambda change: change.__name__)
reinvoked = pytest.mark.parametrize("reinvocation", ["Never", "IfNeeded"])


@pytest.mark.usefixtures("rules")
@others
@reinvoked
def test_beside_a_policy_that_changes_pods_each_has_the_rules_in_every_term_once_or_is_refused(
    change: Change, reinvocation: str, api: Api
) -> None:
    name = f"{change.__name__.replace('_', '-')}-{reinvocation.lower()}"
    with others_installed(api, name, OTHERS[change], reinvocation) as copies:
        chosen = zip(cases()[:BESIDE_OTHERS], itertools.cycle(copies))
        found = [(case, affinity_or_refusal(api, as_object(case, other=o))) for case, o in chosen]
    compare(found, change, again=reinvocation == "IfNeeded", comes_last=False)


# kube-apiserver asks webhooks after it applied policies, and applies the policies that concerned
# the pod once more to what a webhook changed.
@pytest.mark.usefixtures("rules")
@others
@reinvoked
def test_behind_a_webhook_that_changes_pods_each_has_the_rules_in_every_term_once_or_is_refused(
    change: Change, reinvocation: str, api: Api, tmp_path: Path
) -> None:
    probe = bare_pod("another", affinity=PROBED)
    with webhook_installed(api, "webhook", _patch_of(change), tmp_path, reinvocation):
        until(lambda: _shown(api, probe, "webhook") != _shown(api, probe, "no"), "it is asked")
        pods = [(case, as_object(case, other="webhook")) for case in cases()[:BESIDE_OTHERS]]
        found = [(case, affinity_or_refusal(api, pod)) for case, pod in pods]
    compare(found, change, again=reinvocation == "IfNeeded", comes_last=True)


def compare(
    found: Sequence[tuple[Pod, Object | None]], change: Change, *, again: bool, comes_last: bool
) -> None:
    """Compare the affinities that pods were given, or None for refused, with what may be."""
    for case, affinity in found:
        own = change(case).affinity
        shown = None if affinity is None else sorted_rules(without_empty(affinity) or {}, own)
        may = outcomes(case, RULES, change, again=again, comes_last=comes_last)
        assert any(shown == (each and sorted_rules(each, own)) for each in may), (case, affinity)
    refused = sum(affinity is None for _, affinity in found)
    assert refused < len(found)
    # kube-apiserver applies policies in any order: all copies may come before all of our policies,
    # and then it refuses no pod.
    assert refused or not comes_last


def _patch_of(change: Change) -> Patch:
    """Return what a webhook answers that makes this change."""

    def patch(pod: Object) -> list[Object]:
        labels, affinity = pod["metadata"]["labels"], pod["spec"].get("affinity")
        after = change(Pod(labels, affinity))
        return [
            {"op": "add", "path": "/metadata/labels", "value": after.labels},
            {"op": "add", "path": "/spec/affinity", "value": after.affinity},
        ]

    return patch


PROBED = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [OWN]}]}}}
# With each change of a policy, kube-apiserver draws anew in which order it applies policies: of so
# many, some come before ours and some after.
COPIES = 12


@contextlib.contextmanager
def others_installed(api: Api, name: str, patches: str, reinvocation: str) -> Iterator[list[str]]:
    """Apply copies of somebody else's policy, and go on once each of them changes a probe.

    Yields: the names of the copies; a pod chooses one with the label ``other``.
    """
    copies = [f"{name}-{number}" for number in range(COPIES)]
    manifests = [each for one in copies for each in other_policy(one, patches, reinvocation)]
    probe = bare_pod("another", affinity=PROBED)
    without = _shown(api, probe, "no-copy")
    for manifest in manifests:
        apply(api, manifest)
    try:
        for each in copies:
            until(lambda each=each: _shown(api, probe, each) != without, f"{each} is in force")
        yield copies
    finally:
        for manifest in manifests:
            api.call("DELETE", path_of(api, manifest))


def _shown(api: Api, probe: Object, choice: str) -> tuple[Object, Object | None]:
    """Return the labels, without the choice, and the affinity that a pod would be created with."""
    labels = {**probe["metadata"]["labels"], "other": choice}
    pod = made(api, {**probe, "metadata": {**probe["metadata"], "labels": labels}}, dryRun="All")
    return pod["metadata"]["labels"] | {"other": ""}, pod["spec"].get("affinity")
