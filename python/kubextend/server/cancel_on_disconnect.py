"""Cancels the work for an HTTP request when the client disconnects."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect
from starlette.types import Receive

__all__ = ["cancel_on_disconnect"]

_T = TypeVar("_T")


async def cancel_on_disconnect(work: Coroutine[Any, Any, _T], receive: Receive) -> _T:
    """Run ``work`` and return its result; cancel ``work`` if the client disconnects before.

    kube-scheduler disconnects when a bind request times out, and then may place the pod on another
    node. If the old bind began after that, the pod would go to the old node.

    Args:
        work: runs in the current task. Work that has begun on a thread may go on and return its
            result.
        receive: the ASGI ``receive`` of the request, whose body has been read.

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
    """Cancels a task when the client of its request disconnects.

    Args:
        task: the task that works for the client.

    Attributes:
        has_cancelled: whether the client disconnected and the task was cancelled.
    """

    def __init__(self, task: asyncio.Task[Any] | None) -> None:
        self._task = task
        self.has_cancelled = False

    async def until_client_is_gone(self, receive: Receive) -> None:
        """Wait until the ASGI ``receive`` reports that the client is gone, and cancel the task."""
        while (await receive())["type"] != "http.disconnect":
            pass
        if self._task is not None:
            self.has_cancelled = self._task.cancel()

    def end(self) -> None:
        """Undo the task's cancellation, so that the task can go on after the cancelled work."""
        if self.has_cancelled and self._task is not None:
            self._task.uncancel()
        self._task = None
