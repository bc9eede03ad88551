"""Prometheus and node exporters as Debian packages them, on loopback, ended by process id."""

import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

PROMETHEUS = "prometheus"
NODE_EXPORTER = "prometheus-node-exporter"
DEVICE = "lo"
SCRAPE_INTERVAL = "200ms"
# Go gives up a thread for each CPU to its garbage collector otherwise.
FRUGAL = {"GOMAXPROCS": "1", "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"}
STARTS_WITHIN_S = 60.0


def missing() -> list[str]:
    """Programs that are needed and not installed."""
    return [name for name in (PROMETHEUS, NODE_EXPORTER) if not shutil.which(name)]


def own_networks() -> bool:
    """Whether a process may be given a network namespace of its own here."""
    return _succeeds("unshare", "--map-root-user", "--net", "true")


@contextmanager
def node_exporter(bytes_per_s: int, directory: Path) -> Iterator[str]:
    """The address of an exporter on a node whose lo carries so much a second, each way.

    The traffic is real and counted by the kernel where a network namespace may be made. Where not,
    as in many containers, it is a counter in a file that the exporter reads.
    """
    directory.mkdir()
    if own_networks():
        with _exporter_in_own_network(bytes_per_s, directory) as address:
            yield address
    else:
        with _exporter_of_a_file(bytes_per_s, directory) as address:
            yield address


@contextmanager
def _exporter_in_own_network(bytes_per_s: int, directory: Path) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        enter = ["unshare", "--map-root-user", "--net", sys.executable]
        launcher = [str(Path(__file__).with_name("own_network.py")), str(listener.fileno())]
        exporter = [NODE_EXPORTER, "--collector.disable-defaults", "--collector.netdev"]
        exporter += ["--collector.netdev.device-exclude=^$", "--web.systemd-socket"]
        command = [*enter, *launcher, str(bytes_per_s), *exporter]
        host, port = listener.getsockname()
        with _running(command, directory / "log", (listener.fileno(),)):
            address = f"{host}:{port}"
            _answers(f"http://{address}/metrics")
            yield address


@contextmanager
def _exporter_of_a_file(bytes_per_s: int, directory: Path) -> Iterator[str]:
    counters = [sys.executable, str(Path(__file__).with_name("counters_in_file.py"))]
    address = f"127.0.0.1:{free_port()}"
    exporter = [NODE_EXPORTER, "--collector.disable-defaults", "--collector.textfile"]
    exporter += [f"--collector.textfile.directory={directory}", f"--web.listen-address={address}"]
    file = str(directory / "network.prom")
    with (
        _running([*counters, file, DEVICE, str(bytes_per_s)], directory / "counters.log"),
        _running(exporter, directory / "log"),
    ):
        _answers(f"http://{address}/metrics")
        yield address


@contextmanager
def prometheus(targets: dict[str, str], directory: Path, port: int) -> Iterator[str]:
    """The address of a Prometheus that scrapes exporters, each with its node as a label."""
    directory.mkdir(exist_ok=True)
    config = directory / "prometheus.yml"
    nodes = [{"targets": [at], "labels": {"node": node}} for node, at in targets.items()]
    job = {"job_name": "node", "static_configs": nodes}
    times = {"scrape_interval": SCRAPE_INTERVAL, "scrape_timeout": SCRAPE_INTERVAL}
    config.write_text(yaml.safe_dump({"global": times, "scrape_configs": [job]}))
    command = [PROMETHEUS, f"--config.file={config}", f"--storage.tsdb.path={directory / 'data'}"]
    command += [f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"]
    address = f"http://127.0.0.1:{port}"
    with _running(command, directory / "log"):
        _answers(f"{address}/-/ready")
        yield address


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as held:
        port: int = held.getsockname()[1]
    return port


@contextmanager
def _running(command: list[str], log: Path, pass_fds: tuple[int, ...] = ()) -> Iterator[None]:
    with (
        log.open("ab") as output,
        subprocess.Popen(
            command, stdout=output, stderr=output, pass_fds=pass_fds, env=FRUGAL
        ) as process,
    ):
        try:
            yield
        finally:
            # Killed, as nothing is worth keeping and as a fault would do it.
            process.kill()


def _answers(url: str) -> None:
    deadline = time.monotonic() + STARTS_WITHIN_S
    while True:
        try:
            with urllib.request.urlopen(url, timeout=STARTS_WITHIN_S) as response:
                response.read()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return


def _succeeds(*command: str) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False
