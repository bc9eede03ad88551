"""The TLS handshakes under way, where more connections come than there are places."""

import asyncio
import errno
import socket
import ssl
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from kubextend.server.connection import handshakes
from kubextend.server.connection.handshakes import Handshakes

if TYPE_CHECKING:
    from kubextend.server.connection.tls import TlsReloader


class Accepted(asyncio.Transport):
    """What an event loop makes of an accepted connection; its client never says anything."""

    def __init__(self) -> None:
        super().__init__()
        self.client, self._socket = socket.socketpair()
        self.client.setblocking(False)
        self._socket.setblocking(False)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._socket if name == "socket" else default

    def abort(self) -> None:
        self._socket.close()


class World:
    def __init__(self, most: int) -> None:
        self.ended = 0
        tls = SimpleNamespace(context=ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        self._handshakes = Handshakes(
            cast("TlsReloader", tls), 600.0, on_full=self._count, most=most
        )

    def accept(self) -> Accepted:
        accepted = Accepted()
        self._handshakes.before(asyncio.Protocol).connection_made(accepted)
        return accepted

    def _count(self) -> None:
        self.ended += 1

    @property
    def under_way(self) -> list[asyncio.Task[None]]:
        return [*self._handshakes._under_way]


async def is_over(accepted: Accepted) -> bool:
    """Return whether the server closes the connection, once all that is due has been done."""
    for _ in range(20):
        await asyncio.sleep(0)
    try:
        return accepted.client.recv(1) == b""
    except BlockingIOError:
        return False


def test_of_many_clients_that_come_at_once_each_takes_the_place_of_another() -> None:
    async def scenario() -> None:
        world = World(2)
        accepted = [world.accept() for _ in range(2)]
        await asyncio.sleep(0)
        # Both come before the event loop has ended a handshake.
        accepted += [world.accept() for _ in range(2)]
        assert (world.ended, len(world.under_way)) == (2, 2)
        assert [await is_over(each) for each in accepted] == [True, True, False, False]
        for task in world.under_way:
            task.cancel()
        assert [await is_over(each) for each in accepted] == [True] * 4
        for each in accepted:
            each.client.close()

    asyncio.run(scenario())


def test_a_connection_ends_where_no_descriptor_is_left_for_its_handshake(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def none_left(*_: object) -> socket.socket:
        raise OSError(errno.EMFILE, "Too many open files")

    async def scenario() -> None:
        world = World(2)
        with monkeypatch.context() as patched:
            patched.setattr(handshakes.socket, "fromfd", none_left)
            refused = world.accept()
        assert world.under_way == []
        assert await is_over(refused)
        # The next finds a descriptor.
        served = world.accept()
        assert not await is_over(served)
        world.under_way[0].cancel()
        assert await is_over(served)
        for each in (refused, served):
            each.client.close()

    asyncio.run(scenario())
