"""Ends each Cluster and Wire that a test leaves behind, so that none outlives its test."""

import weakref
from collections.abc import Iterator
from contextlib import contextmanager

from tests.doors.wire import Wire

from kubextend import testing


@contextmanager
def ended() -> Iterator[None]:
    """End what is made inside of this block.

    A Cluster or a Wire ends when it is collected. That is never where a plugin of a test knows it,
    and a task of its loop, which waits for its end, knows the plugin.
    """
    earlier = {*weakref.finalize._registry}
    yield
    for each in {*weakref.finalize._registry} - earlier:
        made = each.peek()
        if made is not None and isinstance(made[0], testing.Cluster | Wire):
            each()
