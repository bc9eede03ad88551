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
    task, is_gone = asyncio.current_task(), False

    async def until_client_is_gone() -> None:
        nonlocal is_gone
        while (await receive())["type"] != "http.disconnect":
            pass
        if task is not None:
            is_gone = task.cancel()

    watching = asyncio.create_task(until_client_is_gone())
    try:
        return await work
    except asyncio.CancelledError:
        if is_gone:
            raise ClientDisconnect from None
        # The end of the server cancels too.
        raise
    finally:
        watching.cancel()
        if is_gone and task is not None:
            # So that the task can go on after the cancelled work.
            task.uncancel()
        # The watch refers to the task, and the task to this frame.
        task = None
