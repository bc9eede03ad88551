"""A real Prometheus with the shipped rules fires each alert while its fault is caused.

The rules are those of deploy/monitoring without ``for``: how long a fault has to last is tested
with promtool. Each server has a namespace of its own, and one server has no fault.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.doors.certificates import Authority
from tests.doors.shipped_rules import alerts, dashboard_expressions, metric_names, rule_file

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("prometheus") is None, reason="needs prometheus"),
]

# For what is to happen in the end, however busy the machine is.
PATIENT_S = 120.0
ROOT = Path(__file__).resolve().parents[2]
SERVE = [sys.executable, "-c", "from kubextend.cli import main; main()", "serve"]
JSON = {"content-type": "application/json"}
MEBIBYTE = 1024 * 1024
PROFILE = "default-scheduler"
ENABLED = {"filter": {"enabled": [{"name": "Faulty"}]}}
Config = dict[str, Any]
_TYPE = re.compile(r"^# TYPE (\S+) (\S+)$", re.MULTILINE)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port: int = held.getsockname()[1]
    return port


@dataclass
class Server:
    """A running ``kubextend serve``.

    Attributes:
        port: the port of the verbs.
        health_port: the port of the probes and the metrics.
    """

    process: subprocess.Popen[bytes]
    port: int
    health_port: int

    def get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.health_port}{path}") as answer:
            return str(answer.read().decode())

    def post(self, path: str, body: bytes, **headers: str) -> int:
        """Send a request to the port of the verbs; return the status of the answer."""
        url = f"http://127.0.0.1:{self.port}{path}"
        request = urllib.request.Request(url, body, JSON | headers, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=PATIENT_S) as answer:
                answer.read()
                return int(answer.status)
        except urllib.error.HTTPError as refused:
            return refused.code

    def filter(self, then: str, profile: str = PROFILE) -> int:
        metadata = {"name": "p", "namespace": "n", "uid": "u", "labels": {"then": then}}
        pod = {"metadata": metadata, "spec": {"schedulerName": profile}}
        nodes = {"items": [{"metadata": {"name": "one", "uid": "1"}}]}
        return self.post("/filter", json.dumps({"Pod": pod, "Nodes": nodes}).encode())


@contextmanager
def kubextend(folder: Path, config: Config, **environment: str) -> Iterator[Server]:
    folder.mkdir()
    port, health_port = free_port(), free_port()
    own = {"host": "127.0.0.1", "port": port, "healthPort": health_port}
    whole = {
        "apiVersion": "kubextend.dev/v1alpha1",
        "kind": "ExtenderConfiguration",
        "outOfTree": ["faulty_plugin:Faulty"],
        "profiles": [{"schedulerName": PROFILE, "plugins": ENABLED}],
        **config,
        "server": own | config.get("server", {}),
    }
    file = folder / "kubextend.yaml"
    file.write_text(yaml.safe_dump(whole))
    paths = [str(ROOT / "tests" / "doors"), *filter(None, [os.environ.get("PYTHONPATH")])]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*SERVE, "--config", str(file)],
            stdout=log,
            stderr=log,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)} | environment,
        )
    server = Server(process, port, health_port)
    try:
        until(lambda: answers(server), folder / "log")
        yield server
    finally:
        process.kill()
        process.wait()


def answers(server: Server) -> bool:
    assert server.process.poll() is None
    with contextlib.suppress(OSError):
        return bool(server.get("/livez"))
    return False


def until(holds: Callable[[], bool], log: Path) -> None:
    deadline = time.monotonic() + PATIENT_S
    while not holds():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)


@dataclass
class Faults:
    """The threads that cause faults over and over, each a moment after the end of the last time."""

    _threads: list[threading.Thread] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)

    def cause(self, fault: Callable[[], object], pause_s: float = 0.1) -> None:
        def again_and_again() -> None:
            while not self._over.wait(pause_s):
                # A server that is about to end hangs up.
                with contextlib.suppress(OSError):
                    fault()

        self._threads.append(threading.Thread(target=again_and_again))
        self._threads[-1].start()

    def end(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(PATIENT_S)


def paused_for_a_moment(server: Server) -> None:
    server.process.send_signal(signal.SIGSTOP)
    time.sleep(0.6)
    server.process.send_signal(signal.SIGCONT)


def many_connections(server: Server) -> None:
    """Hold 60 of the 64 connections that the health port may have, for two seconds."""
    with ExitStack() as held:
        for _ in range(60):
            address = ("127.0.0.1", server.health_port)
            held.enter_context(socket.create_connection(address))
        time.sleep(2)


def most_of_a_body(server: Server) -> None:
    """Send all but the last byte of a body, and wait two seconds."""
    body = b" " * (2 * MEBIBYTE - 1000)
    head = "POST /filter HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    head += f"content-length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(head.encode() + body[:-1])
        time.sleep(2)


def no_handshake(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        client.recv(100)


def broken_certificate(server: Server, file: Path) -> None:
    file.write_text(f"no certificate, written at {time.monotonic()}")
    server.process.send_signal(signal.SIGHUP)
    time.sleep(1)


def self_signed(folder: Path) -> dict[str, str]:
    """Write a certificate that ends tomorrow; return the files as the configuration names them."""
    pair = Authority(folder, "authority").sign("tls")
    return {"certFile": str(pair.cert_file), "keyFile": str(pair.key_file)}


def kubeconfig_of_nobody(folder: Path) -> str:
    """Write a kubeconfig for an address at which nobody listens."""
    file = folder / "kubeconfig"
    cluster = {"server": f"http://127.0.0.1:{free_port()}"}
    config = {
        "clusters": [{"name": "c", "cluster": cluster}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "current-context": "c",
    }
    file.write_text(yaml.safe_dump(config))
    return str(file)


def without_cluster(folder: Path) -> Config:
    """Return a configuration with all that needs the Kubernetes API, and with no API."""
    names = ("Coscheduling", "PrioritySort")
    enabled = [{"name": name} for name in names]
    args = {"prometheusAddress": f"http://127.0.0.1:{free_port()}", "refreshInterval": "1s"}
    return {
        "cluster": {"kubeconfig": kubeconfig_of_nobody(folder)},
        "queue": {"lease": {"namespace": "k", "name": "q"}},
        "extender": {"bind": True},
        "profiles": [
            {
                "schedulerName": PROFILE,
                "plugins": {
                    "multiPoint": {"enabled": enabled},
                    "score": {"enabled": [{"name": "TargetLoadPacking"}]},
                },
                "pluginConfig": [{"name": "TargetLoadPacking", "args": args}],
            }
        ],
        "server": {"lease": {"namespace": "k", "name": "l"}},
    }


class Watched:
    """The servers with their faults, and the Prometheus that watches them."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._faults = Faults()
        self._seen: set[tuple[str, str]] = set()
        self.servers = self._servers()
        self._url = f"http://127.0.0.1:{free_port()}"
        self._start_prometheus()
        self._cause_faults()
        stack.callback(self._faults.end)

    def _servers(self) -> dict[str, Server]:
        tokens = self._folder / "tokens"
        tokens.write_text("0123456789abcdef\n")
        tls = self_signed(self._folder)
        in_a_pod = {"POD_NAME": "p", "POD_NAMESPACE": "k"}
        small = {"maxBodyBytes": 2 * MEBIBYTE, "maxInFlightBytes": 2 * MEBIBYTE}
        patient = {"extender": {"httpTimeout": "20s"}}
        configs: dict[str, Config] = {
            "normal": {},
            "hangs": {"extender": {"httpTimeout": "1s"}},
            "fails": {},
            "slow": patient,
            "full": {"server": small | {"waitingPods": {"tokenFile": str(tokens)}}},
            "late": {},
            "tls": {"server": {"tls": tls}},
            "away": without_cluster(self._folder),
        }
        start = self._stack.enter_context
        return {
            name: start(kubextend(self._folder / name, config, **in_a_pod))
            for name, config in configs.items()
        }

    def _cause_faults(self) -> None:
        cause, by_name = self._faults.cause, self.servers
        cause(partial(by_name["normal"].filter, ""))
        cause(partial(by_name["hangs"].filter, "hang"))
        cause(partial(by_name["fails"].filter, "raise"))
        for _ in range(12):
            cause(partial(by_name["slow"].filter, "take long"))
        full = by_name["full"]
        cause(partial(full.filter, "", "nobody's-scheduler"))
        cause(partial(full.post, "/prioritize", b"{}"))
        cause(partial(full.post, "/waiting-pods/u/allow", b"{}", authorization="Bearer wrong"))
        cause(partial(many_connections, full))
        cause(partial(most_of_a_body, full))
        cause(partial(paused_for_a_moment, by_name["late"]), 1.0)
        cause(partial(no_handshake, by_name["tls"]))
        cause(partial(broken_certificate, by_name["tls"], self._folder / "tls.crt"))
        args = {"PodName": "p", "PodNamespace": "n", "PodUID": "u", "Node": "one"}
        cause(partial(by_name["away"].post, "/bind", json.dumps(args).encode()))

    def _start_prometheus(self) -> None:
        targets = {name: server.health_port for name, server in self.servers.items()}
        listed = list(targets.items())
        # One deployment with two configurations.
        listed += [("differ", targets["normal"]), ("differ", targets["slow"])]
        listed += [("down", free_port())]
        static = [
            {"targets": [f"127.0.0.1:{port}"], "labels": {"namespace": name}}
            for name, port in listed
        ]
        rules = rule_file()
        for group in rules["groups"]:
            for rule in group["rules"]:
                rule.pop("for", None)
        (self._folder / "rules.yaml").write_text(yaml.safe_dump(rules))
        second = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
        config = {
            "global": second,
            "rule_files": [str(self._folder / "rules.yaml")],
            "scrape_configs": [{"job_name": "kubextend", "static_configs": static}],
        }
        file = self._folder / "prometheus.yaml"
        file.write_text(yaml.safe_dump(config))
        self._stack.enter_context(self._prometheus(file))

    @contextmanager
    def _prometheus(self, file: Path) -> Iterator[None]:
        address = self._url.removeprefix("http://")
        command = ["prometheus", f"--config.file={file}", f"--web.listen-address={address}"]
        command += [f"--storage.tsdb.path={self._folder / 'tsdb'}", "--log.level=warn"]
        with (self._folder / "prometheus.log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            until(self._is_ready, self._folder / "prometheus.log")
            yield
        finally:
            process.kill()
            process.wait()

    def _is_ready(self) -> bool:
        with contextlib.suppress(OSError):
            self._get("/-/ready")
            return True
        return False

    def _get(self, path: str) -> bytes:
        with urllib.request.urlopen(f"{self._url}{path}", timeout=PATIENT_S) as answer:
            body: bytes = answer.read()
        return body

    def firing(self) -> set[tuple[str, str]]:
        """Return the name and the namespace of each alert that fires now."""
        said = json.loads(self._get("/api/v1/alerts"))["data"]["alerts"]
        labels = [alert["labels"] for alert in said if alert["state"] == "firing"]
        # Before the first scrape there is no target, and so no namespace.
        return {(each["alertname"], each.get("namespace", "")) for each in labels}

    def until_firing(self, wanted: set[tuple[str, str]]) -> None:
        """Wait until alerts with these names and namespaces fire or have fired."""
        deadline = time.monotonic() + PATIENT_S
        while missing := wanted - self._seen:
            assert time.monotonic() < deadline, sorted(missing)
            time.sleep(0.5)
            self._seen |= self.firing()

    def ever_fired(self, namespace: str) -> set[str]:
        """Return the names of the alerts that fired for a namespace."""
        query = f'count_over_time(ALERTS{{namespace="{namespace}",alertstate="firing"}}[1h])'
        said = json.loads(self._get(f"/api/v1/query?query={urllib.request.quote(query)}"))
        return {each["metric"]["alertname"] for each in said["data"]["result"]}

    def log(self, name: str) -> Path:
        return self._folder / name / "log"

    def metrics(self) -> set[str]:
        """Return the names of all metrics on the pages of the servers, without the samples'."""
        names = set()
        for server in self.servers.values():
            for name, kind in _TYPE.findall(server.get("/metrics")):
                names.add(name)
                if kind == "histogram":
                    names |= {f"{name}_{part}" for part in ("bucket", "sum", "count")}
        return names


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    with ExitStack() as stack:
        yield Watched(tmp_path_factory.mktemp("alerts"), stack)


# What a busy machine does to a server without a fault.
ON_A_BUSY_MACHINE = {"KubextendDown", "KubextendSlow", "KubextendEventLoopLate"}
FAULTY_SERVERS = {
    "KubextendDown": "down",
    "KubextendNotReady": "away",
    "KubextendPluginHangs": "hangs",
    "KubextendBreakerOpen": "hangs",
    "KubextendPluginFails": "fails",
    "KubextendAnswersErrors": "fails",
    "KubextendBindsFail": "away",
    "KubextendUnknownScheduler": "full",
    "KubextendRefusesRequests": "full",
    "KubextendNoLeader": "away",
    "KubextendQueueNoLeader": "away",
    "KubextendClusterDataOld": "away",
    "KubextendMetricSourceFails": "away",
    "KubextendSlow": "slow",
    "KubextendThreadsUsedUp": "slow",
    "KubextendConnectionsUsedUp": "full",
    "KubextendBytesUsedUp": "full",
    "KubextendEventLoopLate": "late",
    "KubextendCertificateEnds": "tls",
    "KubextendCertificateNotLoaded": "tls",
    "KubextendHandshakesFail": "tls",
    "KubextendLoginsRefused": "full",
    "KubextendConfigurationsDiffer": "differ",
}


def test_each_alert_has_a_server_with_its_fault() -> None:
    assert FAULTY_SERVERS.keys() == alerts().keys()


@pytest.mark.parametrize("name", FAULTY_SERVERS)
def test_an_alert_fires_by_its_fault(name: str, watched: Watched) -> None:
    watched.until_firing({(name, FAULTY_SERVERS[name])})


def test_no_alert_fires_for_the_server_without_a_fault(watched: Watched) -> None:
    watched.until_firing(set(FAULTY_SERVERS.items()))
    assert watched.ever_fired("normal") - ON_A_BUSY_MACHINE == set()


def test_dashboard_and_rules_name_only_metrics_that_there_are(watched: Watched) -> None:
    expressions = [rule["expr"] for rule in alerts().values()] + dashboard_expressions()
    named = set().union(*map(metric_names, expressions))
    assert len(named) > 20
    # A counter of faults is there only after its fault.
    watched.until_firing(set(FAULTY_SERVERS.items()))
    assert named - watched.metrics() - {"up"} == set()


def test_the_log_has_the_stack_of_the_plugin_that_hangs(watched: Watched) -> None:
    log = watched.log("hangs")
    until(lambda: "hang_here" in log.read_text(), log)
