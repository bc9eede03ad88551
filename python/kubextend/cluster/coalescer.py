"""Tells someone that something changed, once for any number of changes; never on the watch."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)

INTERVAL_S = 0.02
JOIN_S = 2.0


class Coalescer:
    """Calls ``tell`` on a thread of its own soon after ``notify``.

    Notices that arrive while a call runs, or within 20 ms of it, share the next one; none is
    lost.
    """

    def __init__(self, tell: Callable[[], object], name: str) -> None:
        self._tell = tell
        self._noticed = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin to call."""
        self._thread.start()

    def notify(self) -> None:
        """``tell`` will be called after this moment. Never waits."""
        self._noticed.set()

    def stop(self) -> None:
        """No call begins after this."""
        self._stopped.set()
        self._noticed.set()
        if self._thread.is_alive():
            self._thread.join(JOIN_S)

    def _run(self) -> None:
        while True:
            self._noticed.wait()
            if self._stopped.is_set():
                return
            self._noticed.clear()
            try:
                self._tell()
            except Exception:
                log.exception("what was told of a change failed")
            self._stopped.wait(INTERVAL_S)
