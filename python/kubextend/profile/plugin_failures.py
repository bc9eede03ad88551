"""Reports failing plugins: in metrics, in the log, and in a sentence for kube-scheduler.

The log has the frames of the plugin's own code once. Later failures of the same kind are counted.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from itertools import dropwhile
from pathlib import Path
from types import TracebackType
from typing import Final, TypeAlias

from kubextend.errors import PluginError
from kubextend.metrics import Family, Metrics
from kubextend.profile.run_in_progress import UncalledError

__all__ = ["PluginFailures", "sentence"]

_FAILURES: Final = Family(
    "kubextend_plugin_failures",
    "Calls of a plugin that raised or answered what it may not.",
    ("plugin", "extension_point"),
)
_CALLS_REFUSED: Final = Family(
    "kubextend_plugin_calls_refused",
    "Calls of a plugin that were not made, because its breaker was open.",
    ("plugin",),
)

_LOGGER = logging.getLogger(__name__)

_TOLD_AGAIN_S: Final = 60.0
_MOST_KINDS: Final = 256
_MOST_FRAMES: Final = 20
# Bundled plugins are plugins as others are.
_BUNDLED: Final = ("kubextend.plugins.", "kubextend.prometheus.")
_CALLERS: Final = ("kubextend", "asyncio", "concurrent")

_Kind: TypeAlias = tuple[str, str, str, str]
"""Plugin, extension point, type of the exception, and file and line where it was raised."""

_Told: TypeAlias = tuple[int, float]
"""How many failures of a kind there were, and when the log was told of one."""


class PluginFailures:
    """Counts the failures of plugins, and logs them without repeating itself. Any thread may call.

    The first failure of a kind is logged with the frames of the plugin's own code. Of further ones,
    whatever pods they are about, the log has a line a minute with the number so far.

    Args:
        metrics: where failures are counted.
        clock: returns the present time in monotonic seconds.
        on_failure: called with each error that counts.
    """

    def __init__(
        self,
        metrics: Metrics,
        clock: Callable[[], float] = time.monotonic,
        on_failure: Callable[[PluginError], object] = lambda _: None,
    ) -> None:
        self._metrics = metrics
        self._clock = clock
        self._on_failure = on_failure
        self._lock = threading.Lock()
        self._told: dict[_Kind, _Told] = {}

    def note(self, error: PluginError, consequence: str) -> None:
        """Count a plugin's failure, and log it with its consequence.

        A call that the plugin's open breaker refused has a metric of its own, and is logged at
        level DEBUG: the breaker has already logged that it opened, and why.
        """
        if isinstance(error, UncalledError):
            self._metrics.counter(_CALLS_REFUSED, error.plugin).inc()
            _LOGGER.debug("%s: %s", consequence, error)
            return
        self._metrics.counter(_FAILURES, error.plugin, error.extension_point).inc()
        self._on_failure(error)
        cause = error.__cause__ or error
        frames = _own_frames(cause)
        where = _place(frames[-1]) if frames else ""
        kind = (error.plugin, error.extension_point, type(cause).__name__, where)
        count = self._count(kind)
        if count == 1:
            raised = (type(cause), cause, _joined(frames)) if frames else None
            _LOGGER.error("%s: %s", consequence, error, exc_info=raised, extra=error.facts)
        elif count:
            text = f"%s: %s{where and f' ({where})'}; %d times so far"
            _LOGGER.error(text, consequence, error, count, extra=error.facts)

    def left_out(self, error: PluginError) -> None:
        """Report the failure of a plugin without which a request is still answered."""
        self.note(error, "left out")

    def _count(self, kind: _Kind) -> int:
        """Count a failure; return how many of its kind there were, or 0 if the log has enough."""
        now_s = self._clock()
        with self._lock:
            count, told_s = self._told.pop(kind, (0, float("-inf")))
            is_told = now_s - told_s >= _TOLD_AGAIN_S
            self._told[kind] = (count + 1, now_s if is_told else told_s)
            if len(self._told) > _MOST_KINDS:
                del self._told[next(iter(self._told))]
            return count + 1 if is_told else 0


def sentence(error: PluginError) -> str:
    """Return an error text that names the failed plugin, and no details that vary.

    A text that varies would change the pod's condition, and make kube-scheduler retry the pod.
    """
    return f'{error.extension_point} plugin "{error.plugin}" failed'


def _own_frames(error: BaseException) -> list[TracebackType]:
    """Return the innermost 20 frames of the plugin's code that an error came through, in order.

    The list is empty if the plugin raised nothing, and its answer was wrong.
    """
    frames = []
    at = error.__traceback__
    while at is not None:
        frames.append(at)
        at = at.tb_next
    inner = dropwhile(lambda frame: _package(frame) in _CALLERS, frames)
    return [frame for frame in inner if _package(frame) != "kubextend"][-_MOST_FRAMES:]


def _joined(frames: Sequence[TracebackType]) -> TracebackType | None:
    joined = None
    for frame in reversed(frames):
        joined = TracebackType(joined, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return joined


def _package(frame: TracebackType) -> str:
    module: str = frame.tb_frame.f_globals.get("__name__", "")
    return module if module.startswith(_BUNDLED) else module.partition(".")[0]


def _place(frame: TracebackType) -> str:
    return f"{Path(frame.tb_frame.f_code.co_filename).name}:{frame.tb_lineno}"
