"""Rules that ``kubextend admission`` compiled, on a real kube-apiserver: put on pods, and kept."""

import contextlib
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from .admission_rules import (
    PODS,
    affinity_or_refusal,
    bare_pod,
    configuration,
    installed,
    is_refused,
    made,
    profile,
)
from .affinity_model import (
    PREFERRED,
    REQUIRED,
    Object,
    Rule,
    random_affinity,
    sorted_rules,
    with_rules,
    without_empty,
)
from .controlplane import ControlPlane
from .kubeapi import JSON_PATCH, MERGE, Api
from .manifests import apply, path_of
from .mutating_webhook import Patch, webhook_installed
from .versions import needs
from .workbench import until

pytestmark = needs("MutatingAdmissionPolicy")

SCHEDULER = "admission-rules"
CASES = 500


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
RULES = [
    Rule(
        {"job": "train"},
        [
            expression("spot", "DoesNotExist"),
            IN_ZONE,
            expression("example.com/gpus", "Gt", "7"),
        ],
        [preference(40, ON_A_DISK)],
    ),
    Rule(
        {"team": "red"},
        [expression("disk", "NotIn", "slow"), IN_ZONE],
        # The points of both rules count, so it must not be taken for the other.
        [preference(40, ON_A_DISK, ON_A_DISK)],
    ),
    Rule(
        {"job": "serve"},
        [],
        [preference(20, expression("spot", "DoesNotExist"), expression("zone", "Exists"))],
    ),
]
KNOWN = [need for rule in RULES for need in rule.needs]
TRAIN = {"job": "train"}
LABELS = [
    {},
    {"job": "train"},
    {"job": "serve"},
    {"job": "other"},
    {"team": "red"},
    {"team": "red", "job": "train"},
    {"team": "red", "job": "serve"},
]


@pytest.fixture(scope="module")
def rules(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    file = tmp_path_factory.mktemp("rules") / "kubextend.yaml"
    with installed(control_plane, configuration(file, [profile(SCHEDULER, FILTERS, SCORES)])):
        yield


def cases() -> list[tuple[Object, Object | None]]:
    """The labels and the affinity of each pod, the same in every run."""
    chance = random.Random(17)
    return [(chance.choice(LABELS), random_affinity(chance, KNOWN)) for _ in range(CASES)]


@pytest.mark.usefixtures("rules")
def test_a_pods_own_affinity_is_kept_and_the_rules_are_in_every_term_once(api: Api) -> None:
    pods = [
        bare_pod(SCHEDULER, labels, **({} if affinity is None else {"affinity": affinity}))
        for labels, affinity in cases()
    ]
    shown = api.create_all("/api/v1/namespaces/default/pods?dryRun=All", pods)
    for (labels, affinity), pod in zip(cases(), shown, strict=True):
        expected = sorted_rules(with_rules(affinity, RULES, labels), affinity)
        found = sorted_rules(without_empty(pod["spec"].get("affinity")), affinity)
        assert found == expected, (labels, affinity)


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


OWNED = [
    {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "1", "controller": True}
]
CONTROLLER = "system:serviceaccount:kube-system:daemon-set-controller"


@pytest.mark.usefixtures("rules")
@pytest.mark.parametrize(
    ("namespace", "pod"),
    [
        pytest.param("kube-system", bare_pod(SCHEDULER, TRAIN), id="of kube-system"),
        pytest.param("default", bare_pod("another", TRAIN), id="of another scheduler"),
        pytest.param("default", bare_pod(SCHEDULER, TRAIN, nodeName="n"), id="on a node"),
        pytest.param("default", bare_pod(SCHEDULER, {"job": "other"}), id="of no rule"),
    ],
)
def test_a_pod_is_left_as_it_is(namespace: str, pod: Object, api: Api) -> None:
    assert "affinity" not in made(api, pod, namespace, dryRun="All")["spec"]


@pytest.mark.usefixtures("rules")
def test_a_mirror_pod_is_left_as_it_is(api: Api) -> None:
    pod = bare_pod(SCHEDULER, TRAIN, nodeName="n")
    pod["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "0123"}
    assert "affinity" not in made(api, pod, dryRun="All")["spec"]


@pytest.mark.usefixtures("rules")
def test_a_pod_of_a_daemon_set_is_left_as_it_is_and_nobody_can_pretend_to_be_one(
    control_plane: ControlPlane,
) -> None:
    pod = bare_pod(SCHEDULER, TRAIN)
    pod["metadata"]["ownerReferences"] = OWNED
    grant_pods(control_plane.api, CONTROLLER)
    with control_plane.api_of(CONTROLLER) as controller:
        until(lambda: may_create(controller, pod), "the controller may create pods")
        assert "affinity" not in made(controller, pod, dryRun="All")["spec"]
        # Such as a pod of a ReplicaSet, where all controllers share an account.
        pod["metadata"]["ownerReferences"] = [OWNED[0] | {"kind": "ReplicaSet"}]
        assert "affinity" in made(controller, pod, dryRun="All")["spec"]
    pod["metadata"]["ownerReferences"] = OWNED
    assert "affinity" in made(control_plane.api, pod, dryRun="All")["spec"]


def grant_pods(api: Api, account: str) -> None:
    group, name = "rbac.authorization.k8s.io", "e2e-admission-pods"
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]}
    subject = {"apiGroup": group, "kind": "User", "name": account}
    reference = {"apiGroup": group, "kind": "ClusterRole", "name": name}
    base = {"apiVersion": f"{group}/v1", "metadata": {"name": name}}
    apply(api, {"kind": "ClusterRole", "rules": [rule], **base})
    binding = {"kind": "ClusterRoleBinding", "subjects": [subject], "roleRef": reference}
    apply(api, {**binding, **base})


def may_create(api: Api, pod: Object) -> bool:
    try:
        made(api, pod, dryRun="All")
    except httpx.HTTPStatusError:
        return False
    return True


@pytest.fixture
def gated(api: Api, rules: None) -> Iterator[Callable[..., str]]:
    """Return a function that creates a gated pod and returns its path; the pods are deleted."""
    del rules
    names: list[str] = []

    def create(labels: Object, **spec: object) -> str:
        pod = bare_pod(SCHEDULER, labels, schedulingGates=[{"name": "e2e.kubextend.dev/g"}], **spec)
        names.append(made(api, pod)["metadata"]["name"])
        return f"{PODS}/{names[-1]}"

    yield create
    for name in names:
        api.delete_pod("default", name)


def test_an_owner_cannot_take_a_preference_off_a_gated_pod(
    gated: Callable[..., str], api: Api
) -> None:
    patch = {"spec": {"affinity": {"nodeAffinity": {PREFERRED: None}}}}
    assert is_refused(api, "PATCH", gated(TRAIN), patch, MERGE)


@pytest.mark.parametrize("subresource", ["", "/status"])
def test_an_owner_cannot_give_a_pod_the_label_of_a_rule_that_the_pod_lacks(
    subresource: str, gated: Callable[..., str], api: Api
) -> None:
    path = gated({"job": "other"})
    patch = {"metadata": {"labels": TRAIN}}
    assert is_refused(api, "PATCH", f"{path}{subresource}", patch, MERGE)
    api.call("PATCH", path, {"metadata": {"labels": {"free": "yes"}}}, MERGE)


def test_an_owner_cannot_fill_an_empty_term_without_the_rule(
    gated: Callable[..., str], api: Api
) -> None:
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{}]}}}
    path = gated({"team": "red"}, affinity=affinity)
    own = [{"key": "own", "operator": "Exists"}]
    terms = f"/spec/affinity/nodeAffinity/{REQUIRED}/nodeSelectorTerms/0"
    without = [{"op": "add", "path": f"{terms}/matchExpressions", "value": own}]
    with pytest.raises(httpx.HTTPStatusError) as refusal:
        api.call("PATCH", path, without, JSON_PATCH)
    assert refusal.value.response.is_client_error, refusal.value


def test_an_owner_may_narrow_a_gated_pod_further_and_nobody_may_widen_it(
    gated: Callable[..., str], api: Api
) -> None:
    path = gated(TRAIN)
    expressions = f"/spec/affinity/nodeAffinity/{REQUIRED}/nodeSelectorTerms/0/matchExpressions"
    own = {"key": "own", "operator": "Exists"}
    api.call("PATCH", path, [{"op": "add", "path": f"{expressions}/-", "value": own}], JSON_PATCH)
    with pytest.raises(httpx.HTTPStatusError) as refusal:
        api.call("PATCH", path, [{"op": "remove", "path": f"{expressions}/0"}], JSON_PATCH)
    assert refusal.value.response.is_client_error
    # Without the label the pod keeps the rule, and may have the label again.
    api.call("PATCH", path, {"metadata": {"labels": {"job": None}}}, MERGE)
    api.call("PATCH", path, {"metadata": {"labels": TRAIN}}, MERGE)
    api.call("PATCH", path, {"spec": {"schedulingGates": []}}, MERGE)


def other_policy(name: str, expression: str, reinvocation: str) -> list[Object]:
    """A policy of somebody else that patches the pods with the label ``other``."""
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["pods"],
    }
    spec = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": reinvocation,
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [
            {
                "name": "chosen",
                "expression": f"object.metadata.?labels[?'other'].orValue('') == '{name}'",
            }
        ],
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}],
    }
    base = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": name}}
    return [
        {"kind": "MutatingAdmissionPolicy", "spec": spec, **base},
        {"kind": "MutatingAdmissionPolicyBinding", "spec": {"policyName": name}, **base},
    ]


TERM = "Object.spec.affinity.nodeAffinity." + REQUIRED + ".nodeSelectorTerms"
TERMS = f"/spec/affinity/nodeAffinity/{REQUIRED}/nodeSelectorTerms"
ADD_TERM = (
    f"object.spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms.exists(t,"
    " t.?matchExpressions.orValue([]).exists(e, e.key == 'added')) ? [] :"
    f" [JSONPatch{{op: 'add', path: '{TERMS}/-', value: {TERM}{{matchExpressions:"
    f" [{TERM}.matchExpressions{{key: 'added', operator: 'Exists'}}]}}}}]"
)
ADD_LABEL = "[JSONPatch{op: 'add', path: '/metadata/labels/job', value: 'train'}]"
STRIP = "[JSONPatch{op: 'add', path: '/spec/affinity', value: Object.spec.affinity{}}]"


OWN_TERMS = [{"matchExpressions": [expression("own", "Exists")]}]
OWN = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": OWN_TERMS}}}
ADDED = {"matchExpressions": [expression("added", "Exists")]}
WITH_ADDED = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [*OWN_TERMS, ADDED]}}}


@pytest.mark.usefixtures("rules")
def test_what_another_policy_adds_gets_the_rule_as_well_and_once(api: Api) -> None:
    expected = sorted_rules(with_rules(WITH_ADDED, RULES, TRAIN), WITH_ADDED)
    probe = bare_pod("another", affinity=OWN)
    with others_installed(api, "added", ADD_TERM, "Never", probe) as copies:
        for name in copies:
            pod = bare_pod(SCHEDULER, {**TRAIN, "other": name}, affinity=OWN)
            found = made(api, pod, dryRun="All")["spec"]["affinity"]
            assert sorted_rules(found, WITH_ADDED) == expected


@pytest.mark.usefixtures("rules")
def test_what_another_policy_adds_to_a_pod_that_has_the_rule_is_no_way_around_the_rule(
    api: Api,
) -> None:
    written = with_rules(OWN, RULES, TRAIN)
    expected = sorted_rules(with_rules(WITH_ADDED, RULES, TRAIN), WITH_ADDED)
    probe = bare_pod("another", affinity=OWN)
    with others_installed(api, "more", ADD_TERM, "Never", probe) as copies:
        for name in copies:
            pod = bare_pod(SCHEDULER, {**TRAIN, "other": name}, affinity=written)
            found = affinity_or_refusal(api, pod)
            assert found is None or sorted_rules(found, WITH_ADDED) == expected


@pytest.mark.usefixtures("rules")
def test_a_pod_that_another_policy_labels_for_a_rule_is_refused_without_the_rule(api: Api) -> None:
    with others_installed(api, "train", ADD_LABEL, "Never", bare_pod("another")) as copies:
        for name in copies:
            assert is_refused(api, "POST", PODS, bare_pod(SCHEDULER, {"other": name}))


@pytest.mark.usefixtures("rules")
def test_a_pod_from_which_another_policy_takes_the_rule_gets_it_back_or_is_refused(
    api: Api,
) -> None:
    expected = sorted_rules(with_rules(None, RULES, TRAIN), None)
    probe = bare_pod("another", affinity=OWN)
    with others_installed(api, "strip", STRIP, "IfNeeded", probe) as copies:
        for name in copies:
            found = affinity_or_refusal(api, bare_pod(SCHEDULER, {**TRAIN, "other": name}))
            assert found is None or sorted_rules(found, None) == expected


def add_term(pod: Object) -> list[Object]:
    terms = pod["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    if any(each["key"] == "added" for term in terms for each in term["matchExpressions"]):
        return []
    return [{"op": "add", "path": f"{TERMS}/-", "value": ADDED}]


def add_label(_: Object) -> list[Object]:
    return [{"op": "add", "path": "/metadata/labels/job", "value": "train"}]


def strip(pod: Object) -> list[Object]:
    return [{"op": "remove", "path": "/spec/affinity"}] if "affinity" in pod["spec"] else []


@pytest.fixture(params=["Never", "IfNeeded"])
def webhook(
    request: pytest.FixtureRequest, api: Api, rules: None, tmp_path: Path
) -> Callable[[str, Patch, Object], contextlib.AbstractContextManager[None]]:
    """Install a webhook of somebody else, and go on once it changes the probe.

    kube-apiserver asks webhooks after it applied policies, and applies the policies once more to
    what a webhook changed.
    """

    @contextlib.contextmanager
    def install(name: str, patch: Patch, probe: Object) -> Iterator[None]:
        without = _shown(api, probe, "no-copy")
        with webhook_installed(api, name, patch, tmp_path, request.param):
            until(lambda: _shown(api, probe, name) != without, f"{name} is asked")
            yield

    return install


Install = Callable[[str, Patch, Object], contextlib.AbstractContextManager[None]]


def test_what_a_webhook_adds_gets_the_rule_as_well_and_once(webhook: Install, api: Api) -> None:
    expected = sorted_rules(with_rules(WITH_ADDED, RULES, TRAIN), WITH_ADDED)
    with webhook("adds", add_term, bare_pod("another", affinity=OWN)):
        pod = bare_pod(SCHEDULER, {**TRAIN, "other": "adds"}, affinity=OWN)
        found = made(api, pod, dryRun="All")["spec"]["affinity"]
        assert sorted_rules(found, WITH_ADDED) == expected


# kube-apiserver applies a policy once more only if the policy concerned the pod before the webhook
# was asked.
def test_what_a_webhook_adds_to_a_pod_that_has_the_rule_is_no_way_around_the_rule(
    webhook: Install, api: Api
) -> None:
    written = with_rules(OWN, RULES, TRAIN)
    with webhook("adds", add_term, bare_pod("another", affinity=OWN)):
        pod = bare_pod(SCHEDULER, {**TRAIN, "other": "adds"}, affinity=written)
        assert is_refused(api, "POST", PODS, pod)


def test_a_pod_that_a_webhook_labels_for_a_rule_is_refused_without_the_rule(
    webhook: Install, api: Api
) -> None:
    with webhook("labels", add_label, bare_pod("another")):
        assert is_refused(api, "POST", PODS, bare_pod(SCHEDULER, {"other": "labels"}))


def test_a_pod_from_which_a_webhook_takes_the_rule_gets_it_back_or_is_refused(
    webhook: Install, api: Api
) -> None:
    expected = sorted_rules(with_rules(None, RULES, TRAIN), None)
    with webhook("strips", strip, bare_pod("another", affinity=OWN)):
        found = affinity_or_refusal(api, bare_pod(SCHEDULER, {**TRAIN, "other": "strips"}))
        assert found is None or sorted_rules(found, None) == expected


# With each change of a policy, kube-apiserver draws anew in which order it applies policies: of so
# many, some come before ours and some after.
COPIES = 12


@contextlib.contextmanager
def others_installed(
    api: Api, name: str, patches: str, reinvocation: str, probe: Object
) -> Iterator[list[str]]:
    """Apply copies of somebody else's policy, and go on once each of them changes the probe.

    Yields: the names of the copies; a pod chooses one with the label ``other``.
    """
    copies = [f"{name}-{number}" for number in range(COPIES)]
    manifests = [each for copy in copies for each in other_policy(copy, patches, reinvocation)]
    without = _shown(api, probe, "no-copy")
    for manifest in manifests:
        apply(api, manifest)
    try:
        for copy in copies:
            until(lambda copy=copy: _shown(api, probe, copy) != without, f"{copy} is in force")
        yield copies
    finally:
        for manifest in manifests:
            api.call("DELETE", path_of(api, manifest))


def _shown(api: Api, probe: Object, copy: str) -> tuple[Object, Object | None]:
    """Return the labels, without the choice, and the affinity that a pod would be created with."""
    labels = {**probe["metadata"]["labels"], "other": copy}
    pod = made(api, {**probe, "metadata": {**probe["metadata"], "labels": labels}}, dryRun="All")
    return pod["metadata"]["labels"] | {"other": ""}, pod["spec"].get("affinity")
