"""A TCP proxy in front of kube-apiserver that a test can block, as a busy network does."""

import asyncio
import contextlib
import threading
from typing import Self

CHUNK_BYTES = 1 << 20

_Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Door:
    """A TCP proxy on a loopback port that passes bytes to and from kube-apiserver.

    While the proxy is shut, bytes from kube-apiserver wait in the proxy; with ``both_ways``, those
    to it as well. Only bytes that wait when their sender resets the connection are lost.
    """

    def __init__(self, port: int, target_port: int, *, both_ways: bool = False) -> None:
        self.url = f"https://127.0.0.1:{port}"
        self._port = port
        self._target_port = target_port
        self._both_ways = both_ways
        self._loop = asyncio.new_event_loop()
        self._is_open = asyncio.Event()
        self._is_open.set()
        self._thread = threading.Thread(target=self._run, name="door", daemon=True)

    def shut(self) -> None:
        self._turn(is_open=False)

    def open(self) -> None:
        self._turn(is_open=True)

    def __enter__(self) -> Self:
        listening = asyncio.start_server(
            self._pass_through, "127.0.0.1", self._port, limit=CHUNK_BYTES
        )
        self._server = self._loop.run_until_complete(listening)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _turn(self, *, is_open: bool) -> None:
        """Open or shut the proxy, and return when that is done."""

        async def turn() -> None:
            (self._is_open.set if is_open else self._is_open.clear)()

        asyncio.run_coroutine_threadsafe(turn(), self._loop).result()

    def _run(self) -> None:
        self._loop.run_forever()
        self._server.close()
        self._loop.run_until_complete(_end(asyncio.all_tasks(self._loop)))
        self._loop.close()

    async def _pass_through(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
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


async def _end(connections: set["asyncio.Task[None]"]) -> None:
    for connection in connections:
        connection.cancel()
    await asyncio.gather(*connections, return_exceptions=True)


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
