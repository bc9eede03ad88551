"""The lint of doors sees each way behind a door, and no way through one."""

import pytest
from tests.doors_only import faults

APP = "from kubextend import app\n"
CLUSTER = "from kubextend import cluster\n"
DOOR = "from tests.doors.wire_building import app\n"
SHIFTS = "import pytest\nwith pytest.MonkeyPatch.context() as m:\n    "


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("import kubextend.cluster.outbox", "imports kubextend.cluster.outbox"),
        ("from kubextend.cluster import outbox", "imports outbox of kubextend.cluster"),
        (f"{CLUSTER}cluster.outbox.TokenBucket", "reads outbox of kubextend.cluster"),
        (
            "import kubextend.cluster as c\nc.outbox.TokenBucket",
            "reads outbox of kubextend.cluster",
        ),
        ("import_module('kubextend.app.inner')", "imports kubextend.app.inner"),
        ("importlib.import_module(f'kubextend.{name}')", "imports kubextend."),
        ("wire.verbs._inner", "reads the private attribute _inner"),
        ("getattr(wire, '_inner')", "reads the private attribute _inner"),
        ("setattr(wire, '_inner', 1)", "reads the private attribute _inner"),
        ("vars(wire)['_inner'] = 1", "reads the private attribute _inner"),
        ("wire.__dict__['_inner'] = 1", "reads the private attribute _inner"),
        (f"{APP}app.build = None", "changes kubextend.app"),
        (f"{APP}app.App.asgi = None", "changes kubextend.app.App"),
        (f"{APP}setattr(app, name, None)", "changes kubextend.app"),
        (f"{DOOR}app.Metrics = None", "changes tests.doors.wire_building.app"),
        ("from unittest.mock import patch as p", "imports patch of unittest.mock"),
        ("from unittest import mock", "imports mock of unittest"),
        ("import unittest.mock as m", "imports unittest.mock"),
        ("monkeypatch.setattr(app, 'Metrics', None)", "patches by setattr"),
        (f"{SHIFTS}m.setattr(app, 'Metrics', None)", "patches by setattr"),
    ],
)
def test_each_way_behind_a_door_is_seen(source: str, said: str) -> None:
    assert [what for _, what in faults(source)] == [said]


@pytest.mark.parametrize(
    "source",
    [
        "from kubextend.cluster import connect\nconnect.__doc__",
        f"{CLUSTER}cluster.connect",
        "import kubextend.core\nkubextend.core.Pod",
        "class Own:\n    def method(self):\n        self._inner = 1",
        "getattr(wire, 'nodes')\nvars(record)['plugin']",
        "monkeypatch.chdir(folder)",
    ],
)
def test_a_way_through_a_door_is_free(source: str) -> None:
    assert [*faults(source)] == []
