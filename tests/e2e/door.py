"""A TCP proxy in front of kube-apiserver that a test can block, as a busy network does."""

import asyncio
import contextlib
import threading
from abc import ABC, abstractmethod
from typing import Any, Self

CHUNK_BYTES = 1 << 20

_Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Listener(ABC):
    """A server on a loopback port, with ``how`` for asyncio, in a thread of its own."""

    def __init__(self, port: int, **how: Any) -> None:
        self._port, self._how = port, how
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        listening = asyncio.start_server(self.serve, "127.0.0.1", self._port, **self._how)
        self._server = self._loop.run_until_complete(listening)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def do(self, what: Any) -> None:
        """Run a coroutine in the thread of the server, to its end."""
        asyncio.run_coroutine_threadsafe(what, self._loop).result()

    async def _end(self) -> None:
        self._server.close()
        connections = asyncio.all_tasks() - {asyncio.current_task()}
        for each in connections:
            each.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    @abstractmethod
    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""


class Door(Listener):
    """A TCP proxy on a loopback port that passes bytes to and from kube-apiserver.

    While the proxy is shut, bytes from kube-apiserver wait in the proxy; with ``both_ways``, those
    to it as well. Only bytes that wait when their sender resets the connection are lost.
    """

    def __init__(self, port: int, target_port: int, *, both_ways: bool = False) -> None:
        super().__init__(port, limit=CHUNK_BYTES)
        self.url = f"https://127.0.0.1:{port}"
        self._target_port = target_port
        self._both_ways = both_ways
        self._is_open = asyncio.Event()
        self._is_open.set()

    def shut(self) -> None:
        self.do(self._turn(is_open=False))

    def open(self) -> None:
        self.do(self._turn(is_open=True))

    async def _turn(self, *, is_open: bool) -> None:
        (self._is_open.set if is_open else self._is_open.clear)()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.CancelledError):
            onward, out = await asyncio.open_connection(
                "127.0.0.1", self._target_port, limit=CHUNK_BYTES
            )
            try:
                await self._pass_both_ways((reader, writer), (onward, out))
            finally:
                out.close()
        writer.close()

    async def _pass_both_ways(self, near: _Stream, far: _Stream) -> None:
        always = asyncio.Event()
        always.set()
        requests = self._is_open if self._both_ways else always
        await asyncio.gather(
            _pass_on(near[0], far[1], requests), _pass_on(far[0], near[1], self._is_open)
        )


async def _pass_on(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, may_pass: asyncio.Event
) -> None:
    with contextlib.closing(writer):
        while data := await reader.read(CHUNK_BYTES):
            await may_pass.wait()
            if isinstance(reader.exception(), ConnectionResetError):
                return
            writer.write(data)
            await writer.drain()
