import contextlib
import json
import os
import random
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from kubextend.config import load
from kubextend.doctor import Examined, Verdict, examine
from kubextend.plugins import IN_TREE

WIRE = Path(__file__).parents[2] / "data" / "wire"
JSON = {"content-type": "application/json"}
# For what is to happen in the end, however busy the machine is.
PATIENT_S = 60
# Less than what is in flight would be waited for.
AT_ONCE_S = 20
SERVE = [sys.executable, "-c", "from kubextend.cli import main; main()", "serve"]


def free_port() -> int:
    """A port that nobody listens on, and that no outgoing connection is given meanwhile."""
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


@contextlib.contextmanager
def kubextend(*options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A running ``kubextend serve`` and the URL that it printed."""
    process = subprocess.Popen(
        [*SERVE, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONWARNINGS": "error"},
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        found = re.fullmatch(r"listening on (http://127\.0\.0\.1:\d+/\S*)\n", line)
        if found is None:
            process.kill()
            pytest.fail(line + process.communicate()[1])
        yield process, found[1]
    finally:
        process.kill()
        process.communicate()


def eventually(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENT_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def is_listening(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def end(process: subprocess.Popen[str], number: signal.Signals) -> tuple[int, str, str]:
    """Exit code, stdout and stderr after a signal that nothing holds up."""
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=AT_ONCE_S)
    return process.returncode, stdout, stderr


def body_of(verb: str) -> bytes:
    return (WIRE / "full" / f"{verb}.json").read_bytes()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_zero_and_without_a_traceback(number: signal.Signals) -> None:
    with kubextend("--port", str(free_port())) as (process, url), httpx.Client() as client:
        answer = client.post(f"{url}filter", content=body_of("filter"), headers=JSON)
        assert answer.status_code == 200
        code, stdout, stderr = end(process, number)
    assert code == 0
    assert stdout == ""
    assert "Traceback" not in stderr


STARTS_LATE = """
from pathlib import Path
from kubextend.framework.plugin import Rejection


class StartsLate:
    name = "StartsLate"

    def start(self):
        folder = Path(__file__).parent
        if not (folder / "starts").exists():
            raise ConnectionError("its database is away")
        while not (folder / "started").exists():
            pass

    def filter_nodes(self, state, pod, nodes):
        return []
"""


@pytest.mark.parametrize("hangs", [False, True], ids=["raises", "hangs"])
def test_while_a_plugin_does_not_start_it_is_not_ready_and_a_signal_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hangs: bool
) -> None:
    (tmp_path / "starts_late.py").write_text(STARTS_LATE)
    if hangs:
        (tmp_path / "starts").touch()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    configured = tmp_path / "kubextend.yaml"
    configured.write_text(
        "apiVersion: kubextend.dev/v1alpha1\nkind: ExtenderConfiguration\n"
        "outOfTree: [starts_late:StartsLate]\n"
        f"server: {{port: {free_port()}}}\n"
        "profiles: [{plugins: {filter: {enabled: [{name: StartsLate}]}}}]\n"
    )
    why = "has not started yet" if hangs else "ConnectionError: its database is away"
    with kubextend("--config", str(configured)) as (process, url), httpx.Client() as client:
        eventually(lambda: why in client.get(f"{url}readyz").text)
        assert client.get(f"{url}livez").status_code == 200
        assert (
            '[-]plugins-started failed: not started yet: StartsLate: plugin "StartsLate"'
            in client.get(f"{url}readyz").text
        )
        refused = client.post(f"{url}filter", content=body_of("filter"), headers=JSON)
        assert refused.status_code == 200
        assert "kubextend is not ready: not started yet: StartsLate" in refused.json()["Error"]
        code, _, stderr = end(process, signal.SIGTERM)
    assert code == 0
    assert ("its database is away" in stderr) is not hangs


def test_a_hangup_ends_nothing() -> None:
    with kubextend("--port", str(free_port())) as (process, url), httpx.Client() as client:
        for _ in range(3):
            process.send_signal(signal.SIGHUP)
            assert client.get(f"{url}livez").status_code == 200
        code, _, stderr = end(process, signal.SIGTERM)
    assert code == 0
    assert "SIGHUP: the certificates are read again" in stderr


def test_as_many_files_may_be_open_as_whoever_starts_it_allows() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        with kubextend("--port", str(free_port())) as (process, _):
            now, _ = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert now == min(hard, 65_536) if hard >= 0 else 65_536


def test_a_request_in_flight_is_answered_before_the_end(tmp_path: Path) -> None:
    probes = free_port()
    configured = tmp_path / "kubextend.yaml"
    configured.write_text(
        "apiVersion: kubextend.dev/v1alpha1\nkind: ExtenderConfiguration\n"
        f"server: {{port: {free_port()}, path: /v1, healthPort: {probes}}}\n"
        "profiles: [{plugins: {filter: {enabled: [{name: HighCommPodFilter}]}}}]\n"
    )
    body = body_of("filter")
    with kubextend("--config", str(configured)) as (process, url):
        assert url.endswith("/v1")
        ready = f"http://127.0.0.1:{probes}/readyz"
        assert httpx.get(ready).status_code == 200
        port = int(url.rpartition(":")[2].partition("/")[0])
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENT_S) as connection:
            connection.sendall(
                b"POST /v1/filter HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                b"Content-Length: %d\r\n\r\n" % len(body)
            )
            connection.sendall(body[:1000])
            # A later connection is served, so what was sent before has been read.
            assert httpx.get(f"http://127.0.0.1:{port}/livez").status_code == 200
            process.send_signal(signal.SIGTERM)
            eventually(lambda: not is_listening(port))
            answer = httpx.get(ready)
            assert answer.status_code == 503
            assert "[-]shutdown failed" in answer.text
            assert process.poll() is None
            connection.sendall(body[1000:])
            received = b"".join(iter(lambda: connection.recv(65536), b""))
        head, _, content = received.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK\r\n")
        assert b"connection: close" in head
        assert json.loads(content)["Error"] == ""
        _, stderr = process.communicate(timeout=PATIENT_S)
        assert process.returncode == 0
        assert "Traceback" not in stderr


def test_a_second_signal_does_not_wait_for_a_client_that_never_ends() -> None:
    with kubextend("--port", str(free_port())) as (process, url):
        port = int(url.rpartition(":")[2].rstrip("/"))
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENT_S) as connection:
            connection.sendall(
                b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                b"Content-Length: 100\r\n\r\n"
            )
            assert httpx.get(f"{url}livez").status_code == 200
            process.send_signal(signal.SIGINT)
            eventually(lambda: not is_listening(port))
            assert process.poll() is None
            code, _, stderr = end(process, signal.SIGINT)
    assert code == 0
    assert "Traceback" not in stderr


def test_a_port_that_is_taken_is_one_line_on_stderr() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = subprocess.run(
            [*SERVE, "--port", str(port)],
            capture_output=True,
            text=True,
            timeout=PATIENT_S,
            check=False,
        )
    assert ended.returncode == 1
    assert f"cannot listen on 127.0.0.1 port {port}: Address already in use" in ended.stderr
    assert "choose another address or port in the section server" in ended.stderr
    assert "or with --host or --port" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_doctor_finds_what_is_served_without_a_request_that_is_refused(tmp_path: Path) -> None:
    configured = tmp_path / "kubextend.yaml"
    configured.write_text(
        "apiVersion: kubextend.dev/v1alpha1\nkind: ExtenderConfiguration\n"
        f"server: {{port: {free_port()}}}\n"
        "profiles: [{plugins: {filter: {enabled: [{name: HighCommPodFilter}]}}}]\n"
    )
    with kubextend("--config", str(configured)) as (process, url):
        found = list(examine(Examined(load(configured, known=IN_TREE))))
        metrics = httpx.get(f"{url}metrics").text
        _, _, stderr = end(process, signal.SIGTERM)
    about_server = {each.verdict for each in found if each.check.startswith("server-")}
    assert about_server == {Verdict.OK}
    assert "kubextend_requests_refused_total{" not in metrics
    assert "answered with 404" not in stderr


def test_waiting_pods_are_kept_off_the_health_port(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret-and-long-enough\n")
    probes = free_port()
    configured = tmp_path / "kubextend.yaml"
    configured.write_text(
        "apiVersion: kubextend.dev/v1alpha1\nkind: ExtenderConfiguration\n"
        f"server: {{port: {free_port()}, healthPort: {probes},\n"
        f"         waitingPods: {{tokenFile: {token}}}}}\n"
        "profiles: [{plugins: {filter: {enabled: [{name: HighCommPodFilter}]}}}]\n"
    )
    bearer = {"authorization": "Bearer s3cret-and-long-enough"}
    with kubextend("--config", str(configured)) as (_, url):
        answer = httpx.get(f"{url}waiting-pods", headers=bearer)
        assert (answer.status_code, answer.json()) == (200, {"items": []})
        for path in ("waiting-pods", "waiting-pods/u/allow"):
            refused = httpx.get(f"http://127.0.0.1:{probes}/{path}", headers=bearer)
            assert refused.status_code == 404


def test_a_token_file_of_no_use_is_one_error_that_names_it(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.touch()
    configured = tmp_path / "kubextend.yaml"
    configured.write_text(
        "apiVersion: kubextend.dev/v1alpha1\nkind: ExtenderConfiguration\n"
        f"server: {{waitingPods: {{tokenFile: {token}}}}}\n"
        "profiles: [{plugins: {filter: {enabled: [{name: HighCommPodFilter}]}}}]\n"
    )
    ended = subprocess.run(
        [*SERVE, "--config", str(configured)],
        capture_output=True,
        text=True,
        timeout=PATIENT_S,
        check=False,
    )
    assert ended.returncode == 1
    assert f"token file {token} holds no token" in ended.stderr
    assert "Traceback" not in ended.stderr
