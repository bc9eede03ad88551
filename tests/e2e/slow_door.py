"""A way to kube-apiserver that takes its time, as a large list or a busy network does."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Self

CHUNK_BYTES = 1 << 20
CHUNKS_ON_THE_WAY = 256
# An answer of kube-apiserver comes within this, even on a busy machine; a label that a test sets
# comes later than this after the watch was opened.
ASKED_WITHIN_S = 1.0

_Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class SlowDoor:
    """Listens on a loopback port and passes bytes on.

    Args:
        port: where it listens.
        target_port: where kube-apiserver does.
        opening_s: how long a new connection waits.
        lag_s: how long what kube-apiserver says is on the way.
        unasked_only: only what comes on a connection that has been silent for a while is late: the
            events of a watch, but no handshake and no answer.
    """

    def __init__(
        self,
        port: int,
        target_port: int,
        *,
        opening_s: float = 0.0,
        lag_s: float = 0.0,
        unasked_only: bool = False,
    ) -> None:
        self.url = f"https://127.0.0.1:{port}"
        self._port = port
        self._target_port = target_port
        self._opening_s = opening_s
        self._lag_s = lag_s
        self._asked_within_s = ASKED_WITHIN_S if unasked_only else 0.0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="slow-door", daemon=True)

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

    def _run(self) -> None:
        self._loop.run_forever()
        self._server.close()
        self._loop.run_until_complete(_end(asyncio.all_tasks(self._loop)))
        self._loop.close()

    async def _pass_through(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(OSError, asyncio.CancelledError):
            await asyncio.sleep(self._opening_s)
            onward, out = await asyncio.open_connection(
                "127.0.0.1", self._target_port, limit=CHUNK_BYTES
            )
            try:
                await self._pass_both_ways((reader, writer), (onward, out))
            finally:
                out.close()
        writer.close()

    async def _pass_both_ways(self, near: _Stream, far: _Stream) -> None:
        now = self._loop.time
        asked_s = now()

        def lag_of_question() -> float:
            nonlocal asked_s
            asked_s = now()
            return 0.0

        def lag_of_answer() -> float:
            return 0.0 if now() - asked_s < self._asked_within_s else self._lag_s

        await asyncio.gather(
            _pass_on(near[0], far[1], lag_of_question), _pass_on(far[0], near[1], lag_of_answer)
        )


async def _end(connections: set["asyncio.Task[None]"]) -> None:
    for connection in connections:
        connection.cancel()
    await asyncio.gather(*connections, return_exceptions=True)


async def _pass_on(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, lag_s: Callable[[], float]
) -> None:
    """Each chunk leaves so long after it came, in order, however many are on the way."""
    on_the_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(CHUNKS_ON_THE_WAY)
    leaving = asyncio.create_task(_leave(on_the_way, writer))
    try:
        while data := await reader.read(CHUNK_BYTES):
            await on_the_way.put((asyncio.get_running_loop().time() + lag_s(), data))
        await on_the_way.put((0.0, b""))
        await leaving
    finally:
        leaving.cancel()


async def _leave(
    on_the_way: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter
) -> None:
    with contextlib.closing(writer):
        while True:
            due_s, data = await on_the_way.get()
            if not data:
                return
            await asyncio.sleep(max(0.0, due_s - asyncio.get_running_loop().time()))
            writer.write(data)
            await writer.drain()
