"""Credentials of a pod, for tests of how kubextend finds and renews them."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING
from unittest import mock

from kubernetes.config import incluster_config

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def service_account(folder: Path, token: str = "mounted\n") -> Iterator[Path]:
    """Mount a service account, as in a pod, until the block ends; yield the file of the token."""
    (folder / "ca.crt").write_text("a certificate")
    (folder / "token").write_text(token)
    api = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    with (
        mock.patch.object(incluster_config, "SERVICE_TOKEN_FILENAME", str(folder / "token")),
        mock.patch.object(incluster_config, "SERVICE_CERT_FILENAME", str(folder / "ca.crt")),
        mock.patch.dict(os.environ, api),
    ):
        yield folder / "token"


@contextmanager
def no_temporary_folder() -> Iterator[None]:
    """Let nobody make a temporary file until the block ends."""
    error = FileNotFoundError("[Errno 2] No usable temporary directory found in ['/tmp']")
    with mock.patch("tempfile.mkstemp", side_effect=error):
        yield
