"""Runs two replicas of kubextend with a leader, and a stand-in for the Service of the verbs.

There is no kubelet: the replicas are processes of this machine, and their pods are objects that
nobody runs.
"""

import asyncio
import contextlib
import json
import os
import random
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
from tests.e2e.controlplane import ControlPlane
from tests.e2e.door import Door
from tests.e2e.kubeapi import Api, Object
from tests.e2e.manifests import DEPLOY, apply, documents
from tests.e2e.stack import KUBEXTEND, PLUGIN_FOLDER, Samples, Scheduler, scheduler_configuration
from tests.e2e.workbench import Program, until

LABEL = "kubextend.dev/leader"
NAMESPACE = "kubextend-system"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
SCHEDULER = "replicas"
KINDS = (KILLED, DRAINED, CUT) = "killed", "drained", "cut off"
# As deploy/service has it, but shorter: a test waits for it.
DRAIN_DELAY = "1s"
START_TIMEOUT_S = 120.0
# The readiness probe of deploy/service.
PROBE_S, FAILURE_THRESHOLD = 2.0, 3
# The kubelet waits for so long before it starts a container again that has ended before.
RESTART_S = 10.0
# Longer than the Lease, and than kube-apiserver's other limits of a replica that is cut off.
CUT_S = 25.0
# How often the Service looks where new connections go.
LOOK_S = 0.02


@dataclass
class Replica:
    """One process of kubextend, and the pod object that stands for its pod.

    Attributes:
        pod: the name of the pod.
        port: the port of the verbs, of health and of metrics.
        config: the file of its configuration.
        door: the way to kube-apiserver.
        program: the process.
        failures: how many readiness probes in a row have failed.
    """

    pod: str
    port: int
    config: Path
    door: Door
    program: Program
    failures: int = 0

    def probe(self) -> None:
        self.failures = 0 if self.is_ready() else self.failures + 1

    def is_endpoint(self) -> bool:
        """Return whether the pod is ready, as the kubelet and the Service see it."""
        return self.program.is_running() and self.failures < FAILURE_THRESHOLD

    def is_ready(self) -> bool:
        return self._ask("/readyz") is not None

    def leads(self) -> bool:
        metrics = self._ask("/metrics")
        return metrics is not None and Samples(metrics).total("kubextend_leader") == 1

    def _ask(self, path: str) -> str | None:
        with contextlib.suppress(httpx.TransportError):
            url = f"http://127.0.0.1:{self.port}{path}"
            answer = httpx.get(url, trust_env=False, timeout=PROBE_S)
            return answer.text if answer.is_success else None
        return None


class Service:
    """A stand-in for the Service that selects the label of the leader, and for its kube-proxy.

    A connection stays with the replica that it was opened to. A process that has ended or is not
    ready gets no connection.

    Args:
        api: a client that may list the pods of the replicas.
        port: the loopback port to listen on.
        replicas: returns the replicas that run.
    """

    def __init__(self, api: Api, port: int, replicas: Callable[[], Sequence[Replica]]) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self._api = api
        self._replicas = replicas
        self._targets: list[int] = []
        self._ended = threading.Event()
        self._loop = asyncio.new_event_loop()
        listening = asyncio.start_server(self._pass_through, "127.0.0.1", port)
        self._server = self._loop.run_until_complete(listening)
        works = (self._serve, self._look, self._probe)
        self._threads = [threading.Thread(target=work, daemon=True) for work in works]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self._ended.set()
        self._loop.call_soon_threadsafe(self._loop.stop)
        for thread in self._threads:
            thread.join()

    def labelled(self) -> list[str]:
        """Return the names of the pods that have the label of the leader."""
        found = self._api.items(PODS, labelSelector=f"{LABEL}=true")
        return [pod["metadata"]["name"] for pod in found]

    def _look(self) -> None:
        while not self._ended.wait(LOOK_S):
            names = self.labelled()
            ready = [each for each in self._replicas() if each.is_endpoint()]
            self._targets = [each.port for each in ready if each.pod in names]

    def _probe(self) -> None:
        while not self._ended.wait(PROBE_S):
            for replica in self._replicas():
                replica.probe()

    def _serve(self) -> None:
        self._loop.run_forever()
        self._server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0.1))
        self._loop.close()

    async def _pass_through(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(OSError, asyncio.CancelledError), contextlib.closing(writer):
            if not (targets := self._targets):
                return
            onward, out = await asyncio.open_connection("127.0.0.1", random.choice(targets))
            copies = (_copy(reader, out), _copy(onward, writer))
            with contextlib.closing(out):
                await asyncio.wait([asyncio.ensure_future(each) for each in copies])


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError), contextlib.closing(writer):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()


class Replicas:
    """Two replicas of kubextend, the stand-in for their Service, and a kube-scheduler."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._api = plane.api
        self._bench = plane.bench
        self._folder = plane.bench.folder / "replicas"
        self._folder.mkdir()
        self._made = 0
        _grant(self._api)
        self.running: list[Replica] = []
        self.service = Service(self._api, self._bench.free_port(), lambda: list(self.running))
        for _ in range(2):
            self.add()
        until(self.is_steady, "one replica leads and one is ready", START_TIMEOUT_S)
        config = scheduler_configuration(plane, self.running[0].config)
        self._scheduler = Scheduler(plane, "replicas", config)

    def close(self) -> None:
        self._scheduler.close()
        self.service.close()
        for replica in self.running:
            self._bench.end(replica.program, signal.SIGKILL)
            replica.door.__exit__()

    def add(self) -> None:
        """Create a pod and start its process, as the Deployment and the kubelet would."""
        self._made += 1
        pod = f"kubextend-{self._made}"
        container = {"name": "kubextend", "image": "registry.invalid/none"}
        spec = {"terminationGracePeriodSeconds": 0, "containers": [container]}
        self._api.create_all(PODS, [{"metadata": {"name": pod}, "spec": spec}])
        port = self._bench.free_port()
        config = self._folder / f"{pod}.yaml"
        door = Door(self._bench.free_port(), self._plane.port, both_ways=True)
        door.__enter__()
        config.write_text(json.dumps(self._configuration(port, door), indent=1))
        self.running.append(Replica(pod, port, config, door, self._launch(pod, config)))

    def change(self, kind: str) -> list[str]:
        """Change the leader in the way of ``KINDS``; return sentences about what went wrong."""
        (leader,) = (each for each in self.running if each.leads())
        if kind == KILLED:
            # Without a warning; the container is started again in the same pod.
            self._bench.end(leader.program, signal.SIGKILL)

            def restarts() -> None:
                leader.program = self._launch(leader.pod, leader.config)

            threading.Timer(RESTART_S, restarts).start()
        elif kind == CUT:
            # kube-scheduler still reaches the leader.
            leader.door.shut()
            threading.Timer(CUT_S, leader.door.open).start()
        elif status := self._replace(leader):
            return [f"the drained leader ended with status {status}"]
        return []

    def _replace(self, leader: Replica) -> int:
        """Replace the leader's pod as a rollout does; return the exit status of the old process."""
        status = self._bench.end(leader.program)
        self.running.remove(leader)
        leader.door.__exit__()
        self._api.delete_pod(NAMESPACE, leader.pod)
        self.add()
        return status

    def is_steady(self) -> bool:
        """Return whether both replicas are ready, and one leads and has the label."""
        leading = [each.pod for each in self.running if each.leads()]
        ready = all(each.is_ready() for each in self.running)
        return ready and len(leading) == 1 and self.service.labelled() == leading

    def _launch(self, pod: str, config: Path) -> Program:
        paths = [str(PLUGIN_FOLDER), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {
            "POD_NAME": pod,
            "POD_NAMESPACE": NAMESPACE,
            "PYTHONPATH": os.pathsep.join(paths),
        }
        command: tuple[str | Path, ...] = (KUBEXTEND, "serve", "--config", config)
        return self._bench.start(pod, *command, environment=environment)

    def _configuration(self, port: int, door: Door) -> Object:
        filtering = {"filter": {"enabled": [{"name": "OnePlace"}]}}
        listening = {"host": "127.0.0.1", "port": port}
        return {
            "apiVersion": "kubextend.dev/v1alpha1",
            "kind": "ExtenderConfiguration",
            "outOfTree": ["one_place:OnePlace"],
            "server": {**listening, "drainDelay": DRAIN_DELAY, "lease": {}},
            "cluster": {"kubeconfig": str(self._plane.kubeconfig("kubextend", door.url))},
            "extender": {"urlPrefix": self.service.url, "httpTimeout": "2s"},
            "profiles": [{"schedulerName": SCHEDULER, "plugins": filtering}],
        }


def _grant(api: Api) -> None:
    """Grant kubextend what deploy/service grants it for the election of a leader, and no more."""
    apply(api, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    (role,) = _manifests("Role")
    apply(api, role)
    (binding,) = _manifests("RoleBinding")
    group = "rbac.authorization.k8s.io"
    apply(api, {**binding, "subjects": [{"apiGroup": group, "kind": "User", "name": "kubextend"}]})


def _manifests(kind: str) -> Iterator[Object]:
    folder = DEPLOY / "service" / "leader"
    return (d for path, d in documents() if path.parent == folder and d["kind"] == kind)
