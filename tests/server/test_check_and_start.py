"""What ends ``serve`` at its start is found by ``check``, where it shows on this machine."""

import json
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives import serialization
from tests.doors.certificates import Authority
from tests.doors.extender import PATIENT_S, profile, sections_of
from tests.doors.sockets import free_port

from kubextend.cli import main

GANG = profile(multiPoint=["Coscheduling"])
KUBECONFIG = {
    "current-context": "here",
    "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
    "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
    "users": [{"name": "u", "user": {"token": "t"}}],
}
Sections = dict[str, Any]
Sentences = list[str]


def tls(folder: Path, **files: str) -> Sections:
    """Return the section ``server`` with good files, except for those that are given."""
    authority = Authority(folder, "ca")
    pair = authority.sign("server")
    authority.sign("other")
    authority.sign("of-client", for_servers=False)
    authority.sign("expired", lasts=timedelta(days=-1))
    (folder / "text").write_text("no certificate\n")
    key = serialization.load_pem_private_key(pair.key_file.read_bytes(), password=None)
    (folder / "encrypted.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    good = {"certFile": pair.cert_file, "keyFile": pair.key_file, "clientCAFile": authority.file}
    given = {name: folder / file for name, file in files.items()}
    return {"server": {"tls": {name: str(file) for name, file in (good | given).items()}}}


def tokens(folder: Path, content: str) -> Sections:
    (folder / "tokens").write_text(content)
    return {
        **kubeconfig(folder, KUBECONFIG),
        "server": {"waitingPods": {"tokenFile": str(folder / "tokens")}},
        "profiles": [GANG],
    }


def kubeconfig(folder: Path, content: object, **more: str) -> Sections:
    text = content if isinstance(content, str) else json.dumps(content)
    (folder / "kubeconfig").write_text(text)
    return {"cluster": {"kubeconfig": str(folder / "kubeconfig"), **more}}


# The sections of a configuration, and what both commands say of them.
BROKEN: dict[str, tuple[Callable[[Path], Sections], str]] = {
    "no certificate": (lambda at: tls(at, certFile="text"), "TLS certificate"),
    "certificate and key in each other's place": (
        lambda at: tls(at, certFile="server.key", keyFile="server.crt"),
        "certFile has to hold, as PEM, a certificate",
    ),
    "no key": (
        lambda at: tls(at, keyFile="server.crt"),
        "keyFile the certificate's private key",
    ),
    "another key": (
        lambda at: tls(at, keyFile="other.key"),
        "key values mismatch",
    ),
    "an encrypted key": (lambda at: tls(at, keyFile="encrypted.key"), "encrypted.key is encrypted"),
    "an expired certificate": (
        lambda at: tls(at, certFile="expired.crt", keyFile="expired.key"),
        "expired.crt: certificate has expired",
    ),
    "the certificate of a client": (
        lambda at: tls(at, certFile="of-client.crt", keyFile="of-client.key"),
        "unsuitable certificate purpose",
    ),
    "no client CA": (lambda at: tls(at, clientCAFile="text"), "TLS client CA"),
    "a short token": (lambda at: tokens(at, "abc\n"), "has a token of 3 characters"),
    "no kubeconfig": (lambda at: kubeconfig(at, "a: [\n"), "cannot be used"),
    "no such context": (lambda at: kubeconfig(at, KUBECONFIG, context="there"), "cannot be used"),
    "no such cluster": (
        lambda at: kubeconfig(at, {**KUBECONFIG, "clusters": []}),
        "cannot be used",
    ),
    "one port twice": (
        lambda _: {"server": {"host": "0.0.0.0", "healthHost": "127.0.0.1", "insecure": True}},
        "must not be the port of the verbs",
    ),
    "the loopback twice": (
        lambda _: {"server": {"host": "127.0.0.1", "healthHost": "localhost"}},
        "must not be the port of the verbs",
    ),
}


@pytest.fixture
def _serve_ends() -> Iterator[None]:
    """A signal ends a server that should not have started."""
    late = threading.Timer(PATIENT_S, os.kill, [os.getpid(), signal.SIGINT])
    late.start()
    yield
    late.cancel()


def serve(file: Path, *options: str) -> Any:
    return CliRunner().invoke(main, ["serve", "--config", str(file), *options])


def written(folder: Path, sections: Sections, port: int = 8888) -> Path:
    server = {"port": port, **sections.get("server", {})}
    if "healthHost" in server:
        server["healthPort"] = server["port"]
    default = {"profiles": [profile(filter=["HighCommPodFilter"])]}
    file = folder / "kubextend.yaml"
    file.write_text(json.dumps(sections_of(**default | sections | {"server": server})))
    return file


def checked(folder: Path, sections: Sections, *, good: bool = True) -> Any:
    result = CliRunner().invoke(main, ["check", str(written(folder, sections))])
    assert result.exit_code == (0 if good else 1), result.output
    return result


@pytest.mark.usefixtures("_serve_ends")
@pytest.mark.parametrize(("sections", "sentence"), BROKEN.values(), ids=BROKEN)
def test_check_says_what_ends_serve_at_its_start(
    tmp_path: Path, sections: Callable[[Path], Sections], sentence: str
) -> None:
    made = sections(tmp_path)
    found = checked(tmp_path, made, good=False)
    assert sentence in found.stderr
    assert "error: " in found.stderr
    served = serve(written(tmp_path, made, free_port()))
    assert served.exit_code == 1
    assert isinstance(served.exception, SystemExit)
    assert sentence in served.stderr


@pytest.mark.usefixtures("_serve_ends")
@pytest.mark.parametrize("health", [False, True])
def test_serve_says_which_port_is_taken_and_what_chooses_another(
    tmp_path: Path, health: bool
) -> None:
    """No option of the command changes the health port."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        sections = {"server": {"healthPort": port}} if health else {}
        served = serve(written(tmp_path, sections, free_port() if health else port))
    assert served.exit_code == 1
    assert f"cannot listen on 127.0.0.1 port {port}: Address already in use" in served.stderr
    fields = "choose another address or port in the section server of the configuration"
    assert fields in served.stderr
    assert ("or with --host or --port" in served.stderr) != health


@pytest.mark.parametrize(
    "sections",
    [
        tls,
        lambda at: tokens(at, "0123456789abcdef\n"),
        lambda at: kubeconfig(at, KUBECONFIG),
        lambda _: {
            "server": {"tls": {"certFile": "/nowhere/crt", "keyFile": "/nowhere/key"}},
            "cluster": {"kubeconfig": "/nowhere/kubeconfig"},
        },
        lambda _: {"server": {"host": "127.0.0.1", "healthHost": "127.0.0.2"}},
    ],
    ids=["certificates", "tokens", "a kubeconfig", "files that are elsewhere", "two addresses"],
)
def test_check_passes_what_is_good_or_elsewhere(
    tmp_path: Path, sections: Callable[[Path], Sections]
) -> None:
    checked(tmp_path, sections(tmp_path))


NAME = "kubextend.example.svc"


# A client in Go finds a name among the DNS names of subjectAltName, and an address among its IP
# addresses.
@pytest.mark.parametrize(
    ("url", "server_name", "dns_names", "refused"),
    [
        ("https://127.0.0.1:8888", None, [], ""),
        (f"https://{NAME}:8888", None, [NAME], ""),
        (f"https://{NAME}:8888", None, [], NAME),
        ("https://127.0.0.2:8888", None, [], "127.0.0.2"),
        ("https://127.0.0.2:8888", NAME, [NAME], ""),
        ("https://127.0.0.1:8888", NAME, ["other.svc"], NAME),
        (f"http://{NAME}:8888", None, [], ""),
    ],
)
def test_check_warns_of_a_certificate_that_kube_scheduler_will_refuse(
    tmp_path: Path, url: str, server_name: str | None, dns_names: list[str], refused: str
) -> None:
    authority = Authority(tmp_path, "ca")
    # The common name is right, and counts for nothing.
    pair = authority.sign(NAME, *dns_names)
    files = {"certFile": str(pair.cert_file), "keyFile": str(pair.key_file)}
    trusted = {"caFile": str(authority.file), "serverName": server_name}
    extender = {"urlPrefix": url, "tlsConfig": trusted}
    found = checked(tmp_path, {"server": {"tls": files}, "extender": extender})
    warned = [line for line in found.stderr.splitlines() if "certificate" in line]
    assert bool(warned) == bool(refused)
    for line in warned:
        assert f"kube-scheduler will refuse the certificate {pair.cert_file}" in line
        assert f"Put {refused} into its subjectAltName" in line


# The files of extender.tlsConfig, and what check says of them.
CLIENTS: dict[str, tuple[dict[str, str], Sentences]] = {
    "good": ({}, []),
    "elsewhere": ({"certFile": "/nowhere/crt", "keyFile": "/nowhere/key", "caFile": "/no/ca"}, []),
    "another's key": (
        {"keyFile": "server.key"},
        ["kube-scheduler cannot use extender.tlsConfig.certFile and keyFile"],
    ),
    "certificate and key in each other's place": (
        {"certFile": "client.key", "keyFile": "client.crt"},
        ["client.crt: [SSL] PEM lib"],
    ),
    "of another CA": (
        {"certFile": "unknown.crt", "keyFile": "unknown.key"},
        ["the server will refuse extender.tlsConfig.certFile"],
    ),
    "for servers": (
        {"certFile": "for-servers.crt", "keyFile": "for-servers.key"},
        ["unsuitable certificate purpose"],
    ),
    "expired": ({"certFile": "late.crt", "keyFile": "late.key"}, ["certificate has expired"]),
    "another CA": ({"caFile": "stranger.pem"}, ["has to hold the CA that signed the certificate"]),
    "no CA": ({"caFile": "client.key"}, ["kube-scheduler cannot use extender.tlsConfig.caFile"]),
    "all at once": (
        {"caFile": "stranger.pem", "keyFile": "server.key"},
        ["kube-scheduler cannot use", "kube-scheduler will refuse the certificate"],
    ),
}


@pytest.mark.parametrize(("files", "sentences"), CLIENTS.values(), ids=CLIENTS)
def test_check_warns_of_client_files_that_do_not_fit_the_server(
    tmp_path: Path, files: dict[str, str], sentences: Sentences
) -> None:
    sections = tls(tmp_path)
    authority, stranger = Authority(tmp_path, "ca-2"), Authority(tmp_path, "stranger")
    authority.sign("client", for_servers=False)
    authority.sign("for-servers", for_clients=False)
    authority.sign("late", lasts=timedelta(days=-1))
    stranger.sign("unknown")
    sections["server"]["tls"]["clientCAFile"] = str(authority.file)
    good = {"certFile": "client.crt", "keyFile": "client.key", "caFile": "ca.pem"}
    given = {name: str(tmp_path / file) for name, file in (good | files).items()}
    sections["extender"] = {"tlsConfig": given}
    found = checked(tmp_path, sections)
    warned = [line for line in found.stderr.splitlines() if "tlsConfig" in line]
    for line, sentence in zip(warned, sentences, strict=True):
        assert sentence in line


@pytest.mark.parametrize("url", [None, "https://127.0.0.1:8888"])
def test_check_notes_a_client_certificate_that_scheduler_config_will_ask_for(
    tmp_path: Path, url: str | None
) -> None:
    sections = tls(tmp_path)
    trusted = {"caFile": sections["server"]["tls"]["clientCAFile"]}
    sections["extender"] = {"urlPrefix": url, "tlsConfig": trusted}
    found = checked(tmp_path, sections)
    for field in ("certFile", "keyFile"):
        assert f"note: extender.tlsConfig.{field}: not set" in found.stdout


def test_check_runs_no_command_of_a_kubeconfig(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    program = {"command": "touch", "args": [str(ran)], "apiVersion": "v1", "env": None}
    users = [{"name": "u", "user": {"exec": program}}]
    checked(tmp_path, kubeconfig(tmp_path, {**KUBECONFIG, "users": users}))
    assert not ran.exists()


def test_check_says_all_of_it_at_once(tmp_path: Path) -> None:
    sections = tokens(tmp_path, "abc\n") | kubeconfig(tmp_path, "")
    sections["server"] |= tls(tmp_path, certFile="text")["server"]
    found = checked(tmp_path, sections, good=False)
    paths = [line.split(": ")[1] for line in found.stderr.splitlines() if line[:5] == "error"]
    assert paths == ["server.tls", "server.waitingPods.tokenFile", "cluster"]
