"""Starts ``kubextend serve`` with a configuration and stand-ins for what kubextend calls."""

import contextlib
import http.client
import json
import os
import socket
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from prometheus_client.parser import text_string_to_metric_families
from tests.doors.kube_api import write_kubeconfig
from tests.doors.scripted_api import ScriptedApi
from tests.e2e.workbench import Program, Workbench, until

from .clients import Client, memory_bytes

ROOT: Final = Path(__file__).resolve().parents[2]
MB: Final = 1_000_000
_KUBEXTEND: Final = Path(sys.executable).with_name("kubextend")
_HOST: Final = "127.0.0.1"


def filtering(plugin: str) -> dict[str, Any]:
    """Return a profile with one plugin at filter."""
    return {"plugins": {"filter": {"enabled": [{"name": plugin}]}}}


class At(Protocol):
    """A Kubernetes API, or what stands in front of one."""

    @property
    def url(self) -> str: ...


class Served:
    """A ``kubextend serve`` process that is ready.

    Args:
        bench: runs the process in a folder, which may have plugins.
        config: the configuration, without addresses and cluster; without profiles, there is one
            with HighCommPodFilter.
        api: the Kubernetes API that kubextend watches; None: no API.

    Attributes:
        port: the port of the verbs.
        folder: the folder of the process's files.
        program: the process.
    """

    def __init__(self, bench: Workbench, config: Mapping[str, Any], api: At | None = None) -> None:
        self._bench, self.folder = bench, bench.folder
        self.port, self._health_port = bench.free_port(), bench.free_port()
        ours = {"host": _HOST, "port": self.port}
        health = {"healthHost": _HOST, "healthPort": self._health_port}
        whole: dict[str, Any] = {
            "apiVersion": "kubextend.dev/v1alpha1",
            "kind": "ExtenderConfiguration",
            "profiles": [filtering("HighCommPodFilter")],
            **config,
            "server": {**config.get("server", {}), **ours, **health},
        }
        if api is not None:
            kubeconfig = self.folder / "kubeconfig"
            write_kubeconfig(kubeconfig, api.url, "a-token")
            whole["cluster"] = {"kubeconfig": str(kubeconfig)}
        self._config_file = self.folder / f"kubextend-{self.port}.json"
        self._config_file.write_text(json.dumps(whole))
        self.program = self._started()

    def restart(self) -> None:
        """End the process, and start another that is ready when this returns."""
        self._bench.end(self.program)
        self.program = self._started()

    def _started(self) -> Program:
        paths = [str(self.folder), *filter(None, [os.environ.get("PYTHONPATH")])]
        command: tuple[str | Path, ...] = (_KUBEXTEND, "serve", "--config", self._config_file)
        environment = {"PYTHONPATH": os.pathsep.join(paths)}
        program = self._bench.start(f"kubextend-{self.port}", *command, environment=environment)
        until(self._is_ready, "kubextend is ready", program=program)
        return program

    def _is_ready(self) -> bool:
        with contextlib.suppress(OSError, http.client.HTTPException):
            return self._health("/readyz")[0] == http.client.OK
        return False

    def count(self, name: str, **labels: str) -> float:
        """Return the sum of the metric samples with this name and these labels."""
        return sum(
            sample.value
            for family in text_string_to_metric_families(self._health("/metrics")[1].decode())
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    def until_nodes(self, count: int) -> None:
        """Wait until kubextend has listed this many nodes."""
        until(lambda: self.count("kubextend_node_store_nodes") == count, "all nodes are listed")

    def resident_bytes(self) -> int:
        """Return the resident memory of the process in bytes."""
        return memory_bytes(self.program.pid)

    def worst_bytes(self) -> int:
        """Return the highest resident memory in bytes since ``forget_worst``, or the start."""
        return memory_bytes(self.program.pid, "VmHWM")

    def forget_worst(self) -> None:
        """Let the kernel measure the highest resident memory from now on."""
        # Source: proc(5), /proc/pid/clear_refs
        Path(f"/proc/{self.program.pid}/clear_refs").write_text("5")

    def connect(self) -> socket.socket:
        """Open a TCP connection to the port of the verbs."""
        return socket.create_connection((_HOST, self.port), timeout=60.0)

    def filter(self, body: object) -> tuple[int, Any]:
        """Send a body to filter over a connection of its own; return the answer and its status."""
        with contextlib.closing(Client(self.port)) as client:
            status, answer = client.post("/filter", body)
            return status, json.loads(answer)

    def _health(self, path: str) -> tuple[int, bytes]:
        with contextlib.closing(Client(self._health_port)) as client:
            return client.get(path)


@contextlib.contextmanager
def workbench() -> Iterator[Workbench]:
    """Yield a workbench in a folder of its own, which is gone after the block."""
    with tempfile.TemporaryDirectory() as folder, Workbench(Path(folder)) as bench:
        yield bench


@contextlib.contextmanager
def serving(config: Mapping[str, Any], api: At | None = None, **plugins: str) -> Iterator[Served]:
    """Run kubextend until the block ends.

    Args:
        config: the configuration, as ``Served`` takes it.
        api: the Kubernetes API.
        plugins: the source of each module with plugins, by name.
    """
    with workbench() as bench:
        for name, source in plugins.items():
            (bench.folder / f"{name}.py").write_text(source)
        yield Served(bench, config, api)


@contextlib.contextmanager
def scripted_api(nodes: Iterable[str] = ()) -> Iterator[ScriptedApi]:
    """Serve a Kubernetes API with these nodes until the block ends."""
    api = ScriptedApi()
    for name in nodes:
        api.put_node(name)
    with ready(api):
        yield api


@contextlib.contextmanager
def ready(api: ScriptedApi) -> Iterator[None]:
    """Serve an API until the block ends. Its watches begin behind all that is there already."""
    api.history.clear()
    api.up()
    try:
        yield
    finally:
        api.down()
