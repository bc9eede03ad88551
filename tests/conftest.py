"""Settings of all tests: Hypothesis has no deadline for an example, since the machine may be busy.

``--hypothesis-profile=nightly`` tries a thousand times as many examples, ``check`` a tenth.
``--rewrite-golden`` writes what the tests got to the files of tests/golden, so that ``git diff``
shows what has changed.
"""

import logging
import threading
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

# Before kubextend, whose functions take ``time.monotonic`` as a default.
import tests.doors.clocks  # noqa: F401
from hypothesis import HealthCheck, settings
from tests.doors import log_lines
from tests.doors.ended import ended

TESTS = Path(__file__).parent
# Their tests start processes and servers, or ask for thousands of recorded answers.
SLOW = frozenset({"contract", "e2e"})
UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

settings.register_profile("untimed", UNTIMED)
settings.register_profile("check", UNTIMED, max_examples=10)
settings.register_profile("nightly", UNTIMED, max_examples=100_000)
settings.load_profile("untimed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow whatever is in a folder of slow tests."""
    for item in items:
        if item.path.is_relative_to(TESTS) and item.path.relative_to(TESTS).parts[0] in SLOW:
            item.add_marker("slow")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite-golden", action="store_true", help="rewrite tests/golden")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a text with a file of tests/golden, or rewrite the file."""

    def compare(name: str, text: str) -> None:
        file = TESTS / "golden" / name
        if request.config.getoption("--rewrite-golden"):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        assert text == file.read_text(), f"{file}: if that is right, pytest --rewrite-golden"

    return compare


@pytest.fixture
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in a folder of the test, on a machine without a kubeconfig."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "absent"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Escape what is no UTF-8 in the lines of a test: pytest-xdist sends them between processes."""
    report = yield
    report.sections = [
        (name, text.encode(errors="backslashreplace").decode()) for name, text in report.sections
    ]
    return report


@pytest.fixture(autouse=True)
def nothing_outlives_a_test() -> Iterator[None]:
    with ended():
        yield


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
    with log_lines.unbounded():
        yield caplog
    caplog.handler.removeFilter(is_of_this_test)
