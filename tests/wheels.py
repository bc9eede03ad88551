"""Installs kubextend's wheel where there is no Rust, and has kubextend answer a request.

``python -m tests.wheels FOLDER UV`` makes a virtual environment, has uv and pip install the wheel
of this processor without a cache, starts the server and calls filter. From the start of uv to the
answer may pass 10 s. pip has no bound: it compiles the hundreds of modules of the package
kubernetes, which takes longer than all else. A wheel of another processor is only looked at.
"""

import json
import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv
import zipfile
from pathlib import Path

MOST_S = 10.0
CONFIG = """
apiVersion: kubextend.dev/v1alpha1
kind: ExtenderConfiguration
server: {{port: {port}}}
profiles: [{{plugins: {{filter: {{enabled: [{{name: HighCommPodFilter}}]}}}}}}]
"""
RDMA = {"node.kubernetes.io/rdma-enabled": "true"}
NODES = [{"metadata": {"name": "plain"}}, {"metadata": {"name": "rdma", "labels": RDMA}}]
POD = {"metadata": {"name": "p", "namespace": "n", "uid": "u", "labels": {"high-comm": "yes"}}}
# The field e_machine in the head of an ELF file.
MACHINES = {"x86_64": 62, "aarch64": 183}


def main() -> None:
    wheels = sorted(Path(sys.argv[1]).glob("kubextend-*.whl"))
    own = [wheel for wheel in wheels if wheel.stem.endswith(platform.machine())]
    for wheel in wheels:
        looked_at(wheel)
    if len(own) != 1:
        sys.exit(f"{len(own)} wheels of {platform.machine()} in {sys.argv[1]}, and not one")
    pip = ["python", "-m", "pip", "install", "--quiet", "--no-cache-dir"]
    uv = [str(Path(sys.argv[2]).resolve()), "pip", "install", "--quiet", "--no-cache"]
    took_s = {}
    for name, install in (("pip", [*pip, "--disable-pip-version-check"]), ("uv", uv)):
        with tempfile.TemporaryDirectory() as folder:
            took_s[name], install_s = answered(own[0], Path(folder), install)
        took = f"an answer {took_s[name]:.1f} s after the start of {name}, which took"
        sys.stdout.write(f"{took} {install_s:.1f} s\n")
    if took_s["uv"] > MOST_S:
        sys.exit(f"more than {MOST_S:.0f} s")


def looked_at(wheel: Path) -> None:
    """Look whether a wheel has the module of its processor, for any Python from 3.11 on."""
    name, _, python, abi, system = wheel.stem.split("-")
    assert (name, python, abi) == ("kubextend", "cp311", "abi3"), wheel.name
    processor = system.removeprefix("manylinux_2_28_")
    with zipfile.ZipFile(wheel) as content:
        head = content.read("kubextend/_native.abi3.so")[:20]
    assert head.startswith(b"\x7fELF"), wheel.name
    assert int.from_bytes(head[18:20], "little") == MACHINES[processor], wheel.name
    sys.stdout.write(f"{wheel.name}: {wheel.stat().st_size / 2**20:.1f} MiB\n")


def answered(wheel: Path, folder: Path, install: list[str]) -> tuple[float, float]:
    """Return the seconds from an installer's start to an answer, and those of the installer."""
    venv.create(folder / "venv", with_pip=True)
    programs = folder / "venv" / "bin"
    # Of the programs of this machine only those of the system: no Rust, and no checkout.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    path = {"PATH": f"{programs}:/usr/bin:/bin", "VIRTUAL_ENV": str(folder / "venv")}
    there = {"cwd": folder, "env": kept | path}
    program = shutil.which(install[0], path=path["PATH"]) or install[0]
    began = time.monotonic()
    command = [program, *install[1:], "--only-binary=:all:", wheel.resolve()]
    subprocess.run(command, **there, check=True)
    installed = time.monotonic()
    config = folder / "kubextend.yaml"
    with socket.create_server(("127.0.0.1", 0)) as free:
        config.write_text(CONFIG.format(port=free.getsockname()[1]))
    command = [programs / "kubextend", "serve", "--config", config]
    with subprocess.Popen(command, **there, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            url = server.stdout.readline().strip().removeprefix("listening on ").rstrip("/")
            assert filtered(url) == ["rdma"]
            return time.monotonic() - began, installed - began
        finally:
            server.terminate()


def filtered(url: str) -> list[str]:
    """Return the names of the nodes that filter keeps, once the server is ready."""
    body = json.dumps({"Pod": POD, "Nodes": {"items": NODES}}).encode()
    request = urllib.request.Request(f"{url}/filter", body, {"Content-Type": "application/json"})
    while True:
        with urllib.request.urlopen(request, timeout=MOST_S) as answer:
            decided = json.load(answer)
        if not decided["Error"]:
            return [node["metadata"]["name"] for node in decided["Nodes"]["items"]]
        time.sleep(0.01)


if __name__ == "__main__":
    main()
