from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from kubextend.cluster.pod_conditions import Condition, patch
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


def test_a_patch_names_the_uid_and_the_time_in_utc() -> None:
    now = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=timezone(timedelta(hours=2)))
    condition = Condition("kubextend.dev/Activated", "True", "NodesChanged", "may fit now")
    made = patch("uid-1", condition, now)
    assert made == {
        "metadata": {"uid": "uid-1"},
        "status": {
            "conditions": [
                {
                    "type": "kubextend.dev/Activated",
                    "status": "True",
                    "reason": "NodesChanged",
                    "message": "may fit now",
                    "lastTransitionTime": "2026-01-02T01:04:05Z",
                }
            ]
        },
    }
    assert patch("uid-1", condition, now.astimezone(UTC)) == made
