"""kube-scheduler's own types read every answer: a Go test talks to a kubextend that runs here.

The Go side is tests/go/contract; it also plays the API that kubextend lists nodes from.
"""

import json
import os
import random
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
WITH_PARENT = TESTS / "e2e" / "with_parent.py"
KUBEXTEND = Path(sys.executable).with_name("kubextend")
START_TIMEOUT_S = 60.0
# The first time, Go compiles kube-scheduler's types.
GO_TIMEOUT_S = 1200.0
# Below those that a kernel gives to whoever connects: until Go listens, nobody takes one.
PORTS = range(15_000, 32_000)
LABEL_MATCH = {
    "filters": [
        {
            "podSelector": "team=ml",
            "nodeSelector": "zone in (a,b,),!nothing",
            "reason": "wrong zone",
        }
    ],
    "scores": [
        {"nodeSelector": "disk=ssd", "score": 30},
        {"nodeSelector": "cores>8", "score": 45},
        {"nodeSelector": "zone notin (c)", "score": 25},
    ],
}


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nothing listens on."""
    found: set[int] = set()
    # Not the common generator, which two test runs may have seeded alike.
    chance = random.SystemRandom()
    while len(found) < count:
        port = chance.choice(PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found.add(port)
    return list(found)


def write_kubeconfig(folder: Path, api: str) -> Path:
    path = folder / "kubeconfig"
    named = {"name": "go"}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{**named, "cluster": {"server": f"http://{api}"}}],
        "users": [{**named, "user": {}}],
        "contexts": [{**named, "context": {"cluster": "go", "user": "go"}}],
        "current-context": "go",
    }
    path.write_text(json.dumps(config))
    return path


def write_configuration(folder: Path, port: int, kubeconfig: Path) -> Path:
    path = folder / "kubextend.yaml"
    label_match = [{"name": "LabelMatch", "weight": 3}]
    config = {
        "apiVersion": "kubextend.dev/v1alpha1",
        "kind": "ExtenderConfiguration",
        "server": {"host": "127.0.0.1", "port": port},
        "cluster": {"kubeconfig": str(kubeconfig)},
        "extender": {"bind": True},
        "passThrough": ["no-one", "someone-else"],
        "profiles": [
            {
                "schedulerName": "default-scheduler",
                "plugins": {"filter": {"enabled": [{"name": "HighCommPodFilter"}]}},
            },
            {
                "schedulerName": "label-match",
                "plugins": {
                    "filter": {"enabled": [{"name": "LabelMatch"}]},
                    "score": {"enabled": label_match},
                },
                "pluginConfig": [{"name": "LabelMatch", "args": LABEL_MATCH}],
            },
        ],
    }
    path.write_text(json.dumps(config))
    return path


@contextmanager
def serving(config: Path, url: str, log: Path) -> Iterator[None]:
    """Run kubextend until the block ends; it lives, but is not ready before the API answers."""
    command: list[str | Path] = [
        sys.executable,
        WITH_PARENT,
        str(os.getpid()),
        KUBEXTEND,
        "serve",
        "--config",
        config,
    ]
    with (
        log.open("wb") as out,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out) as server,
    ):
        try:
            wait_until_it_lives(url, server, log)
            yield
        finally:
            server.kill()


def wait_until_it_lives(url: str, server: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/livez", timeout=10):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.05)
    message = f"kubextend does not live: {log.read_text()}"
    raise TimeoutError(message)


def test_kube_schedulers_own_types_read_every_answer(tmp_path: Path) -> None:
    go = shutil.which("go")
    assert go is not None, "the contract tests need a Go toolchain on the PATH"
    port, api_port = free_ports(2)
    api = f"127.0.0.1:{api_port}"
    url = f"http://127.0.0.1:{port}"
    config = write_configuration(tmp_path, port, write_kubeconfig(tmp_path, api))
    log = tmp_path / "kubextend.log"
    with serving(config, url, log):
        done = subprocess.run(
            [go, "test", "-count=1", "-shuffle=on", "./contract/..."],
            cwd=TESTS / "go",
            env={**os.environ, "KUBEXTEND_URL": url, "KUBERNETES_API": api, "NO_PROXY": "*"},
            capture_output=True,
            text=True,
            timeout=GO_TIMEOUT_S,
            check=False,
        )
    assert done.returncode == 0, f"{done.stdout[-8000:]}\n{done.stderr}\n{log.read_text()[-4000:]}"
