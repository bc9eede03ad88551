"""A way to kube-apiserver that takes its time, as a large list or a busy network does."""

import asyncio
import contextlib
import threading
from typing import Self

CHUNK_BYTES = 1 << 20


class SlowDoor:
    """Listens on a loopback port and passes bytes on.

    Args:
        port: where it listens.
        target_port: where kube-apiserver does.
        opening_s: how long a new connection waits.
        lag_s: how long what kube-apiserver says is on the way.
    """

    def __init__(
        self, port: int, target_port: int, *, opening_s: float = 0.0, lag_s: float = 0.0
    ) -> None:
        self.url = f"https://127.0.0.1:{port}"
        self._port = port
        self._target_port = target_port
        self._opening_s = opening_s
        self._lag_s = lag_s
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
                await asyncio.gather(_copy(reader, out, 0.0), _copy(onward, writer, self._lag_s))
            finally:
                out.close()
        writer.close()


async def _end(connections: set["asyncio.Task[None]"]) -> None:
    for connection in connections:
        connection.cancel()
    await asyncio.gather(*connections, return_exceptions=True)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, lag_s: float) -> None:
    while data := await reader.read(CHUNK_BYTES):
        await asyncio.sleep(lag_s)
        writer.write(data)
        await writer.drain()
    writer.close()
