from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from kubextend.cluster.activator import patch
from kubextend.cluster.write_queue import TokenBucket


def test_a_bucket_gives_its_burst_at_once_and_then_its_rate() -> None:
    now = 0.0
    bucket = TokenBucket(20.0, 3, lambda: now)
    assert [bucket.take() for _ in range(4)] == [0.0, 0.0, 0.0, pytest.approx(0.05)]
    now = 0.05
    assert bucket.take() == pytest.approx(0.0)
    assert bucket.take() == pytest.approx(0.05)
    now = 1000.0
    assert [bucket.take() for _ in range(4)] == [0.0, 0.0, 0.0, pytest.approx(0.05)]


def test_a_patch_names_the_uid_and_differs_by_its_generation() -> None:
    now = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=timezone(timedelta(hours=2)))
    made = patch("uid-1", 7, now)
    assert made == {
        "metadata": {"uid": "uid-1"},
        "status": {
            "conditions": [
                {
                    "type": "kubextend.dev/Activated",
                    "status": "True",
                    "reason": "NodesChanged",
                    "message": "nodes changed and may fit now (7)",
                    "lastTransitionTime": "2026-01-02T01:04:05Z",
                }
            ]
        },
    }
    assert patch("uid-1", 8, now) != made
    assert patch("uid-1", 7, now.astimezone(UTC)) == made
