"""A plugin's informers, Events and annotations on a real control plane."""

from collections.abc import Iterator

import pytest

from .controlplane import ControlPlane
from .kubeapi import Api, NodePool, Object
from .manifests import any_kind, define, serves
from .stack import Mode, NewStack, Stack, grant_needed, profile
from .workbench import until
from .workload import NewWorkload

GROUP = "e2e.kubextend.dev"
RESOURCE = f"{GROUP}/v1alpha1/podgroups"
CLAIMS = "persistentvolumeclaims"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


DEFINITION = any_kind(GROUP, "v1alpha1", "PodGroup", "Namespaced")


def undefine(api: Api) -> None:
    api.call("DELETE", f"{CRDS}/podgroups.{GROUP}")
    until(lambda: not serves(api, f"/apis/{RESOURCE}"), "the PodGroups are served no more")


def put_group(api: Api, namespace: str, name: str) -> None:
    body = {"apiVersion": f"{GROUP}/v1alpha1", "kind": "PodGroup", "metadata": {"name": name}}
    path = f"/apis/{GROUP}/v1alpha1/namespaces/{namespace}/podgroups"
    api.call("POST", path, {**body, "spec": {"queue": "ml"}})


@pytest.fixture(scope="module")
def api(breakable_plane: ControlPlane) -> Api:
    """Make ``new_workload`` create pods in the control plane that this module breaks."""
    return breakable_plane.api


@pytest.fixture(scope="module")
def stack(breakable_plane: ControlPlane, new_stack: NewStack) -> Stack:
    api = breakable_plane.api
    define(api, DEFINITION)
    wanted = profile("informed", "Informed")
    grant_needed(breakable_plane, wanted, ["informed:Informed"])
    how = {"profile": wanted, "out_of_tree": ["informed:Informed"]}
    return new_stack("informed", Mode(binds=True), plane=breakable_plane, **how)


@pytest.fixture(scope="module")
def pool(breakable_plane: ControlPlane, stack: Stack) -> Iterator[NodePool]:
    pool = NodePool(breakable_plane.api, "informed", 2)
    until(lambda: stack.kept(pool.names) == pool.names, "the nodes are known")
    yield pool
    pool.delete()


def events_of(api: Api, namespace: str, reason: str) -> list[Object]:
    found = api.items(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")
    return [each for each in found if each.get("reason") == reason]


def test_a_definition_that_appears_after_the_start_begins_to_work(
    stack: Stack, pool: NodePool, breakable_plane: ControlPlane, new_workload: NewWorkload
) -> None:
    def known(resource: str) -> float:
        return stack.counts().total("kubextend_informer_objects", resource=resource)

    api = breakable_plane.api
    assert stack.stop_kubextend() == 0
    undefine(api)
    stack.start_kubextend()
    workload = new_workload(stack, pool)
    (pod,) = workload.create("early", 1, {"group": "a"})
    why = f"kubextend is not ready: the API serves no {RESOURCE}"
    until(lambda: why in workload.why_pending(pod), "the Error names the resource")
    ready = stack.client.get("/readyz", params={"verbose": "1"})
    assert ready.status_code == 503
    assert f"[-]informer-sync failed: the API serves no {RESOURCE}" in ready.text
    assert "is its definition installed?" in ready.text
    counts = stack.counts()
    assert counts.total("kubextend_reflector_synced", resource=RESOURCE) == 0
    assert counts.total("kubextend_reflector_failures_total", resource=RESOURCE) > 0
    assert counts.total("kubextend_reflector_synced", resource=CLAIMS) == 1
    define(api, DEFINITION)
    until(stack.is_ready, "kubextend reads the PodGroups")
    until(lambda: "the PodGroup is missing" in workload.why_pending(pod), "the plugin judges")
    until(lambda: events_of(api, workload.namespace, "NoPodGroup"), "the plugin's Event is written")
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claim = {"metadata": {"name": "data"}, "spec": spec}
    api.call("POST", f"/api/v1/namespaces/{workload.namespace}/{CLAIMS}", claim)
    # The pod may run once its own group is there, which comes last.
    put_group(api, workload.namespace, "b")
    until(lambda: known(CLAIMS) == known(RESOURCE) == 1, "the claim and the group are known")
    put_group(api, workload.namespace, "a")
    workload.until_placed([pod])
    annotations = api.pod(workload.namespace, pod)["metadata"]["annotations"]
    assert annotations["e2e.kubextend.dev/groups"] == "2"
    assert annotations["e2e.kubextend.dev/claims"] == "1"


def test_an_equal_event_is_written_once(
    stack: Stack, pool: NodePool, breakable_plane: ControlPlane, new_workload: NewWorkload
) -> None:
    namespace = new_workload(stack, pool).namespace
    for name in ("told", "told", "told", "later"):
        metadata = {"name": name, "namespace": namespace, "uid": name, "labels": {"group": "none"}}
        told = {"metadata": metadata, "spec": {"schedulerName": stack.scheduler_name}}
        stack.post("filter", {"Pod": told, "Nodes": None, "NodeNames": pool.names[:1]})

    def named() -> list[str]:
        events = events_of(breakable_plane.api, namespace, "NoPodGroup")
        return sorted(each["regarding"]["name"] for each in events)

    until(lambda: "later" in named(), "the last Event is written")
    assert named() == ["later", "told"]
