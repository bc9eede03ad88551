"""Keeps one child process of a plugin running, and admits one call at a time to it."""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Final, TypeVar

from kubextend.profile.isolation.process import Child, ChildError
from kubextend.profile.plugin_calls import current_run

__all__ = ["Supervisor"]

_LOGGER = logging.getLogger(__name__)
_T = TypeVar("_T")

# The end of a child that lived this long says nothing about the next child.
_LONG_LIFE_S: Final = 60.0
_LONGEST_PAUSE_S: Final = 30.0


@dataclass(slots=True, eq=False)
class _Call:
    """A call that waits for the child process, or that the child works on.

    Attributes:
        given_up: whether the caller no longer waits for the call.
    """

    given_up: bool = False


class Supervisor:
    """Keeps one child process of a plugin running, and starts another when a child ends.

    The constructor starts the first child. If children end within 60 s again and again, the next
    one starts after a pause that doubles from 1 s to 30 s, and calls during the pause raise
    ChildError. Without a pause, calls wait for the next child.

    Args:
        plugin: the name of the plugin in the child.
        start: starts a child.
        clock: returns the present time in monotonic seconds.

    Raises: ChildError: the first child does not start.
    """

    def __init__(
        self, plugin: str, start: Callable[[], Child], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._plugin = plugin
        self._start = start
        self._clock = clock
        self._changed = threading.Condition()
        self._current: _Call | None = None
        self._at_work = False
        self._starting = False
        self._short_lives = 0
        self._stopped = threading.Event()
        self._child: Child | None = start()
        self._born_s = clock()

    def ask(self, ask: Callable[[Child], _T]) -> _T:
        """Wait for the child to be free, call ``ask`` with the child, and return the result.

        Blocks. If the current run is abandoned, the call ends: the child is killed if it works on
        this call.

        Args:
            ask: sends messages to the child, and returns its reply.

        Raises: ChildError: the child ended meanwhile, or there is no child.
        """
        call = _Call()
        run = current_run()
        with run.ended_by(lambda: self._give_up(call)) if run else nullcontext():
            child = self._turn_of(call)
            try:
                return ask(child)
            except BaseException as error:
                # After a message that was not sent or not understood, the child's state is unknown.
                self._lose(child)
                how = child.dispose()
                if isinstance(error, OSError | EOFError):
                    raise ChildError(how) from error
                raise
            finally:
                self._end_turn()

    def begin_work(self) -> None:
        """Call the plugin's ``start`` in the present child, and in each later child.

        Raises: ChildError: ``start`` failed in the present child.
        """
        self._at_work = True
        if failure := self.ask(Child.begin_work):
            # Raised outside of the call: a plugin that cannot start may still answer.
            raise ChildError(failure.text) from failure.cause

    def stop(self) -> None:
        """End the child process, and start no other. An idle child calls the plugin's ``stop``."""
        with self._changed:
            self._stopped.set()
            child, self._child = self._child, None
            busy = self._current is not None
            self._changed.notify_all()
        if child is None:
            return
        if busy:
            child.kill()
        else:
            child.stop()

    def _give_up(self, call: _Call) -> None:
        with self._changed:
            call.given_up = True
            if self._current is call and self._child is not None:
                self._child.kill()
            self._changed.notify_all()

    def _turn_of(self, call: _Call) -> Child:
        with self._changed:
            self._changed.wait_for(lambda: self._settled(call))
            if call.given_up:
                message = "it is busy with another call"
                raise ChildError(message)
            if self._child is None:
                message = "its process has ended, and is not started again yet"
                raise ChildError(message)
            self._current = call
            return self._child

    def _settled(self, call: _Call) -> bool:
        """Return whether a call stops waiting: the child is free, or none is starting.

        A call that was given up, and every call after ``stop``, stops waiting too.
        """
        if call.given_up or self._stopped.is_set():
            return True
        if self._child is None:
            return not self._starting
        return self._current is None

    def _end_turn(self) -> None:
        with self._changed:
            self._current = None
            self._changed.notify_all()

    def _lose(self, child: Child) -> None:
        child.kill()
        with self._changed:
            if self._child is not child:
                return
            self._child = None
            short = self._clock() - self._born_s < _LONG_LIFE_S
            self._short_lives = self._short_lives + 1 if short else 1
            self._starting = self._short_lives <= 1
        name = "kubextend-restart"
        threading.Thread(target=self._start_again, name=name, daemon=True).start()

    def _start_again(self) -> None:
        while not self._stopped.wait(self._pause_s()):
            with self._changed:
                self._starting = True
            try:
                child = self._started()
            except Exception:
                if self._stopped.is_set():
                    return
                _LOGGER.exception('the process of plugin "%s" does not start', self._plugin)
                with self._changed:
                    self._starting = False
                    self._short_lives += 1
                    self._changed.notify_all()
                continue
            _LOGGER.warning('plugin "%s" is in a new process', self._plugin)
            self._take(child)
            return

    def _started(self) -> Child:
        child = self._start()
        if not self._at_work:
            return child
        try:
            failure = child.begin_work()
        except BaseException:
            child.dispose()
            raise
        if failure is not None:
            text = 'plugin "%s" does not begin its work: %s'
            _LOGGER.error(text, self._plugin, failure.text, exc_info=failure.cause)
        return child

    def _take(self, child: Child) -> None:
        with self._changed:
            self._starting = False
            self._born_s = self._clock()
            if self._stopped.is_set():
                child.kill()
            else:
                self._child = child
            self._changed.notify_all()

    def _pause_s(self) -> float:
        """Return the seconds before the next child is started.

        0 after a child that ran for 60 s or more, and after the first short-lived one; then 1, 2, 4
        and so on, up to 30.
        """
        if self._short_lives <= 1:
            return 0.0
        return min(2.0 ** (self._short_lives - 2), _LONGEST_PAUSE_S)
