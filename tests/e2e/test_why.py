"""`kubextend why` names the true cause why a pod has no node, or has one."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from .controlplane import ControlPlane
from .door import Door
from .kubeapi import MERGE, POOL_LABEL, Api, NodePool, Object, gated, node, pod
from .manifests import ELASTIC_QUOTAS, apply, define, elastic_quota
from .queue_policies import GATE, gates, install_queue
from .queue_stack import NAMESPACE as LEASE_NAMESPACE
from .queue_stack import forget_lease
from .stack import NewStack, Stack, grant_needed, profile, run_kubextend
from .why_cases import AT_ANY_TIME, CASES, THEIRS
from .workbench import until

TOKEN = "reads-and-decides-nothing"
NAMESPACE = "why"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
# The pods with a namespace of their own, since the quota is that of the namespace.
QUOTA_NAMESPACE = "why-quota"
PATIENCE_S = 60.0
RULES = {
    "filters": [{"podSelector": "disk", "nodeSelector": "disk=ssd", "reason": "no ssd"}],
    "scores": [{"podSelector": "likes", "nodeSelector": "liked=yes", "score": 80}],
}
LONG = {"permitMaxWait": "300s"}


@dataclass(frozen=True)
class World:
    """A stack of these tests, and how to ask why."""

    stack: Stack
    plane: ControlPlane
    token: Path

    def why(self, name: str, *options: str, namespace: str = NAMESPACE) -> str:
        where = ("-n", namespace, "--server", self.stack.url, "--token-file", self.token)
        kubeconfig = self.plane.kubeconfig("admin")
        return run_kubextend("why", name, *where, "--kubeconfig", kubeconfig, *options)

    def until(self, name: str, cause: str, words: str = "", namespace: str = NAMESPACE) -> Object:
        """Wait until the cause of a pod is this one; return what the command wrote."""
        last: list[Object] = []

        def found() -> bool:
            last[:] = [json.loads(self.why(name, "--output", "json", namespace=namespace))]
            return last[0]["cause"] == cause and words in last[0]["sentence"]

        try:
            until(found, f"{name} is explained by {cause}", PATIENCE_S)
        except TimeoutError as error:
            error.add_note(f"the last explanation is {last}")
            raise
        return last[0]

    def judge(self, name: str, namespace: str = NAMESPACE) -> Object:
        """Wait until `kubextend why` names the cause of a case, and look at all that it says."""
        case = CASES[name]
        found = self.until(name, case.cause, case.words, namespace)
        assert found["plugin"] == case.plugin
        assert case.unblock in "\n".join(found["unblock"])
        return found

    def create(self, name: str, namespace: str = NAMESPACE, pool: str = "why") -> None:
        self.plane.api.create_pods(namespace, [CASES[name].pod(name, pool)])


@pytest.fixture(scope="module")
def token(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Make the namespace of the pods, and the file of the token of who asks."""
    control_plane.api.create_namespace(NAMESPACE)
    token = tmp_path_factory.mktemp("why") / "token"
    token.write_text(f"{TOKEN}\n")
    yield token
    control_plane.api.delete_pods(NAMESPACE)


@pytest.fixture(scope="module")
def world(control_plane: ControlPlane, token: Path, new_stack: NewStack) -> Iterator[World]:
    api = control_plane.api
    define(api, ELASTIC_QUOTAS)
    quotas = profile("why-quota", "CapacityScheduling")
    grant_needed(control_plane, quotas)
    stack = new_stack(
        "why",
        profile=profile("why", "HighCommPodFilter", LabelMatch=RULES),
        more_profiles=[
            profile("why-aware", "RdmaAware"),
            profile("why-gang", Coscheduling={"permitWaitingTimeSeconds": 250}),
            profile("why-demand", "OnDemand"),
            profile("why-hangs", Hangs={"seconds": 30.0}),
            quotas,
        ],
        out_of_tree=["on_demand:OnDemand", "trouble:Hangs"],
        extender={**LONG, "httpTimeout": "5s"},
        readers=token,
    )
    pools = [NodePool(api, "why", 3, cpu="2"), NodePool(api, "why-big", 1, cpu="4")]
    api.label_node("why-0001", {"liked": "yes"})
    api.label_node("why-big-0000", {POOL_LABEL: "why"})
    tainted, cordoned, one = (
        node("why-tainted", {POOL_LABEL: "why", "tainted": "yes"}),
        node("why-cordoned", {POOL_LABEL: "why", "cordoned": "yes"}),
        node("why-gang-one", {POOL_LABEL: "why-gang"}, cpu="1"),
    )
    tainted["spec"] = {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}
    cordoned["spec"] = {"unschedulable": True}
    api.create_nodes([tainted, cordoned, one])
    pool_of = {"gang-waits": "why-gang"}
    made = [case.pod(name, pool_of.get(name, "why")) for name, case in AT_ANY_TIME.items()]
    api.create_pods(NAMESPACE, made)
    yield World(stack, control_plane, token)
    for name in ("why-big-0000", "why-gang-one"):
        api.delete_node(name)
    pools[0].delete()


@pytest.mark.parametrize("name", AT_ANY_TIME)
def test_why_names_the_true_cause(name: str, world: World) -> None:
    if name == "gang-waits":
        sibling = pod("gang-sibling", "why-gang", "nowhere", CASES[name].labels)
        world.plane.api.create_pods(NAMESPACE, [sibling])
    found = world.judge(name)
    assert TOKEN not in json.dumps(found)


def test_a_pod_that_is_not_there_is_named_and_a_deleted_one_is_said_to_be_deleted(
    world: World,
) -> None:
    world.judge("absent")
    api = world.plane.api
    doomed = CASES["deleted"].pod("deleted")
    doomed["metadata"]["finalizers"] = ["example.com/keep"]
    api.create_pods(NAMESPACE, [doomed])
    api.delete_pod(NAMESPACE, "deleted")
    world.judge("deleted")
    path = f"{PODS}/deleted"
    api.call("PATCH", path, {"metadata": {"finalizers": None}}, MERGE)


# In one test, since only the pod whose attempt is a probe finds that the plugin hangs.
def test_a_plugin_that_hangs_is_the_cause_and_then_its_open_breaker(world: World) -> None:
    for name in ("hangs", "breaker-open"):
        world.create(name)
        world.judge(name)


def test_a_kube_scheduler_that_stands_still_is_the_cause(world: World) -> None:
    with world.stack.paused_scheduler():
        world.create("stands-still")
        world.judge("stands-still")


def test_a_quota_is_the_cause(world: World) -> None:
    api = world.plane.api
    api.create_namespace(QUOTA_NAMESPACE)
    with elastic_quota(api, QUOTA_NAMESPACE, {"min": {"cpu": "100m"}, "max": {"cpu": "150m"}}):
        world.create("quota", QUOTA_NAMESPACE)
        world.judge("quota", QUOTA_NAMESPACE)
    api.delete_pods(QUOTA_NAMESPACE)


def test_a_binding_that_the_api_refuses_is_the_cause(world: World) -> None:
    api, name = world.plane.api, "binding-refused"
    with ExitStack() as policies:
        refuse_binding(api, name, policies)
        world.create(name)
        # An earlier attempt ended otherwise, and the pod's condition said so.
        world.until(name, THEIRS)
        api.label_node("why-0000", {"late": "yes"})
        world.judge(name)
        api.delete_pod(NAMESPACE, name)
        api.label_node("why-0000", {"late": None})


def refuse_binding(api: Api, name: str, policies: ExitStack) -> None:
    """Make kube-apiserver refuse the Binding of a pod until ``policies`` is left."""
    group = "admissionregistration.k8s.io/v1"
    about = {"apiVersion": group, "metadata": {"name": "why"}}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"]}
    refused = {"expression": f"object.metadata.name != '{name}'", "message": CASES[name].words}
    policy: Object = {
        "matchConstraints": {"resourceRules": [{**rule, "resources": ["pods/binding"]}]},
        "validations": [refused],
    }
    use: Object = {"policyName": "why", "validationActions": ["Deny"]}
    kinds = {"ValidatingAdmissionPolicy": policy, "ValidatingAdmissionPolicyBinding": use}
    for kind, spec in kinds.items():
        apply(api, {**about, "kind": kind, "spec": spec})
        plural = kind.lower().removesuffix("y") + ("ies" if kind.endswith("y") else "s")
        policies.callback(api.call, "DELETE", f"/apis/{group}/{plural}/why")
    binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "none"}}
    said = CASES[name].words
    until(lambda: said in api.refusal("POST", f"{PODS}/{name}/binding", binding), "it is in force")


def test_the_score_of_any_node_is_shown(world: World) -> None:
    world.until("bound-by-score", "Bound")
    shown = world.why("bound-by-score", "--node", "why-0000")
    assert "node why-0000: passed, total 0" in shown
    assert "LabelMatch: 0 (raw 0, normalized 0)" in shown


def test_a_kubextend_that_is_down_or_sees_no_nodes_is_the_cause(
    control_plane: ControlPlane, token: Path
) -> None:
    api = control_plane.api
    pool = NodePool(api, "why-down", 1)
    with (
        Door(control_plane.bench.free_port(), control_plane.port) as door,
        Stack(control_plane, "why-down", api_url=door.url, readers=token) as stack,
    ):
        world = World(stack, control_plane, token)
        stack.kill_kubextend()
        world.create("unreached", pool=pool.name)
        assert "cannot be asked" in world.judge("unreached")["facts"]["unreached"]
        door.shut()
        stack.start_kubextend()
        world.create("not-ready", pool=pool.name)
        world.judge("not-ready")
        door.open()
        world.until("unreached", "Bound")
        world.until("not-ready", "Bound")
    pool.delete()


@pytest.fixture(scope="module")
def late_world(control_plane: ControlPlane, token: Path, new_stack: NewStack) -> Iterator[World]:
    """Run a kubextend with a guard and a queue, for one node."""
    install_queue(control_plane)
    sorting = {"queueSort": {"enabled": [{"name": "PrioritySort"}]}}
    late = profile("why-late", Room={"limit_milli": 1100, "timeout_s": 280.0})
    late["plugins"] |= sorting
    lease = {"namespace": LEASE_NAMESPACE}
    stack = new_stack(
        "why-late",
        profile=late,
        more_profiles=[{"schedulerName": "why-queue", "plugins": sorting}],
        out_of_tree=["room:Room"],
        extender=LONG,
        guard=True,
        queue={"strategy": "StrictFIFO", "maxHold": "1h", "lease": lease},
        readers=token,
    )
    pool = NodePool(control_plane.api, "why-late", 1, cpu="1")
    yield World(stack, control_plane, token)
    pool.delete()
    stack.kill_kubextend()
    forget_lease(control_plane.api)


def test_the_guard_is_the_cause_until_kube_scheduler_sees_the_full_node(late_world: World) -> None:
    api, stack = late_world.plane.api, late_world.stack
    late_world.create("guard", pool="why-late")
    late_world.until("guard", "PermitWaits")
    foreign = pod("foreign", "none", "why-late", cpu="600m", nodeName="why-late-0000")
    api.create_pods(NAMESPACE, [foreign])
    until(lambda: not stack.kept(["why-late-0000"]), "kubextend has seen that the node is full")
    with stack.paused_scheduler():
        stack.kept(["why-late-0000"], {"starts": "yes"})
        late_world.judge("guard")
    late_world.until("guard", THEIRS, "Insufficient cpu")
    for name in ("guard", "foreign"):
        api.delete_pod(NAMESPACE, name)


def test_a_head_of_the_queue_that_fits_nowhere_is_the_cause_for_those_behind(
    late_world: World,
) -> None:
    api = late_world.plane.api
    for name in ("queue-head", "queue-behind"):
        api.create_pods(NAMESPACE, [gated(CASES[name].pod(name, "why-late"), GATE)])
        late_world.judge(name)
    assert gates(api.pod(NAMESPACE, "queue-behind")) == [GATE]
    api.delete_pod(NAMESPACE, "queue-head")
    late_world.until("queue-behind", "Bound")
