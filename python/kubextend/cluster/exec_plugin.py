"""Runs the exec plugin of a kubeconfig's user, which prints credentials.

The official Python client runs the plugin, as client-go does. By itself that client only logs that
a plugin failed, in the plugin's own words, and goes on without credentials. Here a failure is an
error without what may be a secret, and credentials say when to renew them.
"""

from __future__ import annotations

import re
from base64 import b64encode
from datetime import UTC, datetime
from math import inf
from typing import TYPE_CHECKING, Any

from kubernetes.config import ConfigException
from kubernetes.config.exec_provider import ExecProvider
from kubernetes.config.kube_config import ConfigNode

from kubextend.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

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

    Raises: ClusterError: the plugin failed, or printed no credentials.
    """
    try:
        nodes = ConfigNode("exec", section), str(folder), ConfigNode("cluster", cluster)  # type: ignore[no-untyped-call]
        return _user(ExecProvider(*nodes).run())  # type: ignore[no-untyped-call]
    except OSError as error:
        why = f"cannot be run: {error.strerror}"
    except ConfigException as error:
        why = str(error)
    except (ValueError, TypeError, KeyError, AttributeError):
        why = "it printed no ExecCredential with a token, or a certificate and key"
    message = f"exec plugin {section['command']}: {without_secrets(why)}"
    raise ClusterError(message)


def _user(status: Mapping[str, Any]) -> tuple[dict[str, Any], float]:
    """Return the user of a kubeconfig with the credentials of an ExecCredential, and for how long.

    Raises: ValueError, TypeError, KeyError, AttributeError: it is no such ExecCredential.
    """
    user = {"token": status["token"]} if status.get("token") else {}
    if certificate := status.get("clientCertificateData"):
        user["client-certificate-data"] = b64encode(certificate.encode()).decode()
        user["client-key-data"] = b64encode(status["clientKeyData"].encode()).decode()
    if not user:
        raise ValueError(status)
    until = status.get("expirationTimestamp")
    if until is None:
        return user, inf
    left = datetime.fromisoformat(until) - datetime.now(UTC)
    return user, left.total_seconds() * RENEWED_AT
