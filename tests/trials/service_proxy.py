"""Stands in for a Service and its kube-proxy: passes connections on to what the Service selects."""

import asyncio
import contextlib
import random
import threading
from typing import Self

LOOK_S = 0.02
CHUNK_BYTES = 1 << 16


class ServiceProxy:
    """Passes each connection on to one of the targets, which a subclass finds.

    A connection stays with the target that it was opened to, as with kube-proxy.

    Args:
        port: the loopback port to listen on.
    """

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self._port = port
        self._targets: list[int] = []
        self._loop = asyncio.new_event_loop()
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=run, name="service", daemon=True)
            for run in (self._serve, self._look)
        ]

    def targets(self) -> list[int]:
        """Return the loopback ports that new connections may go to; called again and again."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        listening = asyncio.start_server(self._pass_through, "127.0.0.1", self._port)
        self._server = self._loop.run_until_complete(listening)
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._loop.call_soon_threadsafe(self._loop.stop)
        for thread in self._threads:
            thread.join()

    def _look(self) -> None:
        while not self._ended.wait(LOOK_S):
            self._targets = self.targets()

    def _serve(self) -> None:
        self._loop.run_forever()
        self._server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0.1))
        self._loop.close()

    async def _pass_through(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(OSError, asyncio.CancelledError), contextlib.closing(writer):
            if not (targets := self._targets):
                return
            onward, out = await asyncio.open_connection("127.0.0.1", random.choice(targets))
            with contextlib.closing(out):
                await asyncio.wait(
                    [
                        asyncio.ensure_future(_copy(reader, out)),
                        asyncio.ensure_future(_copy(onward, writer)),
                    ]
                )


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError), contextlib.closing(writer):
        while data := await reader.read(CHUNK_BYTES):
            writer.write(data)
            await writer.drain()
