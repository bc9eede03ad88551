"""Starts the servers that are compared, each in a process of its own on loopback."""

import contextlib
import http.client
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.e2e.workbench import Program, Workbench, until

from nodes import RDMA
from remote import PROGRAMS

__all__ = ["BENCH_PROFILE", "FILTER_AND_SCORE", "Servers", "ask"]

_HERE = Path(__file__).parent
_START_TIMEOUT_S = 60.0
_KUBEXTEND = Path(sys.executable).with_name("kubextend")
FILTER_AND_SCORE = {
    "filter": {"enabled": [{"name": "HighCommPodFilter"}]},
    "score": {"enabled": [{"name": "LabelMatch", "weight": 1}]},
}
BENCH_PROFILE = {
    "schedulerName": "default-scheduler",
    "plugins": FILTER_AND_SCORE,
    "pluginConfig": [
        {
            "name": "LabelMatch",
            "args": {
                "scores": [
                    {"podSelector": "high-comm", "nodeSelector": f"{RDMA}=true", "score": 100}
                ]
            },
        }
    ],
}


class Servers:
    """Starts servers, and ends all of them at the end.

    Args:
        folder: the folder for logs and configurations.
    """

    def __init__(self, folder: Path) -> None:
        self.bench = Workbench(folder)
        self._started = 0

    @classmethod
    @contextlib.contextmanager
    def in_folder(cls, folder: Path) -> Iterator["Servers"]:
        """Yield a ``Servers`` whose servers run until the end of the block."""
        servers = cls(folder)
        with servers.bench:
            yield servers

    def noop(self, answer_bytes: int) -> str:
        """Start a Starlette application on uvicorn that answers so many bytes; return its URL."""
        port = self.bench.free_port()
        command = (sys.executable, _HERE / "peers" / "noop.py", str(port), str(answer_bytes))
        return self._started_at(port, "noop", *command)[0]

    def go_extender(self, node_list: Path | None = None) -> str:
        """Start the plain Go extender, with the nodes of a NodeList for names; return its URL."""
        options = () if node_list is None else ("-nodes", node_list)
        return self._go("extender", *options)[0]

    def go_bytes(self, *options: str | Path) -> str:
        """Start the Go extender that works on bytes and decodes no JSON; return its URL."""
        return self._go("bytes", *options)[0]

    def api(self, node_list: Path, pod_list: Path | None = None) -> str:
        """Start the stand-in for kube-apiserver with the nodes of a file; return its URL.

        Args:
            node_list: a file with a NodeList.
            pod_list: a file with a PodList; None: the stand-in lists no pods.
        """
        pods = () if pod_list is None else ("-pods", pod_list)
        return self._go("apiserver", "-nodes", node_list, *pods)[0]

    def kubextend(
        self,
        kubeconfig: Path | None = None,
        profile: dict[str, Any] | None = None,
        *,
        out_of_tree: Sequence[str] = (),
        python_path: Path | None = None,
        sections: Mapping[str, dict[str, Any]] | None = None,
        serving: Sequence[str | Path] = (),
    ) -> tuple[str, Program]:
        """Start kubextend in full mode, or in names mode; return its URL and its program.

        Args:
            kubeconfig: the kubeconfig of the API with the nodes, for names mode; None: full mode.
            profile: fields of the profile that replace the filter and score of the Go extender.
            out_of_tree: plugins outside of kubextend, as in ``outOfTree``.
            python_path: the folder of these plugins.
            sections: fields of ``server`` and ``extender``; None: their defaults.
            serving: a command that stands for the program ``kubextend``; empty: that program.
        """
        port, sections = self.bench.free_port(), sections or {}
        extender = {"nodeCacheCapable": kubeconfig is not None, **sections.get("extender", {})}
        config: dict[str, Any] = {
            "apiVersion": "kubextend.dev/v1alpha1",
            "kind": "ExtenderConfiguration",
            "server": {"host": "127.0.0.1", "port": port, **sections.get("server", {})},
            "extender": extender,
            "outOfTree": [*out_of_tree],
            "profiles": [BENCH_PROFILE | (profile or {})],
        }
        if kubeconfig is not None:
            config["cluster"] = {"kubeconfig": str(kubeconfig)}
        file = self.bench.folder / f"kubextend-{port}.json"
        file.write_text(json.dumps(config))
        command = (*(serving or (_KUBEXTEND,)), "serve", "--config", file)
        inherited = [path for path in [os.environ.get("PYTHONPATH")] if path]
        paths = [*inherited, *([str(python_path)] if python_path else [])]
        environment = {"PYTHONPATH": os.pathsep.join(paths)} if paths else {}
        return self._started_at(port, "kubextend", *command, environment=environment)

    def _go(self, name: str, *options: str | Path) -> tuple[str, Program]:
        port = self.bench.free_port()
        command = (PROGRAMS / name, "-listen", f"127.0.0.1:{port}", *options)
        return self._started_at(port, name, *command)

    def _started_at(
        self,
        port: int,
        name: str,
        *command: str | Path,
        environment: Mapping[str, str] | None = None,
    ) -> tuple[str, Program]:
        self._started += 1
        program = self.bench.start(f"{name}-{self._started}", *command, environment=environment)
        url = f"http://127.0.0.1:{port}"
        until(lambda: _is_ready(url), f"{name} is ready", _START_TIMEOUT_S, program=program)
        return url, program

    def kubeconfig(self, api: str) -> Path:
        """Write a kubeconfig for the stand-in for kube-apiserver; return its path."""
        file = self.bench.folder / "kubeconfig.json"
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "bench", "cluster": {"server": api}}],
            "users": [{"name": "bench", "user": {"token": "bench"}}],
            "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
            "current-context": "bench",
        }
        file.write_text(json.dumps(config))
        return file


def ask(url: str, method: str = "GET") -> bytes:
    """Send a request without a body to a server, and return the body of the answer.

    Raises: OSError: the server gives no answer, or another status than 200.
    """
    # This client is cheap, without TLS: tests call this often while something is timed.
    where = urlsplit(url)
    with contextlib.closing(http.client.HTTPConnection(where.netloc, timeout=10)) as connection:
        connection.request(method, where.path)
        response = connection.getresponse()
        answer = response.read()
    if response.status != http.HTTPStatus.OK:
        message = f"{url}: {response.status} {answer[:200]!r}"
        raise OSError(message)
    return answer


def _is_ready(url: str) -> bool:
    try:
        ask(f"{url}/readyz")
    except OSError:
        return False
    return True
