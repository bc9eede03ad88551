"""The application in the hands of others: their server, their middleware, their paths."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from live_server import PATIENT_S, Bindings, NeedsRdma, node, request, some_verbs
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kubextend.framework.status import Status
from kubextend.profile import BindingPlugins, Profile, Profiles
from kubextend.server import Health, application
from kubextend.verbs import Verbs
from make_verbs import make_verbs


class Holds:
    """Holds every pod, and keeps a diary."""

    name = "Holds"

    def __init__(self) -> None:
        self.diary: list[str] = []

    async def reserve(self, *_: object) -> None:
        self.diary.append("reserve")

    async def unreserve(self, *_: object) -> None:
        self.diary.append("unreserve")

    async def permit(self, *_: object) -> tuple[Status, float]:
        return Status.wait(), 60


class Client:
    """One ASGI request by hand, of a server that tells no more than ASGI asks for."""

    def __init__(self, app: ASGIApp, path: str, body: bytes) -> None:
        self._app = app
        self._received: asyncio.Queue[Message] = asyncio.Queue()
        self._received.put_nowait({"type": "http.request", "body": body, "more_body": False})
        self.sent: list[Message] = []
        headers = [(b"content-type", b"application/json")]
        self._scope: Scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": headers,
        }

    async def __call__(self) -> None:
        await self._app(self._scope, self._received.get, self._send)

    def goes_away(self) -> None:
        self._received.put_nowait({"type": "http.disconnect"})

    async def _send(self, message: Message) -> None:
        self.sent.append(message)


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENT_S):
        while not holds():  # noqa: ASYNC110  nobody is told
            await asyncio.sleep(0.005)


def holding() -> tuple[Verbs, Holds, Bindings]:
    plugin, bindings = Holds(), Bindings()
    profile = Profile(
        "default-scheduler",
        filter=[NeedsRdma()],
        binding=BindingPlugins(reserve=[plugin], permit=[plugin]),
    )
    verbs = make_verbs(Profiles.of([profile]), binder=bindings)
    verbs.filter(request("filter"))
    return verbs, plugin, bindings


def test_a_bind_that_waits_ends_with_its_client_on_any_server() -> None:
    verbs, plugin, bindings = holding()

    async def scenario() -> list[Message]:
        client = Client(application(verbs, Health()), "/bind", request("bind"))
        call = asyncio.create_task(client())
        await until(lambda: len(verbs.waiting_pods))
        client.goes_away()
        await asyncio.wait_for(call, PATIENT_S)
        return client.sent

    assert asyncio.run(scenario()) == []
    assert plugin.diary == ["reserve", "unreserve"]
    assert len(verbs.waiting_pods) == 0
    assert bindings.made == []


def test_a_bind_that_waits_when_the_server_ends_is_told_so() -> None:
    verbs, plugin, _ = holding()

    async def scenario() -> list[Message]:
        client = Client(application(verbs, Health()), "/bind", request("bind"))
        call = asyncio.create_task(client())
        await until(lambda: len(verbs.waiting_pods))
        call.cancel()
        await asyncio.wait_for(call, PATIENT_S)
        return client.sent

    start, body = asyncio.run(scenario())
    assert start["status"] == 503
    assert json.loads(body["body"]) == {"Error": "kubextend is shutting down"}
    assert plugin.diary == ["reserve", "unreserve"]


def test_a_bind_that_waited_is_answered_on_any_server() -> None:
    verbs, plugin, bindings = holding()

    async def scenario() -> bytes:
        client = Client(application(verbs, Health()), "/bind", request("bind"))
        call = asyncio.create_task(client())
        await until(lambda: len(verbs.waiting_pods))
        for held in verbs.waiting_pods:
            held.allow("Holds")
        await asyncio.wait_for(call, PATIENT_S)
        # Nothing of the call is left that would still look for its client.
        assert asyncio.all_tasks() == {asyncio.current_task()}
        body: bytes = client.sent[1]["body"]
        return body

    assert asyncio.run(scenario()) == b'{"Error":""}'
    assert plugin.diary == ["reserve"]
    assert len(bindings.made) == 1


async def posted(app: ASGIApp, path: str) -> httpx.Response:
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        headers = {"content-type": "application/json"}
        return await client.post(path, content=request("filter"), headers=headers)


class Stamp:
    """Middleware that marks every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def stamped(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"stamp", b"1")]
            await send(message)

        await self._app(scope, receive, stamped)


def test_middleware_that_was_added_sees_the_verbs() -> None:
    app = application(some_verbs(), Health())
    assert "stamp" not in asyncio.run(posted(app, "/filter")).headers
    app = application(some_verbs(), Health())
    app.add_middleware(Stamp)
    answer = asyncio.run(posted(app, "/filter"))
    assert (answer.status_code, answer.headers["stamp"]) == (200, "1")


@pytest.mark.parametrize("path", ["/", "/v1"])
def test_mounted_below_a_path_the_verbs_are_there(path: str) -> None:
    outer = Starlette(routes=[Mount("/below", application(some_verbs(), Health(), path=path))])
    answer = asyncio.run(posted(outer, f"/below{path.rstrip('/')}/filter"))
    assert answer.status_code == 200
    kept = json.loads(answer.content)["Nodes"]["items"]
    assert [item["metadata"]["name"] for item in kept] == [node("good")["metadata"]["name"]]
    assert asyncio.run(posted(outer, f"{path.rstrip('/')}/filter")).status_code == 404
