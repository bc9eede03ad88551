from collections.abc import Iterator

import pytest
from tests.doors.wire import Hang


@pytest.fixture
def hang() -> Iterator[Hang]:
    """A method of a plugin that hangs until the test ends."""
    made = Hang()
    yield made
    made.over.set()
