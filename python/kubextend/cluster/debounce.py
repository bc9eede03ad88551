"""Merges many notices of change into few calls of a callback, on a thread of its own."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)

INTERVAL_S = 0.02
JOIN_S = 2.0


class Debounce:
    """Calls the callback ``tell`` on a thread of its own soon after each ``notify``.

    All calls of ``notify`` that come while ``tell`` runs, or within 20 ms after ``tell`` returned,
    share the next call of ``tell``.

    Args:
        tell: the callback; an exception is logged.
        name: the name of the thread.
    """

    def __init__(self, tell: Callable[[], object], name: str) -> None:
        self._tell = tell
        self._noticed = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def is_stopped(self) -> bool:
        """Whether a call of the callback ``tell`` had better end."""
        return self._stopped.is_set()

    def start(self) -> None:
        """Start the thread that calls the callback ``tell``, once."""
        if self._thread.ident is None:
            self._thread.start()

    def notify(self) -> None:
        """Make sure that a call of the callback ``tell`` begins after this moment. Never waits."""
        self._noticed.set()

    def stop(self) -> None:
        """End the thread that calls ``tell``; wait up to 2 s if a call of ``tell`` is running.

        No further call of ``tell``, the callback, begins.
        """
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
                log.exception("the callback for a change failed")
            self._stopped.wait(INTERVAL_S)
