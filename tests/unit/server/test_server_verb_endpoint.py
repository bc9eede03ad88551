"""A request on its way through the endpoint of its verb."""

from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from connection_world import connected, on_turned_clock, post, says

from kubextend.metrics import Metrics
from kubextend.profile import Profiles
from kubextend.server.connection.body_reader import BodyReader
from kubextend.server.connection.bytes_in_flight import BytesInFlight
from kubextend.server.verb_endpoint import VerbEndpoint
from make_verbs import make_verbs

BINDING = b'{"PodName": "p", "PodNamespace": "ml", "PodUID": "u", "Node": "n"}'


class Told(bytes):
    """Bytes that tell when nobody holds them any more."""

    held: ClassVar[int] = 0

    def __init__(self, _body: bytes) -> None:
        Told.held += 1

    def __del__(self) -> None:
        Told.held -= 1


class Api:
    """Looks which bodies are held while it is asked to bind."""

    def __init__(self) -> None:
        self.held: list[int] = []

    def bind(self, *_: str, **__: object) -> None:
        self.held.append(Told.held)


def test_nothing_holds_the_body_of_a_bind_that_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api()

    async def in_thread(write: Callable[[], None]) -> None:
        write()

    verbs = make_verbs(Profiles({}), binder=api, in_thread=in_thread)
    read = BodyReader.read

    async def told(*args: Any) -> Told:
        return Told(await read(*args))

    monkeypatch.setattr(BodyReader, "read", told)
    in_flight = BytesInFlight(1000)
    endpoint = VerbEndpoint(verbs.bind, Metrics(), BodyReader(1000), in_flight)

    async def scenario() -> None:
        wire = connected(endpoint)
        head = post("/bind", len(BINDING))
        kind = b"Content-Type: application/json\r\n\r\n"
        await wire.send(head[:-2] + kind + BINDING)
        assert wire.received.endswith(says(b'{"Error":""}'))

    on_turned_clock(scenario())
    assert api.held == [0]
