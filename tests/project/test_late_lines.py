"""No test reads in its log what a thread of an earlier test says."""

import logging
import threading
from collections.abc import Callable

import pytest

_FAILURES = logging.getLogger("kubextend.profile.plugin_failures")


def _said_on_a_thread(line: str) -> Callable[[], None]:
    """Start a thread that logs the line when the returned function is called."""
    go = threading.Event()

    def say() -> None:
        go.wait()
        _FAILURES.error(line)

    thread = threading.Thread(target=say, daemon=True)
    thread.start()

    def now() -> None:
        go.set()
        thread.join()

    return now


@pytest.fixture
def earlier() -> Callable[[], None]:
    return _said_on_a_thread("of an earlier test")


def test_a_plugin_that_an_earlier_test_gave_up_is_not_in_the_log(
    earlier: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    earlier()
    _said_on_a_thread("of this test")()
    _FAILURES.error("of this thread")
    assert caplog.messages == ["of this test", "of this thread"]
