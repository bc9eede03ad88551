"""Stands in for the kubelet of a node: runs the pods of a Deployment of kubextend as processes.

The kubelet mounts ConfigMaps and Secrets, asks /readyz as the readiness probe says, and ends pods
as their deletion and grace period say. Three things differ from a real node. All pods share
loopback, so each gets ports of its own, and an IP address that nothing listens on. A kubeconfig
with the token of the pod's service account takes the place of the mounted token. A process that
ends by itself is not started again.
"""

import contextlib
import os
import signal
import threading
import time
from base64 import b64decode
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Self

import httpx
import yaml
from tests.e2e.controlplane import ControlPlane
from tests.e2e.kubeapi import STRATEGIC, Object
from tests.e2e.stack import KUBEXTEND, PLUGIN_FOLDER
from tests.e2e.workbench import Program

LOOK_S = 0.1
ADDRESSES = count(1)


@dataclass
class Running:
    """A pod whose process was started.

    Attributes:
        address: the IP address of the pod.
        port: the loopback port of the verbs.
        health_port: the loopback port of the probes.
        program: the process.
        probe: the readiness probe of the container.
        is_ready: what the condition Ready says; None: the pod has no such condition yet.
        failures: how many probes in a row have failed.
        next_probe_s: when the next probe is due, in monotonic seconds.
        kill_at_s: when the grace period is over; 0: the pod is not being deleted.
    """

    address: str
    port: int
    health_port: int
    program: Program
    probe: Object
    is_ready: bool | None = None
    failures: int = 0
    next_probe_s: float = 0.0
    kill_at_s: float = 0.0


class Kubelet:
    """Runs the pods that are bound to a node, each as one process of kubextend.

    Args:
        plane: the control plane.
        node: the name of the node.

    Attributes:
        ended: the exit status of each pod's process that was asked to end, by the pod's name.
    """

    def __init__(self, plane: ControlPlane, node: str) -> None:
        self.ended: dict[str, int] = {}
        self._plane = plane
        self._node = node
        self._running: dict[str, Running] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"kubelet of {node}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        for each in self._running.values():
            self._plane.bench.end(each.program, signal.SIGKILL)

    def ports(self) -> dict[str, int]:
        """Return the loopback port of the verbs of each running pod, by the pod's IP address."""
        return {each.address: each.port for each in list(self._running.values())}

    def _run(self) -> None:
        while not self._over.wait(LOOK_S):
            found = self._plane.api.items(
                "/api/v1/pods", fieldSelector=f"spec.nodeName={self._node}"
            )
            for pod in found:
                uid = pod["metadata"]["uid"]
                if "deletionTimestamp" in pod["metadata"]:
                    self._end(pod)
                elif uid not in self._running:
                    self._running[uid] = self._start(pod)
                else:
                    self._probe(pod, self._running[uid])

    def _start(self, pod: Object) -> Running:
        bench, metadata = self._plane.bench, pod["metadata"]
        folder = bench.folder / metadata["name"]
        (container,) = pod["spec"]["containers"]
        mounts = self._mount(pod, container, folder)
        port, health_port = bench.free_port(), bench.free_port()
        for file in folder.glob("*/kubextend.yaml"):
            config = yaml.safe_load(_moved(file.read_text(), mounts))
            config["server"] |= {"host": "127.0.0.1", "port": port, "healthPort": health_port}
            config["cluster"]["kubeconfig"] = str(self._kubeconfig(pod, folder))
            file.write_text(yaml.safe_dump(config))
        environment = {
            each["name"]: str(metadata[each["valueFrom"]["fieldRef"]["fieldPath"].split(".")[1]])
            for each in container["env"]
        }
        paths = [str(PLUGIN_FOLDER), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment["PYTHONPATH"] = os.pathsep.join(paths)
        arguments = [_moved(each, mounts) for each in container["args"]]
        program = bench.start(metadata["name"], KUBEXTEND, *arguments, environment=environment)
        address = f"10.1.0.{next(ADDRESSES)}"
        self._patch(pod, {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]})
        return Running(address, port, health_port, program, container["readinessProbe"])

    def _mount(self, pod: Object, container: Object, folder: Path) -> dict[str, str]:
        """Write the files of a pod's volumes; return the folder of each path in the container."""
        core = f"/api/v1/namespaces/{pod['metadata']['namespace']}"
        volumes = {each["name"]: each for each in pod["spec"]["volumes"]}
        mounts = {}
        for mount in container["volumeMounts"]:
            volume, into = volumes[mount["name"]], folder / mount["name"]
            into.mkdir(parents=True)
            if "configMap" in volume:
                files = self._plane.api.call(
                    "GET", f"{core}/configmaps/{volume['configMap']['name']}"
                )
                content = {name: text.encode() for name, text in files["data"].items()}
            else:
                files = self._plane.api.call(
                    "GET", f"{core}/secrets/{volume['secret']['secretName']}"
                )
                content = {name: b64decode(text) for name, text in files["data"].items()}
            for name, data in content.items():
                (into / name).write_bytes(data)
            mounts[mount["mountPath"]] = str(into)
        return mounts

    def _kubeconfig(self, pod: Object, folder: Path) -> Path:
        """Write a kubeconfig with a token of the pod's service account that is bound to the pod."""
        metadata = pod["metadata"]
        bound = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": metadata["name"],
            "uid": metadata["uid"],
        }
        account = pod["spec"]["serviceAccountName"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/serviceaccounts/{account}/token"
        asked = self._plane.api.call("POST", path, {"spec": {"boundObjectRef": bound}})
        return self._plane.kubeconfig_with(asked["status"]["token"], folder / "kubeconfig")

    def _probe(self, pod: Object, running: Running) -> None:
        now_s = time.monotonic()
        if now_s < running.next_probe_s:
            return
        running.next_probe_s = now_s + running.probe["periodSeconds"]
        answers = False
        with contextlib.suppress(httpx.TransportError):
            url = f"http://127.0.0.1:{running.health_port}{running.probe['httpGet']['path']}"
            timeout_s = running.probe["timeoutSeconds"]
            answers = httpx.get(url, trust_env=False, timeout=timeout_s).is_success
        running.failures = 0 if answers else running.failures + 1
        ready = answers or (
            bool(running.is_ready) and running.failures < running.probe["failureThreshold"]
        )
        if ready != running.is_ready:
            running.is_ready = ready
            status = str(ready)
            kinds = ("ContainersReady", "Ready")
            self._patch(pod, {"conditions": [{"type": kind, "status": status} for kind in kinds]})

    def _end(self, pod: Object) -> None:
        """Ask a pod's process to end, or kill it after the grace period; remove an ended pod."""
        metadata = pod["metadata"]
        running = self._running.get(metadata["uid"])
        if running is not None and running.program.is_running():
            if not running.kill_at_s:
                grace_s = metadata["deletionGracePeriodSeconds"]
                running.kill_at_s = time.monotonic() + grace_s
                os.kill(running.program.pid, signal.SIGTERM)
            if time.monotonic() < running.kill_at_s:
                self._probe(pod, running)
                return
        if running is not None:
            self.ended[metadata["name"]] = self._plane.bench.end(running.program, signal.SIGKILL)
            del self._running[metadata["uid"]]
        self._plane.api.delete_pod(metadata["namespace"], metadata["name"])

    def _patch(self, pod: Object, status: Object) -> None:
        metadata = pod["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/status"
        # The pod may be gone.
        with contextlib.suppress(httpx.HTTPStatusError):
            self._plane.api.call("PATCH", path, {"status": status}, STRATEGIC)


def _moved(text: str, mounts: dict[str, str]) -> str:
    """Return a text with the folders of this machine in place of the paths in the container."""
    for path, folder in mounts.items():
        text = text.replace(path, folder)
    return text
