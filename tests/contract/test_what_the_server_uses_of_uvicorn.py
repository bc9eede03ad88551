"""What ``kubextend.server`` uses of uvicorn beyond its documentation, and must still find there.

pyproject.toml bounds uvicorn's version from above. This test says at once what a newer one changed.
"""

import inspect
import tomllib
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import Server, ServerState

OVERRIDDEN = {
    "connection_made": ["transport"],
    "connection_lost": ["exc"],
    "data_received": ["data"],
    "on_message_begin": [],
    "on_header": ["name", "value"],
    "on_headers_complete": [],
    "on_body": ["body"],
    "on_message_complete": [],
    "on_response_complete": [],
    "pause_writing": [],
    "resume_writing": [],
    "shutdown": [],
    "timeout_keep_alive_handler": [],
}
READ = {
    "connections": set,
    "cycle": type(None),
    "flow": type(None),
    "parser": object,
    "scope": type(None),
    "timeout_keep_alive": int,
    "timeout_keep_alive_task": type(None),
    "transport": type(None),
}


async def _app(_scope: Any, _receive: Any, _send: Any) -> None:
    raise NotImplementedError


def parameters(function: Any) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name != "self"]


@pytest.fixture
def config() -> uvicorn.Config:
    made = uvicorn.Config(_app, lifespan="off", log_config=None)
    made.load()
    return made


def test_uvicorn_has_an_upper_bound() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    (uvicorns,) = [each for each in project["dependencies"] if each.startswith("uvicorn")]
    assert ",<" in uvicorns


@pytest.mark.parametrize("method", OVERRIDDEN)
def test_a_method_that_is_overridden_is_there_with_its_arguments(method: str) -> None:
    assert parameters(getattr(HttpToolsProtocol, method)) == OVERRIDDEN[method]


def test_a_connection_is_made_by_name_and_has_what_is_read(config: uvicorn.Config) -> None:
    assert parameters(HttpToolsProtocol) == ["config", "server_state", "app_state", "_loop"]
    assert parameters(HttpToolsProtocol.send_400_response) == ["msg"]

    class Loop:
        """In place of an event loop, which a connection only keeps."""

    made: Any = HttpToolsProtocol(config, ServerState(), {}, Loop())  # type: ignore[arg-type]
    for name, kind in READ.items():
        assert isinstance(getattr(made, name), kind), name
    assert isinstance(made.loop, Loop)


def test_a_request_has_what_is_read_and_set() -> None:
    source = inspect.getsource(RequestResponseCycle)
    for name in (
        "body",
        "disconnected",
        "keep_alive",
        "more_body",
        "response_complete",
        "scope",
        "waiting_for_100_continue",
    ):
        assert f"self.{name} = " in source, name
    assert {"pause_reading", "resume_reading"} <= set(vars(FlowControl))


def test_the_end_of_a_body_is_told_by_the_parsers_callback_alone() -> None:
    """A body that is read past the parser ends with the same call."""
    source = inspect.getsource(HttpToolsProtocol.on_message_complete)
    assert "self.cycle.more_body = False" in source
    assert "self.cycle.message_event.set()" in source


def test_a_server_starts_ends_and_is_forced_to_end_by_what_is_set(config: uvicorn.Config) -> None:
    server: Any = Server(config)
    state = (server.started, server.should_exit, server.force_exit)
    assert state == (False, False, False)
    assert (server.server_state.connections, server.server_state.tasks) == (set(), set())
    assert parameters(Server.serve) == parameters(Server.shutdown) == ["sockets"]
    assert inspect.isgeneratorfunction(inspect.unwrap(Server.capture_signals))
    # What our own end of a forced exit makes up for.
    source = inspect.getsource(Server.shutdown)
    assert "if not self.force_exit:\n            await self.lifespan.shutdown()" in source
