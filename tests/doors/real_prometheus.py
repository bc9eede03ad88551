"""Runs the Prometheus and node exporters of Debian's packages on loopback."""

import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml
from tests.doors.sockets import free_port

PROMETHEUS = "prometheus"
NODE_EXPORTER = "prometheus-node-exporter"
DEVICE = "lo"
SCRAPE_INTERVAL = "200ms"
# Go gives up a thread for each CPU to its garbage collector otherwise.
FRUGAL = {"GOMAXPROCS": "1", "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"}
STARTS_WITHIN_S = 60.0


def missing() -> list[str]:
    """Return the names of the needed programs that are not installed."""
    return [name for name in (PROMETHEUS, NODE_EXPORTER) if not shutil.which(name)]


@contextmanager
def node_exporter(bytes_per_s: int, directory: Path) -> Iterator[str]:
    """Run an exporter of a device lo that carries ``bytes_per_s`` each way; yield its address.

    The exporter reads the counters from a file: no traffic of the machine is among them.
    """
    directory.mkdir()
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
    """Run a Prometheus that scrapes exporters, each with its node as a label; yield its URL."""
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


@contextmanager
def _running(command: list[str], log: Path) -> Iterator[None]:
    with (
        log.open("ab") as output,
        subprocess.Popen(command, stdout=output, stderr=output, env=FRUGAL) as process,
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
