"""Runs a control plane with generated nodes, and times kube-scheduler on waiting pods."""

import json
import time
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import orjson
from tests.e2e.admission_rules import installed
from tests.e2e.controlplane import ControlPlane, build_binaries
from tests.e2e.kubeapi import Api, placed_on
from tests.e2e.manifests import grant_kubextend
from tests.e2e.stack import Scheduler
from tests.e2e.workbench import until

from nodes import RDMA, Cluster
from servers import Servers

__all__ = ["SCHEDULER_NAME", "Extender", "Stage"]

SCHEDULER_NAME = "bench"
_NAMESPACE = "bench"
_KUBEXTEND_USER = "kubextend"
_RUN_TIMEOUT_S = 150.0
_POLL_S = 0.2
_MANY_LOOKS = 10
# Counting begins at this share of the pods, so that kube-scheduler's start is left out.
_FIRST_SHARE = 0.1
_COUNTED = f'scheduler_schedule_attempts_total{{profile="{SCHEDULER_NAME}",result="scheduled"}} '


@dataclass(frozen=True)
class Extender:
    """An extender that kube-scheduler calls, or none.

    Attributes:
        name: the name of the extender in the report.
        url: the extender's URL; None: kube-scheduler runs without an extender.
        names: whether the extender gets names of nodes; False: whole nodes.
        decides: whether the extender keeps pods away from nodes without RDMA.
        compiled: a configuration of kubextend whose rules kube-apiserver puts on the pods, so that
            no extender is needed for them; None: the pods are as they are.
    """

    name: str
    url: str | None = None
    names: bool = True
    decides: bool = True
    compiled: Path | None = None


class Stage:
    """A control plane with nodes, on which only pods change between turns.

    Args:
        servers: starts the programs.
        nodes: how many nodes there are.
        rejected: how many nodes of ten have no RDMA.
    """

    def __init__(self, servers: Servers, nodes: int, rejected: int = 1) -> None:
        self.servers = servers
        self._plane = ControlPlane(servers.bench, build_binaries())
        self._runs = 0
        api = self.api
        grant_kubextend(api, _KUBEXTEND_USER)
        api.create_namespace(_NAMESPACE)
        items = enumerate(Cluster.of(nodes).items)
        manifests = [_manifest(item, rdma=index % 10 >= rejected) for index, item in items]
        api.create_nodes(manifests)
        labelled = [m["metadata"]["name"] for m in manifests if RDMA in m["metadata"]["labels"]]
        self._good = frozenset(labelled)

    @property
    def api(self) -> Api:
        """The client of kube-apiserver, as an administrator."""
        return self._plane.api

    @cached_property
    def good_names(self) -> Path:
        """A file with the names of the nodes with RDMA."""
        path = self.servers.bench.folder / "good-names"
        path.write_text("\n".join(sorted(self._good)))
        return path

    @cached_property
    def node_list(self) -> Path:
        """A file with every node."""
        path = self.servers.bench.folder / "nodes.json"
        path.write_text(json.dumps(self.api.call("GET", "/api/v1/nodes")))
        return path

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig with which kubextend watches the nodes."""
        return self._plane.kubeconfig(_KUBEXTEND_USER)

    def seconds_a_pod(self, extender: Extender, pods: int) -> float:
        """Create pods, start kube-scheduler, and return the seconds that it takes for a pod.

        The method checks that every pod is bound, and to a node with RDMA if the extender decides.
        """
        names = [f"pod-{number:04}" for number in range(pods)]
        with installed(self._plane, extender.compiled) if extender.compiled else nullcontext():
            self.api.create_pods(_NAMESPACE, map(_pod, names))
        self._runs += 1
        scheduler = Scheduler(self._plane, f"run-{self._runs}", self._configuration(extender))
        try:
            took_s = _seconds_a_pod(scheduler, pods)
        finally:
            scheduler.close()
        placed = placed_on(self.api.pods(_NAMESPACE))
        assert placed.keys() == set(names)
        assert not extender.decides or self._good.issuperset(placed.values())
        self.api.delete_pods(_NAMESPACE)
        until(lambda: not self.api.pods(_NAMESPACE), "the pods are gone")
        return took_s

    def _configuration(self, extender: Extender) -> Path:
        kubeconfig = str(self._plane.kubeconfig("system:kube-scheduler"))
        configuration: dict[str, Any] = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            # Its default of 50 requests a second would be what is measured.
            "clientConnection": {"kubeconfig": kubeconfig, "qps": 5000, "burst": 5000},
            "leaderElection": {"leaderElect": False},
            "percentageOfNodesToScore": 100,
            "profiles": [{"schedulerName": SCHEDULER_NAME}],
        }
        if extender.url is not None:
            configuration["extenders"] = [
                {
                    "urlPrefix": extender.url,
                    "filterVerb": "filter",
                    "prioritizeVerb": "prioritize",
                    "weight": 1,
                    "nodeCacheCapable": extender.names,
                    "httpTimeout": "30s",
                }
            ]
        path = self.servers.bench.folder / f"kube-scheduler-{self._runs}.json"
        path.write_text(json.dumps(configuration))
        return path


def _seconds_a_pod(scheduler: Scheduler, pods: int) -> float:
    """Return the seconds a pod between the first and last reading of kube-scheduler's counter."""
    end_s = time.monotonic() + _RUN_TIMEOUT_S
    looks: list[tuple[float, int]] = []
    done = 0
    while done < pods:
        time.sleep(_POLL_S)
        now_s, before, done = time.monotonic(), done, _scheduled(scheduler)
        assert now_s < end_s, f"{done} of {pods} pods after {_RUN_TIMEOUT_S} s"
        if done > before and done >= pods * _FIRST_SHARE:
            looks.append((now_s, done))
    if len(looks) > _MANY_LOOKS:
        # With fast pods, the last pod was scheduled some time before the reading that shows it.
        looks.pop()
    assert len(looks) > 1, "all pods were scheduled between two looks: take more of them"
    (first_s, first), (last_s, last) = looks[0], looks[-1]
    return (last_s - first_s) / (last - first)


def _scheduled(scheduler: Scheduler) -> int:
    for line in scheduler.get("/metrics").text.splitlines():
        if line.startswith(_COUNTED):
            return int(line.removeprefix(_COUNTED))
    return 0


def _manifest(item: bytes, *, rdma: bool) -> dict[str, Any]:
    """Return the manifest of a node as a cloud provider creates it; the API fills in the rest."""
    node: dict[str, Any] = orjson.loads(item)
    metadata = node["metadata"]
    for filled_in in ("uid", "resourceVersion", "creationTimestamp"):
        del metadata[filled_in]
    metadata["labels"].pop(RDMA, None)
    if rdma:
        metadata["labels"][RDMA] = "true"
    return {"apiVersion": "v1", "kind": "Node", **node}


def _pod(name: str) -> dict[str, Any]:
    requests = {"cpu": "10m", "memory": "16Mi"}
    container = {"name": "worker", "image": "worker:1", "resources": {"requests": requests}}
    return {
        "metadata": {"name": name, "labels": {"high-comm": "true"}},
        "spec": {
            "schedulerName": SCHEDULER_NAME,
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
        },
    }
