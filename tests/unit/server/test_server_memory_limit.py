"""What the container says of its memory, and what is said where requests may hold more."""

from pathlib import Path

import pytest

from kubextend import app
from kubextend.server.memory_limit import memory_limit_bytes

MIB = 1 << 20


@pytest.mark.parametrize(
    ("file", "text", "limit"),
    [
        ("memory.max", "536870912\n", 512 * MIB),
        ("memory.max", "max\n", None),
        ("memory/memory.limit_in_bytes", "536870912\n", 512 * MIB),
        ("memory/memory.limit_in_bytes", "9223372036854771712\n", None),
        ("other", "1\n", None),
    ],
)
def test_the_limit_is_that_of_the_cgroup(
    file: str, text: str, limit: int | None, tmp_path: Path
) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(text)
    assert memory_limit_bytes(tmp_path) == limit


@pytest.mark.parametrize(
    ("limit", "held", "warned"),
    [
        (None, 1024 * MIB, False),
        (512 * MIB, 1024 * MIB, True),
        (512 * MIB, 257 * MIB, True),
        (512 * MIB, 256 * MIB, False),
    ],
)
def test_requests_that_may_hold_more_than_half_of_the_memory_are_warned_of(
    limit: int | None, held: int, warned: bool
) -> None:
    warning = app.memory_warning(held, limit)
    assert bool(warning) is warned
    if limit is not None and warned:
        assert warning == (
            f"server.maxInFlightBytes is {held}, more than half of the {limit} bytes of memory "
            "that this container may use: requests in flight can end it. Set it to at most "
            f"{limit // 2}, or raise the container's limit"
        )
