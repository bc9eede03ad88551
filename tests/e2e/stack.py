"""Runs a kubextend and a kube-scheduler that calls it, for one scheduler name.

kube-scheduler always runs with the configuration that ``kubextend scheduler-config`` wrote, except
that it retries pods sooner: see BACKOFF.
"""

import contextlib
import json
import os
import signal
import ssl
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

import httpx
import yaml
from click.testing import CliRunner
from prometheus_client.parser import text_string_to_metric_families

from kubextend.cli import main

from .certificates import Authority, KeyPair
from .controlplane import ControlPlane
from .kubeapi import Object, trusting
from .manifests import grant
from .workbench import Program, until

KUBEXTEND = Path(sys.executable).with_name("kubextend")
PLUGIN_FOLDER = Path(__file__).with_name("plugins")
START_TIMEOUT_S = 300.0
# kube-scheduler's timeout of a call, so long that no call fails on a busy machine.
PATIENT = "20s"
# kube-scheduler retries a pod about once a second, and not after up to ten seconds.
BACKOFF = {"podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 1}
NO_RDMA = "Node does not support RDMA"
HIGH_COMM = {"high-comm": "yes"}
WANTS_FAST = {"disk": "fast"}
DISK_LABEL = "e2e.kubextend.dev/disk"
PLUGINS = ("HighCommPodFilter", "LabelMatch")
LABEL_MATCH = {
    "scores": [{"podSelector": "disk=fast", "nodeSelector": f"{DISK_LABEL}=ssd", "score": 100}]
}


def default_configuration(plane: ControlPlane, **fields: object) -> Object:
    """Return the configuration of a kube-scheduler that knows of no extender."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(plane.kubeconfig("system:kube-scheduler"))},
        **fields,
    }


@dataclass(frozen=True)
class Mode:
    """How kube-scheduler calls kubextend; without ``names``, requests bring whole nodes."""

    names: bool = True
    tls: bool = False
    binds: bool = False

    def __str__(self) -> str:
        nodes = "names" if self.names else "full"
        scheme = "https" if self.tls else "http"
        return f"{nodes}-{scheme}-{'binder' if self.binds else 'no-binder'}"


NAMES = Mode(names=True)


@dataclass
class Samples:
    """The samples of a /metrics page at one time."""

    text: str

    def total(self, name: str, **labels: str) -> float:
        """Return the sum of the samples with this name and these labels."""
        return sum(
            sample.value
            for family in text_string_to_metric_families(self.text)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )


def run_kubextend(
    *arguments: str | Path, python_path: Sequence[Path] = (), ends_with: int = 0
) -> str:
    """Run one kubextend command in this process, which is many times faster than in another.

    Returns: what the command printed; of one that does not end with 0, errors last.
    """
    for folder in map(str, (PLUGIN_FOLDER, *python_path)):
        if folder not in sys.path:
            sys.path.append(folder)
    done = CliRunner().invoke(main, [*map(str, arguments)])
    assert done.exit_code == ends_with, f"kubextend {arguments}: {done.stdout}\n{done.stderr}"
    return done.stdout + (done.stderr if ends_with else "")


def refused_kubextend(*arguments: str | Path) -> str:
    """Run one kubextend command that must end with 1."""
    return run_kubextend(*arguments, ends_with=1)


def configuration(path: Path, *profiles: Object, **sections: object) -> Path:
    """Write kubextend's configuration with these profiles to a file, and return the file."""
    kind = {"apiVersion": "kubextend.dev/v1alpha1", "kind": "ExtenderConfiguration"}
    path.write_text(json.dumps({**kind, "cluster": {}, "profiles": profiles, **sections}))
    return path


def scheduler_configuration(
    plane: ControlPlane, config: Path, *options: str, python_path: Sequence[Path] = ()
) -> Object:
    """Return the configuration that kubextend writes for kube-scheduler, without an election."""
    kubeconfig = plane.kubeconfig("system:kube-scheduler")
    whole = ("--config", config, "--kubeconfig", kubeconfig, "--no-leader-elect", *options)
    written = run_kubextend("scheduler-config", *whole, python_path=python_path)
    return dict(yaml.safe_load(written))


class Scheduler:
    """A kube-scheduler that runs with a configuration, or a file that holds it, and is ready."""

    def __init__(self, control_plane: ControlPlane, name: str, config: Path | Object) -> None:
        if not isinstance(config, Path):
            content, config = config, control_plane.bench.folder / f"kube-scheduler-{name}.json"
            config.write_text(json.dumps(content))
        self._bench = control_plane.bench
        self._url = f"https://127.0.0.1:{self._bench.free_port()}"
        # kube-scheduler has a self-signed certificate.
        self._trust = ssl.create_default_context()
        self._trust.check_hostname = False
        self._trust.verify_mode = ssl.CERT_NONE
        self._program = self._bench.start(
            f"kube-scheduler-{name}",
            control_plane.binaries / "kube-scheduler",
            f"--config={config}",
            "--bind-address=127.0.0.1",
            f"--secure-port={httpx.URL(self._url).port}",
            "--authorization-always-allow-paths=/readyz,/metrics",
            f"--feature-gates={control_plane.gates}",
            # The log says when kube-scheduler tries a pod or a pod group.
            "-v=3",
        )
        until(self._is_ready, "kube-scheduler is ready", START_TIMEOUT_S, program=self._program)

    def get(self, path: str) -> httpx.Response:
        return httpx.get(f"{self._url}{path}", verify=self._trust, trust_env=False)

    def log(self) -> str:
        return self._program.log.read_text()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Stand still during a block; calls under way stay open."""
        os.kill(self._program.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self._program.pid, signal.SIGCONT)

    def close(self) -> None:
        self._bench.end(self._program, signal.SIGKILL)

    def _is_ready(self) -> bool:
        try:
            return self.get("/readyz").is_success
        except httpx.TransportError:
            return False


class Stack:
    """A kubextend and a kube-scheduler that calls it, with access to the metrics of both.

    The fields in ``sections`` are added to those of kubextend's configuration.
    """

    backoff: ClassVar[Mapping[str, object]] = BACKOFF

    def __init__(  # noqa: PLR0913  what the tests vary
        self,
        control_plane: ControlPlane,
        name: str,
        mode: Mode = NAMES,
        *,
        profile: Object | None = None,
        more_profiles: Sequence[Object] = (),
        out_of_tree: Sequence[str] = (),
        python_path: Sequence[Path] = (),
        api_url: str | None = None,
        queue: Object | None = None,
        extender: Object | None = None,
        guard: bool = False,
        scheduler: bool = True,
        readers: Path | None = None,
        kubeconfig: Path | None = None,
        sections: Mapping[str, Object] | None = None,
    ) -> None:
        self.name = name
        self.mode = mode
        self._kubeconfig = kubeconfig or control_plane.kubeconfig("kubextend", api_url)
        self._profiles = [profile or default_profile(name), *more_profiles]
        self._queue = queue
        self._sections = sections or {}
        self._extender = extender or {}
        self._guard = guard
        self._readers = readers
        self._out_of_tree = out_of_tree
        self._python_path = python_path
        self.scheduler_name: str = self._profiles[0]["schedulerName"]
        self._plane = control_plane
        self._bench = control_plane.bench
        self._folder = self._bench.folder / name
        self._folder.mkdir()
        self._port = self._bench.free_port()
        self._certificates = Authority(self._folder / "pki", name) if mode.tls else None
        self.url = f"{'https' if mode.tls else 'http'}://127.0.0.1:{self._port}"
        self.config = self._folder / "kubextend.yaml"
        self.config.write_text(json.dumps(self._extender_configuration(), indent=1))
        self.client = self._client()
        self._kubextend = self._launch_kubextend()
        # Both programs start at the same time.
        self._scheduler = self._start_scheduler() if scheduler else None
        until(self.is_ready, "kubextend is ready", START_TIMEOUT_S, program=self._kubextend)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._scheduler is not None:
            self._scheduler.close()
        self._bench.end(self._kubextend, signal.SIGKILL)
        self.client.close()

    def restart_scheduler(self, meanwhile: AbstractContextManager[object]) -> None:
        """End kube-scheduler, and start it after a block, with the gates of the time then."""
        assert self._scheduler is not None
        self._scheduler.close()
        with meanwhile:
            pass
        self._scheduler = self._start_scheduler()

    def paused_scheduler(self) -> AbstractContextManager[None]:
        """Let kube-scheduler stand still during a block, so that it tries no pod again."""
        assert self._scheduler is not None
        return self._scheduler.paused()

    def kubextend_log(self) -> str:
        return self._kubextend.log.read_text()

    def kill_kubextend(self) -> None:
        self._bench.end(self._kubextend, signal.SIGKILL)

    def stop_kubextend(self) -> int:
        """Ask kubextend to end and return its exit status."""
        return self._bench.end(self._kubextend)

    def start_kubextend(self) -> None:
        """Start kubextend again, as its container would be, without waiting for it."""
        self._kubextend = self._launch_kubextend()

    @property
    def client_pair(self) -> KeyPair:
        """A certificate of a caller, for a stack with TLS."""
        assert self._certificates is not None
        return self._certificates.issue("client")

    @property
    def pid(self) -> int:
        return self._kubextend.pid

    def is_ready(self) -> bool:
        return self._is_well("/readyz")

    def is_alive(self) -> bool:
        return self._is_well("/livez")

    def post(self, verb: str, body: Mapping[str, object]) -> Object:
        answer = self.client.post(f"/{verb}", json=body)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def kept(self, node_names: list[str], labels: Mapping[str, str] | None = None) -> list[str]:
        """Call filter for a pod with these labels, and return the names of the kept nodes."""
        metadata = {"name": "p", "namespace": "default", "uid": "u", "labels": dict(labels or {})}
        pod: Object = {"metadata": metadata, "spec": {"schedulerName": self.scheduler_name}}
        about = {"Pod": pod, "Nodes": None, "NodeNames": node_names}
        return list(self.post("filter", about)["NodeNames"] or [])

    def counts(self) -> Samples:
        return Samples(self.client.get("/metrics").raise_for_status().text)

    def calls(self, verb: str) -> int:
        """Return how often kube-scheduler called a verb since kubextend was started."""
        return int(self.counts().total("kubextend_verb_duration_seconds_count", verb=verb))

    def attempts(self, result: str, scheduler_name: str | None = None) -> int:
        """Return how often kube-scheduler tried pods of a profile, or the first, with this result.

        kube-scheduler retries a pod that is ``unschedulable`` after an event, and after its backoff
        where the result is ``error``.
        """
        name = "scheduler_schedule_attempts_total"
        profile = scheduler_name or self.scheduler_name
        return int(self.scheduler_counts().total(name, profile=profile, result=result))

    def scheduler_counts(self) -> Samples:
        assert self._scheduler is not None
        return Samples(self._scheduler.get("/metrics").raise_for_status().text)

    def _is_well(self, path: str) -> bool:
        try:
            return self.client.get(path).is_success
        except httpx.TransportError:
            return False

    def _launch_kubextend(self) -> Program:
        paths = _environment([PLUGIN_FOLDER, *self._python_path])
        command = (KUBEXTEND, "serve", "--config", self.config)
        return self._bench.start(f"kubextend-{self.name}", *command, environment=paths)

    def _start_scheduler(self) -> Scheduler:
        options = ["--bind"] if self.mode.binds else []
        written = scheduler_configuration(
            self._plane, self.config, *options, python_path=self._python_path
        )
        return Scheduler(self._plane, self.name, {**written, **self.backoff})

    def _client(self) -> httpx.Client:
        context: ssl.SSLContext | bool = True
        if self._certificates is not None:
            context = trusting(self._certificates.cert)
            context.load_cert_chain(self.client_pair.cert, self.client_pair.key)
        return httpx.Client(base_url=self.url, verify=context, trust_env=False, timeout=120.0)

    def _extender_configuration(self) -> Object:
        extender: Object = {"nodeCacheCapable": self.mode.names, "bind": self.mode.binds}
        extender |= {"httpTimeout": PATIENT, **self._extender}
        server: Object = {"host": "127.0.0.1", "port": self._port}
        if self._certificates is not None:
            ca, issue = str(self._certificates.cert), self._certificates.issue
            server["tls"] = {**issue("server").files, "clientCAFile": ca}
            extender["tlsConfig"] = {**issue("scheduler").files, "caFile": ca}
        if self._readers is not None:
            server["decisions"] = {"tokenFile": str(self._readers), "page": True}
        config: Object = {
            "apiVersion": "kubextend.dev/v1alpha1",
            "kind": "ExtenderConfiguration",
            "server": server,
            "extender": extender,
            "profiles": self._profiles,
            "outOfTree": list(self._out_of_tree),
        }
        if self._queue is not None:
            config["queue"] = self._queue
        if self._guard:
            config["guard"] = {"resources": True}
        if self.mode.names or self.mode.binds:
            config["cluster"] = {"kubeconfig": str(self._kubeconfig)}
        for name, fields in self._sections.items():
            config[name] = {**config.get(name, {}), **fields}
        return config


class NewStack(Protocol):
    """Starts a ``Stack`` until the end of the module, named as its first profile."""

    def __call__(
        self, name: str, mode: Mode = ..., *, plane: ControlPlane | None = ..., **how: Any
    ) -> Stack: ...


def profile(scheduler_name: str, *plugins: str, **args: Object) -> Object:
    """Return a profile that enables plugins at multiPoint; ``args`` gives Args by plugin name."""
    enabled = dict.fromkeys([*plugins, *args])
    return {
        "schedulerName": scheduler_name,
        "plugins": {"multiPoint": {"enabled": [{"name": name} for name in enabled]}},
        "pluginConfig": [{"name": name, "args": given} for name, given in args.items()],
    }


def default_profile(scheduler_name: str) -> Object:
    return profile(scheduler_name, *PLUGINS, LabelMatch=LABEL_MATCH)


def grant_needed(plane: ControlPlane, wanted: Object, out_of_tree: Sequence[str] = ()) -> None:
    """Grant the user kubextend the rights that ``kubextend check --rbac`` prints for a profile."""
    name = wanted["schedulerName"]
    file = plane.bench.folder / f"{name}-rights.yaml"
    configuration(file, wanted, outOfTree=[*out_of_tree])
    printed = yaml.safe_load_all(run_kubextend("check", "--rbac", file))
    role = next(each for each in printed if each["kind"] == "ClusterRole")
    grant(plane.api, f"e2e-{name}", "kubextend", role["rules"])


def _environment(python_path: Sequence[Path]) -> dict[str, str]:
    inherited = [path for path in [os.environ.get("PYTHONPATH")] if path]
    return {"PYTHONPATH": os.pathsep.join([*map(str, python_path), *inherited])}
