"""Runs Karpenter with its kwok provider, which makes nodes without machines, on a control plane.

Karpenter listens on all addresses, so it runs only where loopback is the only network interface:
the trial of autoscalers makes such a network namespace. ``Karpenter`` stands in for kubelets and
says that the nodes are ready.
"""

import json
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Self

import httpx
import yaml

from .controlplane import BINARIES, ControlPlane, build
from .kubeapi import MERGE, POOL_LABEL, Api, Object, condition
from .versions import MODULES
from .workbench import until

MODULE = MODULES / "karpenter"
PACKAGE = "sigs.k8s.io/karpenter/kwok"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
KWOK = {"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass"}
CLASSES = "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses"
POOLS = "/apis/karpenter.sh/v1/nodepools"
CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"
OF_POOL = "karpenter.sh/nodepool"
MADE_BY_KWOK = "kwok.x-k8s.io/node=fake"
# 4 cores, of which pods may request 3.9.
INSTANCE = "c-4x-amd64-linux"
LOOK_EVERY_S = 0.2


def build_karpenter() -> Path:
    """Build Karpenter's kwok provider unless it is built.

    Returns: the folder of the program ``karpenter-kwok`` and of the definitions of its kinds.
    """
    into = BINARIES / "karpenter"
    build(MODULE, {"karpenter-kwok": PACKAGE}, into)
    command = ["go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/karpenter"]
    if not (into / "crds").exists():
        said = subprocess.run(command, cwd=MODULE, capture_output=True, text=True, check=True)
        for crds in ("pkg/apis/crds", "kwok/apis/crds"):
            # Modules are read-only, and their files would be, too.
            for file in (Path(said.stdout.strip()) / crds).glob("*.yaml"):
                (into / "crds").mkdir(exist_ok=True)
                (into / "crds" / file.name).write_text(file.read_text())
    return into


class Karpenter:
    """A running Karpenter, which buys nodes of kwok's, and what it logged."""

    def __init__(self, plane: ControlPlane) -> None:
        self._api = plane.api
        bench = plane.bench
        folder = build_karpenter()
        self._define(folder / "crds")
        ports = {name: bench.free_port() for name in ("METRICS_PORT", "HEALTH_PROBE_PORT")}
        self._probe = f"http://127.0.0.1:{ports['HEALTH_PROBE_PORT']}/readyz"
        environment = {
            "KUBECONFIG": str(plane.kubeconfig("admin")),
            "DISABLE_LEADER_ELECTION": "true",
            "LOG_LEVEL": "debug",
            **{name: str(port) for name, port in ports.items()},
        }
        self._program = bench.start("karpenter", folder / "karpenter-kwok", environment=environment)
        until(self._is_ready, "Karpenter is ready", program=self._program)
        self._stopped = threading.Event()
        self._kubelet = threading.Thread(target=self._make_nodes_ready)

    def __enter__(self) -> Self:
        self._kubelet.start()
        self._api.call("POST", CLASSES, {"metadata": {"name": "default"}, "spec": {}} | KWOK)
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._kubelet.join()

    def add_pool(self, name: str, run: str, labels: Mapping[str, str], weight: int = 1) -> None:
        """Let Karpenter buy nodes of 4 cores, which have the labels and the ``POOL_LABEL`` of run.

        Karpenter asks pools of a higher weight first. It removes a node that stays empty for 5 s.
        """
        requirements = [
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
            {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [INSTANCE]},
        ]
        reference = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
        spec = {"nodeClassRef": reference, "expireAfter": "Never", "requirements": requirements}
        disruption = {"consolidateAfter": "5s", "budgets": [{"nodes": "100%"}]}
        disruption |= {"consolidationPolicy": "WhenEmptyOrUnderutilized"}
        template = {"metadata": {"labels": {POOL_LABEL: run, **labels}}, "spec": spec}
        pool = {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": name},
            "spec": {"template": template, "disruption": disruption, "weight": weight},
        }
        self._api.call("POST", POOLS, pool)

    def remove_pool(self, name: str) -> None:
        """Delete a pool with its nodes, and wait until the nodes are gone."""
        self._api.call("DELETE", f"{POOLS}/{name}")
        self._api.call("DELETE", CLAIMS, labelSelector=f"{OF_POOL}={name}")
        until(lambda: not self.nodes(name), f"the nodes of {name} are gone")

    def nodes(self, pool: str) -> list[str]:
        found = self._api.items("/api/v1/nodes", labelSelector=f"{OF_POOL}={pool}")
        return [each["metadata"]["name"] for each in found]

    def bought(self) -> Counter[str]:
        """Return how many nodes Karpenter has ever bought, by pool."""
        lines = [each for each in self._log() if each["message"] == "created nodeclaim"]
        return Counter(each["NodePool"]["name"] for each in lines)

    def _log(self) -> Iterator[Object]:
        for line in self._program.log.read_text().splitlines():
            if line.startswith("{") and line.endswith("}"):
                yield json.loads(line)

    def _define(self, crds: Path) -> None:
        """Create Karpenter's kinds, and wait until kube-apiserver serves them."""
        for file in crds.glob("*.yaml"):
            self._api.call("POST", DEFINITIONS, yaml.safe_load(file.read_text()))
        until(self._serves_all, "Karpenter's kinds are served")

    def _serves_all(self) -> bool:
        try:
            return all(self._api.items(path) == [] for path in (CLASSES, POOLS, CLAIMS))
        except httpx.HTTPStatusError:
            return False

    def _is_ready(self) -> bool:
        try:
            return httpx.get(self._probe, trust_env=False).is_success
        except httpx.TransportError:
            return False

    def _make_nodes_ready(self) -> None:
        """Say of each new node of kwok that it is ready, as its kubelet would."""
        while not self._stopped.wait(LOOK_EVERY_S):
            for each in self._api.items("/api/v1/nodes", labelSelector=MADE_BY_KWOK):
                if condition(each, "Ready").get("status") != "True":
                    self._say_ready(each["metadata"]["name"])

    def _say_ready(self, name: str) -> None:
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        times = {"lastHeartbeatTime": now, "lastTransitionTime": now}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", **times}
        try:
            path = f"/api/v1/nodes/{name}/status"
            self._api.call("PATCH", path, {"status": {"conditions": [ready]}}, MERGE)
        except httpx.HTTPStatusError as error:
            # Karpenter may have removed the node meanwhile.
            if error.response.status_code != httpx.codes.NOT_FOUND:
                raise


def nominations(api: Api, namespace: str, pod: str) -> list[str]:
    """Return where Karpenter said that a pod should be scheduled, in Events about the pod."""
    events = api.items(f"/api/v1/namespaces/{namespace}/events")
    about = [each for each in events if each["involvedObject"].get("name") == pod]
    return [each["message"] for each in about if each["reason"] == "Nominated"]
