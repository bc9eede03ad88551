"""What a right configuration comes to: verbs, URL, plugins in their order, leader, queue, notes."""

import pytest
from tests.doors.command_line import ROOT, Golden, cases, checked, other_lines, said, transcript


def test_check_tells_what_a_right_configuration_comes_to(
    golden: Golden, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    told = {name: checked(case) for name, case in cases("config/accepted.yaml").items()}
    assert {name: said(each) for name, each in told.items() if each.exit_code} == {}
    default, with_cluster = (said(told.pop(name)) for name in ("the default", "with a cluster"))
    others = {name: other_lines(default + with_cluster, said(each)) for name, each in told.items()}
    first = {"the default": default, "with a cluster": other_lines(default, with_cluster)}
    golden("config/accepted.txt", transcript(first | others))
