"""Runs the exec plugin of a kubeconfig's user, which prints credentials.

The official Python client waits for a plugin without a limit, and goes on without credentials if
the plugin fails. Here a plugin cannot ask anybody at a terminal.

Source: client-go v0.36 plugin/pkg/client/auth/exec/exec.go
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from base64 import b64encode
from datetime import UTC, datetime
from math import inf
from typing import TYPE_CHECKING, Any

import orjson

from kubextend.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

TIMEOUT_S = 10.0
RENEWED_AT = 0.8
"""The part of their life after which credentials are renewed, as the kubelet renews tokens."""
MOST_CHARS = 200
_SECRET = re.compile(
    r"""(?ix)
      (?<=://)[^/@\s]+(?=@)
    | (?:bearer\s+|(?:token|secret|passw\w*|key|assertion)["']?\s*[=:]\s*["']?)[^\s"',;&]+
    | (?=[\w+/=-]*\d)[\w+=-]{24,}
    """
)
"""What may be a secret: the user in a URL, a value with such a name, a long word with a digit."""


def without_secrets(text: str) -> str:
    """Return at most 200 characters of a text as one line, with ``***`` for likely secrets."""
    return _SECRET.sub("***", " ".join(text.split()))[:MOST_CHARS]


def issued_user(
    section: Mapping[str, Any], cluster: Mapping[str, Any], folder: Path
) -> tuple[dict[str, Any], float]:
    """Run an exec plugin, and return the user of a kubeconfig with what it printed. Blocks.

    Args:
        section: the section ``exec`` of the kubeconfig's user.
        cluster: the section ``cluster`` of the context, for a plugin that asks for it.
        folder: the folder of the kubeconfig, in which the plugin runs.

    Returns: the user, and the seconds after which its credentials should be renewed.

    Raises: ClusterError: the plugin failed, hung, or printed no credentials.
    """
    version = section["apiVersion"]
    printed, complaint, why = _run(section, _info(section, cluster), folder)
    if not why:
        try:
            return _user(orjson.loads(printed), version)
        except (ValueError, TypeError, KeyError, AttributeError):
            why = f"printed no ExecCredential of {version} with a token, or a certificate and key"
    last = complaint.decode(errors="replace").strip().rpartition("\n")[2]
    said = f": {without_secrets(last)}" if last else ""
    message = f"exec plugin {section['command']} {why}{said}"
    raise ClusterError(message)


def _run(section: Mapping[str, Any], info: bytes, folder: Path) -> tuple[bytes, bytes, str]:
    """Run an exec plugin; return what it printed to stdout and to stderr, and how it failed."""
    given = {each["name"]: each["value"] for each in section.get("env") or ()}
    try:
        process = subprocess.Popen(  # noqa: S603  the kubeconfig names the command
            [section["command"], *(section.get("args") or ())],
            cwd=folder,
            env={**os.environ, **given, "KUBERNETES_EXEC_INFO": info.decode()},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        return b"", b"", f"cannot be run: {error.strerror}"
    try:
        printed, complaint = process.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        # With its children, such as the sleep of a shell script.
        os.killpg(process.pid, signal.SIGKILL)
        return *process.communicate(), f"did not end within {TIMEOUT_S:.0f} s"
    why = f"ended with status {process.returncode}" if process.returncode else ""
    return printed, complaint, why


def _info(section: Mapping[str, Any], cluster: Mapping[str, Any]) -> bytes:
    """Return what client-go tells a plugin: the API's version, and the cluster if it asks."""
    spec: dict[str, Any] = {"interactive": False}
    if section.get("provideClusterInfo"):
        extensions = {each["name"]: each["extension"] for each in cluster.get("extensions") or ()}
        config = extensions.get("client.authentication.k8s.io/exec")
        spec["cluster"] = {**cluster, "config": config}
    info = {"kind": "ExecCredential", "apiVersion": section["apiVersion"], "spec": spec}
    return orjson.dumps(info)


def _user(credential: Mapping[str, Any], version: str) -> tuple[dict[str, Any], float]:
    """Return the user of a kubeconfig with the credentials of an ExecCredential, and for how long.

    Raises: ValueError, TypeError, KeyError, AttributeError: it is no such ExecCredential.
    """
    status = credential["status"]
    user = {"token": status["token"]} if status.get("token") else {}
    if certificate := status.get("clientCertificateData"):
        user["client-certificate-data"] = b64encode(certificate.encode()).decode()
        user["client-key-data"] = b64encode(status["clientKeyData"].encode()).decode()
    if credential["apiVersion"] != version or not user:
        raise ValueError(version)
    until = status.get("expirationTimestamp")
    if until is None:
        return user, inf
    left = datetime.fromisoformat(until) - datetime.now(UTC)
    return user, left.total_seconds() * RENEWED_AT
