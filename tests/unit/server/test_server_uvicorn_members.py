"""What the server uses of uvicorn: a version that has it no longer is noticed here.

Nothing else of uvicorn is used, and nothing private.
"""

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn
from uvicorn.lifespan.on import LifespanOn
from uvicorn.server import Server, ServerState

import kubextend.server

SOURCES = sorted(Path(kubextend.server.__file__).parent.rglob("*.py"))
SERVER_MEMBERS = {
    "capture_signals": [],
    "serve": ["sockets"],
    "shutdown": ["sockets"],
    "startup": ["sockets"],
}
SERVER_ATTRIBUTES = {"config", "force_exit", "lifespan", "server_state", "should_exit"}
STATE_ATTRIBUTES = {"connections", "default_headers", "tasks"}


async def nothing(_scope: object, _receive: object, _send: object) -> None:
    """An application that is never called."""


def imported(tree: ast.AST) -> Iterator[str]:
    """Every name of uvicorn's that a module imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("uvicorn"))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("uvicorn"):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_only_the_server_and_its_state_are_imported() -> None:
    used = {name for path in SOURCES for name in imported(ast.parse(path.read_text()))}
    assert used == {"uvicorn", "uvicorn.server.ServerState"}


@pytest.mark.parametrize(("name", "parameters"), SERVER_MEMBERS.items())
def test_the_server_has_the_methods_that_are_called_or_overridden(
    name: str, parameters: list[str]
) -> None:
    assert list(inspect.signature(getattr(Server, name)).parameters) == ["self", *parameters]


def test_the_methods_that_are_overridden_are_three_and_public() -> None:
    (ours,) = (kind for kind in Server.__subclasses__() if kind.__module__.startswith("kubextend"))
    theirs = {name for kind in Server.__mro__ for name in vars(kind)} - {"__init__", "__doc__"}
    overridden = {name for name in vars(ours) if name in theirs and not name.startswith("__")}
    assert overridden == {"capture_signals", "shutdown", "startup"}


def test_a_server_and_its_state_have_the_attributes_that_are_used() -> None:
    server = Server(uvicorn.Config(nothing))
    assert vars(server.server_state).keys() >= STATE_ATTRIBUTES
    assert vars(ServerState()).keys() >= STATE_ATTRIBUTES
    # The lifespan is made when the server starts.
    assert vars(server).keys() >= SERVER_ATTRIBUTES - {"lifespan"}
    assert "self.lifespan = " in inspect.getsource(Server._serve)
    assert {"startup", "shutdown"} <= vars(LifespanOn).keys()


def test_the_factory_of_connections_is_given_the_state_by_name() -> None:
    assert "server_state=self.server_state" in inspect.getsource(Server.startup)
    assert "connection.shutdown()" in inspect.getsource(Server.shutdown)
