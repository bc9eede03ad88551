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
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.doors.answering import kubeconfig_for
from tests.doors.certificates import Authority
from tests.doors.command_line import ROOT, configuration, enabled, profile, write
from tests.doors.shipped_rules import alerts, dashboard_expressions, metric_names, rule_file
from tests.doors.sockets import SERVE
from tests.e2e.workbench import Workbench, until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("prometheus") is None, reason="needs prometheus"),
]

# For what is to happen in the end, however busy the machine is.
PATIENT_S = 120.0
JSON = {"content-type": "application/json"}
MEBIBYTE = 1024 * 1024
PROFILE = "default-scheduler"
Config = dict[str, Any]
_TYPE = re.compile(r"^# TYPE (\S+) (\S+)$", re.MULTILINE)


class Server:
    """A ``kubextend serve`` that answers, with a port for verbs and one for probes and metrics."""

    def __init__(self, bench: Workbench, name: str, config: Config) -> None:
        self.port, self.health_port = bench.free_port(), bench.free_port()
        own = {"host": "127.0.0.1", "port": self.port, "healthPort": self.health_port}
        whole = {"outOfTree": ["faulty_plugin:Faulty"], "profiles": [profile(filter="Faulty")]}
        whole |= config | {"server": own | config.get("server", {})}
        file = write(bench.folder / f"{name}.json", configuration(**whole))
        paths = [str(ROOT / "tests" / "doors"), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {"PYTHONPATH": os.pathsep.join(paths), "POD_NAME": "p", "POD_NAMESPACE": "k"}
        self.program = bench.start(name, *SERVE, "--config", file, environment=environment)
        until(self._answers, f"{name} answers", program=self.program)

    def _answers(self) -> bool:
        with contextlib.suppress(OSError):
            return bool(self.get("/livez"))
        return False

    def get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.health_port}{path}") as answer:
            return str(answer.read().decode())

    def post(self, path: str, body: bytes, **headers: str) -> None:
        """Send a request to the port of the verbs, and read the answer."""
        url = f"http://127.0.0.1:{self.port}{path}"
        request = urllib.request.Request(url, body, JSON | headers, method="POST")
        with (
            contextlib.suppress(urllib.error.HTTPError),
            urllib.request.urlopen(request, timeout=PATIENT_S) as answer,
        ):
            answer.read()

    def filter(self, then: str, scheduler: str = PROFILE) -> None:
        metadata = {"name": "p", "namespace": "n", "uid": "u", "labels": {"then": then}}
        pod = {"metadata": metadata, "spec": {"schedulerName": scheduler}}
        nodes = {"items": [{"metadata": {"name": "one", "uid": "1"}}]}
        self.post("/filter", json.dumps({"Pod": pod, "Nodes": nodes}).encode())


def paused_for_a_moment(server: Server) -> None:
    os.kill(server.program.pid, signal.SIGSTOP)
    time.sleep(0.6)
    os.kill(server.program.pid, signal.SIGCONT)


def many_connections(server: Server) -> None:
    """Hold 900 of the 1,024 connections that the health port may have, for two seconds."""
    with contextlib.ExitStack() as held:
        for _ in range(900):
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
    os.kill(server.program.pid, signal.SIGHUP)
    time.sleep(1)


def without_cluster(bench: Workbench) -> Config:
    """Return a configuration with all that needs the Kubernetes API, and with no API."""
    nobody, no_api = (f"http://127.0.0.1:{bench.free_port()}" for _ in range(2))
    args = {"prometheusAddress": nobody, "refreshInterval": "1s"}
    points = {"multiPoint": enabled("Coscheduling", "PrioritySort"), "score": "TargetLoadPacking"}
    entry = {"name": "TargetLoadPacking", "args": args}
    return {
        "cluster": {"kubeconfig": str(kubeconfig_for(no_api, bench.folder))},
        "queue": {"lease": {"namespace": "k", "name": "q"}},
        "extender": {"bind": True},
        "profiles": [profile(**points) | {"pluginConfig": [entry]}],
        "server": {"lease": {"namespace": "k", "name": "l"}},
    }


class Watched:
    """The servers with their faults, and the Prometheus that watches them."""

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []
        self._seen: set[tuple[str, str]] = set()
        # A certificate that ends tomorrow.
        self._pair = Authority(bench.folder, "authority").sign("tls")
        self.servers = {name: Server(bench, name, c) for name, c in self._configs().items()}
        self._url = f"http://127.0.0.1:{bench.free_port()}"
        self._start_prometheus()
        self._cause_faults()

    def _configs(self) -> dict[str, Config]:
        tokens = write(self._bench.folder / "tokens", "0123456789abcdef\n")
        tls = {"certFile": str(self._pair.cert_file), "keyFile": str(self._pair.key_file)}
        small = {"maxBodyBytes": 2 * MEBIBYTE, "maxInFlightBytes": 2 * MEBIBYTE}
        return {
            "normal": {},
            "hangs": {"extender": {"httpTimeout": "1s"}},
            "fails": {},
            "slow": {"extender": {"httpTimeout": "20s"}},
            "full": {"server": small | {"waitingPods": {"tokenFile": str(tokens)}}},
            "late": {},
            "tls": {"server": {"tls": tls}},
            "away": without_cluster(self._bench),
        }

    def _cause(self, fault: Callable[[], object], pause_s: float = 0.1) -> None:
        """Cause a fault over and over, each time a moment after the end of the last time."""

        def again_and_again() -> None:
            while not self._over.wait(pause_s):
                # A server that is about to end hangs up.
                with contextlib.suppress(OSError):
                    fault()

        self._threads.append(threading.Thread(target=again_and_again))
        self._threads[-1].start()

    def _cause_faults(self) -> None:
        by_name, cause = self.servers, self._cause
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
        cause(partial(broken_certificate, by_name["tls"], self._pair.cert_file))
        args = {"PodName": "p", "PodNamespace": "n", "PodUID": "u", "Node": "one"}
        cause(partial(by_name["away"].post, "/bind", json.dumps(args).encode()))

    def end(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(PATIENT_S)

    def _start_prometheus(self) -> None:
        folder = self._bench.folder
        ports = {name: server.health_port for name, server in self.servers.items()}
        # One deployment with two configurations, and one that is down.
        listed = [*ports.items(), ("differ", ports["normal"]), ("differ", ports["slow"])]
        listed.append(("down", self._bench.free_port()))
        static = [
            {"targets": [f"127.0.0.1:{port}"], "labels": {"namespace": name}}
            for name, port in listed
        ]
        rules = rule_file()
        for group in rules["groups"]:
            for rule in group["rules"]:
                rule.pop("for", None)
        second = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
        config = {
            "global": second,
            "rule_files": [str(write(folder / "rules.yaml", yaml.safe_dump(rules)))],
            "scrape_configs": [{"job_name": "kubextend", "static_configs": static}],
        }
        file = write(folder / "prometheus.yaml", yaml.safe_dump(config))
        address = self._url.removeprefix("http://")
        options = [f"--config.file={file}", f"--web.listen-address={address}", "--log.level=warn"]
        options.append(f"--storage.tsdb.path={folder / 'tsdb'}")
        program = self._bench.start("prometheus", shutil.which("prometheus") or "", *options)
        until(self._is_ready, "Prometheus is ready", program=program)

    def _is_ready(self) -> bool:
        with contextlib.suppress(OSError):
            self._get("/-/ready")
            return True
        return False

    def _get(self, path: str) -> bytes:
        with urllib.request.urlopen(f"{self._url}{path}", timeout=PATIENT_S) as answer:
            body: bytes = answer.read()
        return body

    def until_firing(self, wanted: set[tuple[str, str]]) -> None:
        """Wait until alerts with these names and namespaces fire or have fired."""

        def have_fired() -> bool:
            said = json.loads(self._get("/api/v1/alerts"))["data"]["alerts"]
            labels = [alert["labels"] for alert in said if alert["state"] == "firing"]
            # Before the first scrape there is no target, and so no namespace.
            self._seen |= {(each["alertname"], each.get("namespace", "")) for each in labels}
            return wanted <= self._seen

        until(have_fired, f"fired {sorted(wanted)}", PATIENT_S, every_s=0.5)

    def ever_fired(self, namespace: str) -> set[str]:
        """Return the names of the alerts that fired for a namespace."""
        query = f'count_over_time(ALERTS{{namespace="{namespace}",alertstate="firing"}}[1h])'
        said = json.loads(self._get(f"/api/v1/query?query={urllib.request.quote(query)}"))
        return {each["metric"]["alertname"] for each in said["data"]["result"]}

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
    with Workbench(tmp_path_factory.mktemp("alerts")) as bench:
        servers = Watched(bench)
        yield servers
        servers.end()


# What a busy machine does to a server without a fault.
ON_A_BUSY_MACHINE = {"KubextendDown", "KubextendSlow", "KubextendEventLoopLate"}
FAULTS = {
    "down": "Down",
    "away": "NotReady BindsFail NoLeader QueueNoLeader ClusterDataOld MetricSourceFails",
    "hangs": "PluginHangs BreakerOpen",
    "fails": "PluginFails AnswersErrors",
    "full": "UnknownScheduler RefusesRequests ConnectionsUsedUp BytesUsedUp LoginsRefused",
    "slow": "Slow ThreadsUsedUp",
    "late": "EventLoopLate",
    "tls": "CertificateEnds CertificateNotLoaded HandshakesFail",
    "differ": "ConfigurationsDiffer",
}
FAULTY_SERVERS = {f"Kubextend{of}": where for where, told in FAULTS.items() for of in told.split()}


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
    log = watched.servers["hangs"].program.log
    until(lambda: "hang_here" in log.read_text(), "the stack is in the log")
