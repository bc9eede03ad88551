"""ElasticQuotas: namespaces whose pods race never use more than they may."""

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from .controlplane import ControlPlane
from .kubeapi import Api, NewPool, Object, placed_on, pod
from .manifests import ELASTIC_QUOTAS, define, elastic_quota
from .stack import NewStack, Stack, grant_needed, profile
from .workbench import until

NAMESPACES = ("capacity-red", "capacity-blue")
# Each pod asks for 100m.
MIN_PODS, MAX_PODS, CPU = 20, 30, "100m"
PODS_OF_EACH = 90
LABEL = {"e2e.kubextend.dev/capacity": "yes"}
SELECTOR = "e2e.kubextend.dev/capacity=yes"
LAST = "capacity-last"


@pytest.fixture(scope="module")
def stack(control_plane: ControlPlane, new_stack: NewStack) -> Iterator[Stack]:
    api = control_plane.api
    define(api, ELASTIC_QUOTAS)
    spec = {"min": {"cpu": f"{100 * MIN_PODS}m"}, "max": {"cpu": f"{100 * MAX_PODS}m"}}
    with ExitStack() as quotas:
        for namespace in NAMESPACES:
            api.create_namespace(namespace)
            quotas.enter_context(elastic_quota(api, namespace, spec))
        wanted = profile("capacity", "CapacityScheduling")
        grant_needed(control_plane, wanted)
        yield new_stack("capacity", profile=wanted)


def watched(api: Api, since: str) -> Iterator[Counter[str]]:
    """Yield after each change of the pods how many of each namespace are on nodes.

    kube-apiserver's own watch shows the changes in order, until that of a last pod.
    """
    on_nodes: set[tuple[str, str]] = set()
    for change in api.changes("/api/v1/pods", since, labelSelector=SELECTOR):
        metadata = change["object"]["metadata"]
        if metadata["name"] == LAST:
            return
        key = metadata["namespace"], metadata["name"]
        if change["type"] != "DELETED" and change["object"]["spec"].get("nodeName"):
            on_nodes.add(key)
        else:
            on_nodes.discard(key)
        yield Counter(namespace for namespace, _ in on_nodes)


def placed(api: Api) -> dict[str, list[str]]:
    return {n: list(placed_on(api.pods(n, labelSelector=SELECTOR))) for n in NAMESPACES}


def test_two_namespaces_never_exceed_their_quotas_while_180_pods_race(
    api: Api, stack: Stack, new_pool: NewPool
) -> None:
    pool = new_pool("capacity", 3)
    since = api.call("GET", "/api/v1/pods", limit="1")["metadata"]["resourceVersion"]
    seen: list[Counter[str]] = []
    watching = threading.Thread(target=lambda: seen.extend(watched(api, since)), daemon=True)
    watching.start()

    def create(namespace: str) -> list[Object]:
        names = (f"worker-{at:03}" for at in range(PODS_OF_EACH))
        like = (stack.scheduler_name, pool.name, LABEL)
        return api.create_pods(namespace, (pod(name, *like, cpu=CPU) for name in names))

    with ThreadPoolExecutor(len(NAMESPACES)) as creators:
        creating = [creators.submit(create, namespace) for namespace in NAMESPACES]
        left = dict.fromkeys(NAMESPACES, PODS_OF_EACH)
        while any(left.values()):
            # Both namespaces have the sum of both mins, and one has its max at most.
            most = min(sum(min(each, MAX_PODS) for each in left.values()), 2 * MIN_PODS)
            until(lambda: sum(map(len, placed(api).values())) == most, "all have room")  # noqa: B023
            for namespace, names in placed(api).items():
                left[namespace] -= len(names)
                for name in names:
                    api.delete_pod(namespace, name)
        assert all(len(each.result()) == PODS_OF_EACH for each in creating)
    api.create_pods(NAMESPACES[0], [pod(LAST, "nobody", "none", LABEL)])
    watching.join(60)
    assert not watching.is_alive()
    assert max(max(on_nodes.values(), default=0) for on_nodes in seen) <= MAX_PODS
    assert max(on_nodes.total() for on_nodes in seen) == 2 * MIN_PODS
    api.delete_pods(NAMESPACES[0])
