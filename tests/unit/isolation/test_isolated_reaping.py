"""A process that was killed and takes its time to end."""

import time
from pathlib import Path

import pytest
from isolation_world import Zones, isolated, pid_of

from kubextend.profile.isolation import process

PATIENT_S = 60


def test_a_killed_process_that_ends_late_leaves_the_process_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process, "_REAP_TIMEOUT_S", 0.0)
    with isolated(Zones) as plugin:
        entry = Path("/proc", str(pid_of(plugin)))
        assert entry.exists()
    deadline_s = time.monotonic() + PATIENT_S
    while entry.exists():
        assert time.monotonic() < deadline_s
        time.sleep(0.005)
