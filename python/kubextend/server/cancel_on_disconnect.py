"""Work that ends with the client that asked for it."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope

from kubextend.server.connection.asgi_extension import connection_of

__all__ = ["while_wanted"]

_T = TypeVar("_T")


async def while_wanted(work: Coroutine[Any, Any, _T], scope: Scope, receive: Receive) -> _T:
    """What the work returns; work that has not begun in a thread, or is held, ends with its client.

    kube-scheduler places a pod anew once a bind of it timed out: an old one that begins after that
    would take the pod to a node that is no longer meant. The work is done in the task of the
    request: a task for each pod that waits, and one that looks for its client, would cost 4 KB.

    Args:
        work: begins in this call.
        scope: of the request.
        receive: its body has been read to the end.

    Raises: ClientDisconnect: the client went away first.
    """
    wanted = _Wanted(asyncio.current_task())
    connection = connection_of(scope)
    watch = None
    if connection is None:
        watch = asyncio.ensure_future(_client_gone(receive))
        watch.add_done_callback(wanted.withdraw)
    else:
        connection.when_gone = wanted.withdraw
        # Of our own server nobody asks for them any more.
        scope["headers"] = ()
    try:
        return await work
    except asyncio.CancelledError:
        if wanted.withdrawn:
            raise ClientDisconnect from None
        raise
    finally:
        wanted.end()
        if watch is not None:
            watch.cancel()
        if connection is not None:
            connection.when_gone = None


class _Wanted:
    """Work in a task that is cancelled when its client goes away."""

    __slots__ = ("_task", "withdrawn")

    def __init__(self, task: asyncio.Task[Any] | None) -> None:
        self._task = task
        self.withdrawn = False

    def withdraw(self, watch: asyncio.Future[None] | None = None) -> None:
        """The client has gone, unless somebody only cancelled the one who looked."""
        if self._task is not None and not (watch and watch.cancelled()):
            self.withdrawn = self._task.cancel()

    def end(self) -> None:
        """The work has ended, by itself or not."""
        if self.withdrawn and self._task is not None:
            self._task.uncancel()
        self._task = None


async def _client_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
