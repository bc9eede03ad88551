"""An exec plugin of a kubeconfig's user that does what a test says."""

import json
from pathlib import Path

from .kubeapi import Object

VERSION = "client.authentication.k8s.io/v1"
SECRET = "hunter2-is-no-good-password"


class ExecPlugin:
    """A shell script that runs what a file holds, and that counts its runs."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.command = folder / "login"
        self.command.write_text('#!/bin/sh\ncd "$(dirname "$0")"\necho >> runs\n. ./does\n')
        self.command.chmod(0o755)

    @property
    def user(self) -> Object:
        """The user of a kubeconfig."""
        command = str(self.command)
        return {"exec": {"apiVersion": VERSION, "command": command, "interactiveMode": "Never"}}

    @property
    def runs(self) -> int:
        file = self.folder / "runs"
        return len(file.read_text()) if file.exists() else 0

    def does(self, what: str) -> None:
        """Run this shell text from now on."""
        new = self.folder / "new"
        new.write_text(what)
        new.rename(self.folder / "does")

    def fails(self) -> None:
        """Fail from now on, as if the identity provider were down."""
        self.does(f"echo 'the identity provider is down; token={SECRET}' >&2; exit 1")

    def gives(self, token: str, lasts_s: float | None = None) -> None:
        """Give a token from now on, that ends these seconds after each run; None: it has no end."""
        self.does(printing(token=token, lasts_s=lasts_s))


def printing(token: str, lasts_s: float | None) -> str:
    """Return the shell text that prints an ExecCredential with a token."""
    status = {"token": token}
    if lasts_s is not None:
        status["expirationTimestamp"] = "$ends"
    credential = {"apiVersion": VERSION, "kind": "ExecCredential", "status": status}
    ends = f"ends=$(date -u -d '{lasts_s} seconds' +%Y-%m-%dT%H:%M:%SZ)\n" if lasts_s else ""
    return f"{ends}cat <<END\n{json.dumps(credential)}\nEND\n"
