"""ElasticQuotas: namespaces whose pods race never use more than they may."""

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from .controlplane import ControlPlane
from .kubeapi import Api, NodePool, Object, placed_on, pod
from .manifests import ELASTIC_QUOTAS, define, elastic_quota
from .stack import Mode, Stack, grant_needed, profile
from .workbench import until

NAMESPACES = ("capacity-red", "capacity-blue")
# Each pod asks for 100m.
MIN_PODS, MAX_PODS = 20, 30
CREATORS, PODS_OF_EACH = 2, 125
ALL_PODS = len(NAMESPACES) * CREATORS * PODS_OF_EACH
LABEL = {"e2e.kubextend.dev/capacity": "yes"}
SELECTOR = "e2e.kubextend.dev/capacity=yes"
LAST = "capacity-last"


def cpu(pods: int) -> dict[str, str]:
    return {"cpu": f"{100 * pods}m"}


@pytest.fixture(scope="module")
def stack(control_plane: ControlPlane) -> Iterator[Stack]:
    api = control_plane.api
    define(api, ELASTIC_QUOTAS)
    spec = {"min": cpu(MIN_PODS), "max": cpu(MAX_PODS)}
    with ExitStack() as quotas:
        for namespace in NAMESPACES:
            api.create_namespace(namespace)
            quotas.enter_context(elastic_quota(api, namespace, spec))
        wanted = profile("capacity", "CapacityScheduling")
        grant_needed(control_plane, wanted)
        running = Stack(control_plane, "capacity", Mode(names=True), profile=wanted)
        yield running
        running.close()


@pytest.fixture
def pool(control_plane: ControlPlane) -> Iterator[NodePool]:
    pool = NodePool(control_plane.api, "capacity", 3)
    yield pool
    for namespace in NAMESPACES:
        control_plane.api.delete_pods(namespace)
    pool.delete()


class Record:
    """The pods of the test as kube-apiserver's own watch shows them, change by change.

    Args:
        api: the API.
    """

    def __init__(self, api: Api) -> None:
        self._api = api
        self._since = api.call("GET", "/api/v1/pods", limit="1")["metadata"]["resourceVersion"]
        self.changes: list[Object] = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Create a last pod, and wait until the watch shows it."""
        self._api.create_pods(NAMESPACES[0], [pod(LAST, "nobody", "none", LABEL)])
        self._thread.join(60)
        assert not self._thread.is_alive()

    def _read(self) -> None:
        for change in self._api.changes("/api/v1/pods", self._since, labelSelector=SELECTOR):
            assert change["type"] in {"ADDED", "MODIFIED", "DELETED"}, change
            self.changes.append(change)
            if change["object"]["metadata"]["name"] == LAST:
                return


def pods_on_nodes(changes: Sequence[Object]) -> Iterator[dict[str, int]]:
    """Yield after each change how many pods of each namespace are on nodes."""
    on_nodes: dict[str, set[str]] = {namespace: set() for namespace in NAMESPACES}
    for change in changes:
        metadata = change["object"]["metadata"]
        there = on_nodes[metadata["namespace"]]
        if change["type"] != "DELETED" and change["object"]["spec"].get("nodeName"):
            there.add(metadata["name"])
        else:
            there.discard(metadata["name"])
        yield {namespace: len(names) for namespace, names in on_nodes.items()}


def create(api: Api, scheduler: str, pool: NodePool) -> None:
    """Create the pods of all creators, two in each namespace, at the same time."""

    def run(creator: tuple[str, int]) -> None:
        namespace, number = creator
        for at in range(PODS_OF_EACH):
            name = f"worker-{number}-{at:03}"
            api.create_pods(namespace, [pod(name, scheduler, pool.name, LABEL, cpu="100m")])

    creators = [(namespace, number) for namespace in NAMESPACES for number in range(CREATORS)]
    with ThreadPoolExecutor(len(creators)) as threads:
        list(threads.map(run, creators))


def until_placed(api: Api, count: int) -> dict[str, list[str]]:
    """Wait until so many pods are on nodes; return their names by namespace."""

    def placed() -> dict[str, list[str]]:
        found = {
            namespace: list(placed_on(api.pods(namespace, labelSelector=SELECTOR)))
            for namespace in NAMESPACES
        }
        return found if sum(map(len, found.values())) == count else {}

    return until(placed, f"{count} pods are on nodes")


def test_two_namespaces_never_exceed_their_quotas_while_500_pods_race(
    api: Api, stack: Stack, pool: NodePool
) -> None:
    record = Record(api)
    arguments = (api, stack.scheduler_name, pool)
    creating = threading.Thread(target=create, args=arguments, daemon=True)
    creating.start()

    left = dict.fromkeys(NAMESPACES, CREATORS * PODS_OF_EACH)
    while any(left.values()):
        # Both namespaces have the sum of both mins, and one has its max at most.
        at_most = sum(min(number, MAX_PODS) for number in left.values())
        for namespace, names in until_placed(api, min(at_most, 2 * MIN_PODS)).items():
            left[namespace] -= len(names)
            for name in names:
                api.delete_pod(namespace, name)
    creating.join()
    record.end()
    bound = {
        (metadata["namespace"], metadata["name"])
        for change in record.changes
        if change["object"]["spec"].get("nodeName")
        for metadata in (change["object"]["metadata"],)
    }
    assert len(bound) == ALL_PODS
    seen = list(pods_on_nodes(record.changes))
    assert max(max(on_nodes.values()) for on_nodes in seen) <= MAX_PODS
    assert max(sum(on_nodes.values()) for on_nodes in seen) == 2 * MIN_PODS
