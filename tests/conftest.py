"""How long an example takes is nobody's business: another process may have the processor.

``--hypothesis-profile=nightly`` tries a thousand times as many examples.
"""

import logging
import threading
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

settings.register_profile("untimed", UNTIMED)
settings.register_profile("nightly", UNTIMED, max_examples=100_000)
settings.load_profile("untimed")


@pytest.fixture
def caplog(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """Leave out the failures of plugins that earlier tests gave up.

    The thread of such a plugin ends when it likes, and then says in the log how it failed.
    """
    earlier = {*threading.enumerate()} - {threading.main_thread()}

    def is_of_this_test(record: logging.LogRecord) -> bool:
        late = threading.current_thread() in earlier
        return not (late and record.name == "kubextend.verbs.failures")

    caplog.handler.addFilter(is_of_this_test)
    yield caplog
    caplog.handler.removeFilter(is_of_this_test)
