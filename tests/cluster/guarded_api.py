"""An API that wants credentials, kubeconfigs for it, and the commands that fail with them."""

from pathlib import Path
from typing import Any, Final

import yaml
from tests.doors.command_line import Result, run
from tests.doors.configurations import HEAD, write_kubeconfig
from tests.doors.kube_api import Request, ScriptedApi, refusing
from tests.e2e.exec_plugin import SECRET

ANONYMOUS: Final = 'nodes is forbidden: User "system:anonymous" cannot list resource "nodes"'
COMMANDS: Final = ("serve", "queue", "admission", "ungate", "why", "doctor")


class Guarded(ScriptedApi):
    """A scripted API that knows tokens; with the token None, it answers callers without any.

    As kube-apiserver, it answers a wrong token with 401, and a call without credentials with a 403
    that names system:anonymous.
    """

    def __init__(self, folder: Path, **more: Any) -> None:
        super().__init__(**more)
        self.file = folder / "kube.config"
        self.tokens: set[str | None] = {"good"}
        self.anonymous_calls = 0
        self.always = self._check

    def _check(self, request: Request) -> bool:
        is_anonymous = "Authorization" not in request.headers
        self.anonymous_calls += is_anonymous
        if (None if is_anonymous else request.client) in self.tokens:
            return False
        if is_anonymous:
            return refusing(403, "Forbidden", ANONYMOUS)(request)
        return refusing(401, "Unauthorized")(request)

    def kubeconfig(self, user: Any, **more: Any) -> Path:
        """Write the kubeconfig of the user ``me``; None: of no user."""
        return write_kubeconfig(self.file, self.url, user, **more)


def configuration(file: Path, **server: Any) -> Path:
    """Write a configuration with the queue and the verb bind into the folder of a kubeconfig."""
    enabled = {"enabled": [{"name": "HighCommPodFilter"}, {"name": "PrioritySort"}]}
    sections = {
        "server": server,
        "extender": {"nodeCacheCapable": True, "bind": True},
        "cluster": {"kubeconfig": str(file)},
        "profiles": [{"schedulerName": "default-scheduler", "plugins": {"multiPoint": enabled}}],
    }
    config = file.with_name("kubextend.yaml")
    config.write_text(yaml.safe_dump(HEAD | sections))
    return config


def ungate(file: Path) -> Result:
    return run("ungate", "--dry-run", "--kubeconfig", file)


def said_by(name: str, file: Path) -> str:
    """Run a command that cannot use a kubeconfig, and return what it says: a line, or a report."""
    words = {"admission": ["admission", "--diff"], "why": ["why", "web"]}.get(name, [name])
    done = ungate(file) if name == "ungate" else run(*words, "--config", configuration(file))
    assert isinstance(done.exception, SystemExit), done.exception
    assert SECRET not in done.output
    if name not in {"why", "doctor"}:
        assert_one_sentence(done)
    return done.output


def assert_one_sentence(done: Result, *said: str) -> str:
    """Assert that a command failed with one line, which says all this; return the line."""
    assert isinstance(done.exception, SystemExit), done.exception
    assert done.exit_code == 1
    line, end = done.output.split("\n", 1)
    assert end == ""
    assert all(text in line for text in said), line
    assert SECRET not in line
    return line
