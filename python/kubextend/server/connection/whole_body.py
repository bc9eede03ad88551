"""One body, read by the transport straight into its buffer; knows nothing of HTTP."""

import asyncio
from collections.abc import Callable

from starlette.requests import ClientDisconnect

__all__ = ["WholeBody"]


class WholeBody(asyncio.BufferedProtocol):
    """Stands in for another protocol until a buffer is full.

    Args:
        protocol: told of all that is not about reading.
        buffer: to be filled; never is more read than fits.
        received: bytes of it that were filled before.
        on_whole: called when the buffer is full, before anything else is read.
    """

    def __init__(
        self,
        protocol: asyncio.Protocol,
        buffer: memoryview,
        received: int,
        on_whole: Callable[[], None],
    ) -> None:
        self.received = received
        self._protocol = protocol
        self._rest = buffer[received:]
        self._on_whole = on_whole
        self._whole: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    async def wait(self) -> None:
        """The buffer is full.

        Raises: ClientDisconnect: the client went away before.
        """
        try:
            whole = await self._whole
        finally:
            self._rest.release()
        if not whole:
            # Made here: one that the future kept would keep the buffer too, by its traceback.
            raise ClientDisconnect

    def get_buffer(self, sizehint: int) -> memoryview:
        """What is still to be filled."""
        del sizehint
        return self._rest

    def buffer_updated(self, nbytes: int) -> None:
        """So much more has come."""
        self.received += nbytes
        self._rest = self._rest[nbytes:]
        if not self._rest:
            self._on_whole()
            self._settle(whole=True)

    def eof_received(self) -> None:
        """The client sends no more, so the body will never be whole; the transport closes."""

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        self._settle(whole=False)
        self._protocol.connection_lost(exc)

    def pause_writing(self) -> None:
        """The client does not read."""
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        """It does again."""
        self._protocol.resume_writing()

    def _settle(self, *, whole: bool) -> None:
        if not self._whole.done():
            self._whole.set_result(whole)
