"""What is wrong with a configuration is told with path, sentence, value and hint."""

from tests.doors.command_line import Golden, cases, checked, transcript


def test_check_tells_every_mistake_with_its_path_value_and_hint(golden: Golden) -> None:
    told = {name: checked(case) for name, case in cases("config/refusals.yaml").items()}
    assert {name: result.stdout for name, result in told.items() if result.exit_code != 1} == {}
    golden("config/refusals.txt", transcript({name: each.stderr for name, each in told.items()}))
