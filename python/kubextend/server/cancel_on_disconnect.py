"""Work that ends with the client that asked for it."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect
from starlette.types import Receive

__all__ = ["cancel_on_disconnect"]

_T = TypeVar("_T")


async def cancel_on_disconnect(work: Coroutine[Any, Any, _T], receive: Receive) -> _T:
    """Return what the work returns; cancel the work if the client goes away before.

    kube-scheduler places a pod anew once a bind of the pod timed out. An old bind that begins after
    that would take the pod to a node that is no longer meant.

    Args:
        work: runs in this task. Work that a thread has begun may go on and return its outcome.
        receive: of the request, whose body has been read.

    Raises: ClientDisconnect: the client went away before the work returned.
    """
    watch = _Watch(asyncio.current_task())
    watching = asyncio.create_task(watch.until_client_is_gone(receive))
    try:
        return await work
    except asyncio.CancelledError:
        if watch.has_cancelled:
            raise ClientDisconnect from None
        # The end of the server cancels too.
        raise
    finally:
        watching.cancel()
        watch.end()


class _Watch:
    """Cancels a task when a client goes away.

    Args:
        task: works for the client.

    Attributes:
        has_cancelled: whether the client went away.
    """

    def __init__(self, task: asyncio.Task[Any] | None) -> None:
        self._task = task
        self.has_cancelled = False

    async def until_client_is_gone(self, receive: Receive) -> None:
        """Wait until the client is gone, and cancel the task."""
        while (await receive())["type"] != "http.disconnect":
            pass
        if self._task is not None:
            self.has_cancelled = self._task.cancel()

    def end(self) -> None:
        """Take the cancellation back: what comes after the work is not cancelled."""
        if self.has_cancelled and self._task is not None:
            self._task.uncancel()
        self._task = None
