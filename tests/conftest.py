"""Settings of all tests: Hypothesis has no deadline for an example, since the machine may be busy.

``--hypothesis-profile=nightly`` tries a thousand times as many examples.
"""

import logging
import threading
from collections.abc import Iterator

import pytest

# Before kubextend, whose functions take ``time.monotonic`` as a default.
import tests.doors.clocks  # noqa: F401
from hypothesis import HealthCheck, settings

UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

settings.register_profile("untimed", UNTIMED)
settings.register_profile("nightly", UNTIMED, max_examples=100_000)
settings.load_profile("untimed")


@pytest.fixture
def caplog(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """Leave log lines of threads that earlier tests abandoned out of this test's ``caplog``.

    The thread of an abandoned plugin call ends at some later time, and then logs the failure.
    """
    earlier = {*threading.enumerate()} - {threading.main_thread()}

    def is_of_this_test(record: logging.LogRecord) -> bool:
        late = threading.current_thread() in earlier
        return not (late and record.name.startswith("kubextend.profile.plugin_failures"))

    caplog.handler.addFilter(is_of_this_test)
    yield caplog
    caplog.handler.removeFilter(is_of_this_test)
