"""Rolls out the Deployment of deploy/service/leader again and again.

kube-controller-manager runs the Deployment of deploy/service, two stand-ins for kubelets run its
pods, and one kube-scheduler places them. A second kube-scheduler places other pods, which a plugin
counts as in the trial ``leader-changes``, and calls kubextend through the Service of the verbs. At
each rollout the pod template changes while pods are created. It is wrong, besides, if a rollout
does not complete.
"""

import base64
import json
import time
from argparse import Namespace
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import yaml
from tests.e2e.certificates import Authority
from tests.e2e.controlplane import BINARIES, ControlPlane, build
from tests.e2e.kubeapi import POOL_LABEL, STRATEGIC, NodePool, Object, condition
from tests.e2e.manifests import DEPLOY, apply, documents, objects
from tests.e2e.program_plane import program_plane
from tests.e2e.stack import PLUGIN_FOLDER, Scheduler, run_kubextend
from tests.e2e.versions import MODULES
from tests.e2e.workbench import until

from .harness import Report, trial
from .leader_changes import ROLLED, Changes
from .process_kubelet import Kubelet
from .replicas import LABEL, NAMESPACE, PODS, SCHEDULER
from .service_proxy import ServiceProxy

MODULE = MODULES / "controllers"
PROGRAM = "kube-controller-manager"
CONTROLLERS = ("deployment", "replicaset", "endpointslice")
FOLDER = DEPLOY / "service"
NAME = "kubextend"
DEPLOYMENT = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{NAME}"
SLICES = f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices"
RESTARTED = "kubectl.kubernetes.io/restartedAt"
# A new pod waits for its first list, an old one for drainDelay: half a minute for two of each.
COMPLETE_WITHIN_S: Final = 300.0
_PLAIN: Final = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
}


def build_controllers() -> Path:
    """Build kube-controller-manager unless it is built; return its path."""
    into = BINARIES / MODULE.name
    build(MODULE, {PROGRAM: f"k8s.io/kubernetes/cmd/{PROGRAM}"}, into)
    return into / PROGRAM


class LeaderService(ServiceProxy):
    """Passes connections on to the endpoints of the Service of the verbs, as kube-proxy does."""

    def __init__(self, plane: ControlPlane, port: int, kubelets: Sequence[Kubelet]) -> None:
        super().__init__(port)
        self._api = plane.api
        self._kubelets = kubelets

    def targets(self) -> list[int]:
        found = self._api.items(SLICES, labelSelector=f"kubernetes.io/service-name={NAME}")
        endpoints = [each for one in found for each in one["endpoints"] or []]
        ready = [each for each in endpoints if each["conditions"]["ready"]]
        # kube-proxy falls back on pods that are being deleted and still answer.
        chosen = ready or [each for each in endpoints if each["conditions"]["serving"]]
        ports = {address: port for each in self._kubelets for address, port in each.ports().items()}
        addresses = [address for each in chosen for address in each["addresses"]]
        return [ports[address] for address in addresses if address in ports]


class Deployed:
    """The Deployment of kubextend with all that runs it, and a kube-scheduler that calls it."""

    def __init__(self, plane: ControlPlane, controllers: Path) -> None:
        self._plane = plane
        self._api = plane.api
        self._folder = plane.bench.folder / "deployed"
        self._folder.mkdir()
        self._rollouts = 0
        self.completed_s: list[float] = []
        nodes = NodePool(self._api, "kubelets", 2)
        self._kubelets = [Kubelet(plane, node) for node in nodes.names]
        self._service = LeaderService(plane, plane.bench.free_port(), self._kubelets)
        self._authority = Authority(self._folder / "pki")
        self._config = self._configuration()
        self._apply(nodes)
        self._start_controllers(controllers)
        self._own_scheduler = self._start_scheduler("default-scheduler", _PLAIN)
        self._running = ExitStack()
        for each in (*self._kubelets, self._service):
            self._running.enter_context(each)
        until(self.is_steady, "the Deployment is complete, and one pod leads", COMPLETE_WITHIN_S)
        self._scheduler = self._start_scheduler("calling", self._written())

    def close(self) -> None:
        self._scheduler.close()
        self._own_scheduler.close()
        self._running.close()

    def change(self, kind: str) -> list[str]:
        """Change the pod template, and wait until the rollout is complete."""
        del kind
        before = {each["metadata"]["uid"] for each in self._pods()}
        self._rollouts += 1
        marks = {"metadata": {"annotations": {RESTARTED: str(self._rollouts)}}}
        self._api.call("PATCH", DEPLOYMENT, {"spec": {"template": marks}}, STRATEGIC)
        began_s = time.monotonic()
        until(self.is_steady, "the rollout is complete", COMPLETE_WITHIN_S)
        self.completed_s.append(time.monotonic() - began_s)
        faults = [
            f"the process of {pod} ended with status {status}"
            for kubelet in self._kubelets
            for pod, status in kubelet.ended.items()
            if status
        ]
        left = [p["metadata"]["name"] for p in self._pods() if p["metadata"]["uid"] in before]
        return faults + [f"the rollout left {name}" for name in left]

    def is_steady(self) -> bool:
        """Return whether the Deployment is complete, and one of its two pods leads."""
        deployment = self._api.call("GET", DEPLOYMENT)
        status, wanted = deployment.get("status", {}), deployment["spec"]["replicas"]
        counts = ("replicas", "updatedReplicas", "availableReplicas")
        leading = self._api.items(PODS, labelSelector=f"{LABEL}=true")
        return (
            condition(deployment, "Progressing").get("reason") == "NewReplicaSetAvailable"
            and status["observedGeneration"] == deployment["metadata"]["generation"]
            and all(status.get(each) == wanted for each in counts)
            and len(self._pods()) == wanted
            and len(leading) == 1
            and len(self._service.targets()) == 1
        )

    def _pods(self) -> list[Object]:
        return self._api.items(PODS)

    def _configuration(self) -> Object:
        """Return the configuration of deploy/service, with a lease and a plugin that counts."""
        config: Object = yaml.safe_load((FOLDER / "kubextend.yaml").read_text())
        config["outOfTree"] = ["one_place:OnePlace"]
        config["server"]["lease"] = {}
        (profile,) = config["profiles"]
        profile["schedulerName"] = SCHEDULER
        profile["plugins"] = {"filter": {"enabled": [{"name": "OnePlace"}]}}
        pair = self._authority.issue("scheduler")
        config["extender"] = {
            "urlPrefix": self._service.url.replace("http:", "https:"),
            "tlsConfig": {
                "caFile": str(self._authority.cert),
                "certFile": str(pair.cert),
                "keyFile": str(pair.key),
            },
        }
        return config

    def _apply(self, nodes: NodePool) -> None:
        """Apply deploy/service with a leader and the right to bind, as deploy/README.md says."""
        manifests = [d for path, d in objects() if path.parent in {FOLDER, FOLDER / "leader"}]
        manifests = [each for each in manifests if each["kind"] != "NetworkPolicy"]
        (patch,) = (
            each["patch"]
            for path, document in documents()
            if path == FOLDER / "leader" / "kustomization.yaml"
            for each in document["patches"]
        )
        own = self._authority.issue("server")
        files = {"tls.crt": own.cert, "tls.key": own.key, "ca.crt": self._authority.cert}
        made: list[Object] = [
            {"kind": "ConfigMap", "data": {"kubextend.yaml": yaml.safe_dump(self._config)}},
            {
                "kind": "Secret",
                "data": {
                    name: base64.b64encode(file.read_bytes()).decode()
                    for name, file in files.items()
                },
            },
        ]
        for each, name in zip(made, ("kubextend-config", "kubextend-tls"), strict=True):
            each |= {"apiVersion": "v1", "metadata": {"name": name, "namespace": NAMESPACE}}
        for each in sorted([*manifests, *made], key=lambda each: each["kind"] != "Namespace"):
            named = each["metadata"]["name"]
            if each["kind"] == "Service" and named == NAME:
                (operation,) = yaml.safe_load(patch)
                assert operation["path"] == f"/spec/selector/{LABEL.replace('/', '~1')}"
                each["spec"]["selector"][LABEL] = operation["value"]
            if each["kind"] == "Deployment":
                # The nodes of other pods have no kubelet.
                each["spec"]["template"]["spec"]["nodeSelector"] = {POOL_LABEL: nodes.name}
            apply(self._api, each)

    def _start_controllers(self, program: Path) -> None:
        bench = self._plane.bench
        bench.start(
            PROGRAM,
            program,
            f"--kubeconfig={self._plane.kubeconfig('admin')}",
            f"--controllers={','.join(f'{each}-controller' for each in CONTROLLERS)}",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            f"--secure-port={bench.free_port()}",
        )

    def _start_scheduler(self, name: str, config: Object) -> Scheduler:
        kubeconfig = str(self._plane.kubeconfig("system:kube-scheduler"))
        client = config.get("clientConnection", {}) | {"kubeconfig": kubeconfig}
        whole = config | {"clientConnection": client, "leaderElection": {"leaderElect": False}}
        written = self._folder / f"{name}.yaml"
        written.write_text(json.dumps(whole))
        return Scheduler(self._plane, name, written)

    def _written(self) -> Object:
        """Return the configuration that ``kubextend scheduler-config`` writes for kubextend's."""
        own = self._authority.issue("here")
        tls = {"certFile": own.cert, "keyFile": own.key, "clientCAFile": self._authority.cert}
        config = self._config
        config["server"]["tls"] = {name: str(path) for name, path in tls.items()}
        file = self._folder / "kubextend.yaml"
        file.write_text(yaml.safe_dump(config))
        text = run_kubextend("scheduler-config", "--config", file, python_path=[PLUGIN_FOLDER])
        return dict(yaml.safe_load(text))


@trial(times=(10, 1), pods=(3000, 100))
def rollouts(options: Namespace, report: Report) -> None:
    """Two replicas with a leader are rolled out again and again while pods are placed."""
    controllers = build_controllers()
    with program_plane() as plane:
        deployed = Deployed(plane, controllers)
        changes = Changes(plane, deployed, options.pods // options.times, report, "rollouts")
        for number in range(options.times):
            gap_s = changes.run(ROLLED)
            took_s = deployed.completed_s[-1]
            report.say(f"rollout {number + 1}: {took_s:.1f} s, no Binding for {gap_s:.2f} s")
        deployed.close()
    report.tell(rollouts=options.times, faults=len(report.wrong))
    report.tell(complete_after_s=max(deployed.completed_s), gap_s=max(changes.gaps_s[ROLLED]))
