"""The short forms of trials that need no control plane."""

from typing import Any

import pytest
from tests.trials.__main__ import main
from tests.trials.harness import Report, trial
from tests.trials.hostile import hostile
from tests.trials.hostile_memory import hostile_memory
from tests.trials.leader_changes import Changes
from tests.trials.replicas import KILLED


def test_odd_conversations_are_answered_in_turn_and_keep_nothing() -> None:
    report = hostile.report("--short")
    assert report.wrong == []
    assert report.figures["conversations"] > 120


def test_no_attack_takes_more_memory_than_is_configured_nor_keeps_it() -> None:
    report = hostile_memory.report("--short")
    assert report.wrong == []
    assert report.figures["attacks"] > 10


class Stuck:
    """Replicas whose leader cannot be changed."""

    def change(self, kind: str) -> list[str]:
        message = f"{kind} is not over within 300 s"
        raise TimeoutError(message)

    def is_steady(self) -> bool:
        return True


def test_a_change_of_the_leader_that_raises_is_wrong() -> None:
    class Plane:
        api = None

    plane: Any = Plane()
    changes = Changes(plane, Stuck(), 1, Report())
    changes.change(KILLED)
    assert changes.report.wrong == [f"{KILLED}: TimeoutError: {KILLED} is not over within 300 s"]


@trial(words=("a", "b"), few=("a",), things=(1000, 10), seed=0)
def counts_things(options: Any, report: Report) -> None:
    """Counts things.

    Too many are wrong.
    """
    report.tell(things=options.things, parts=len(options.words))
    report.judge(options.things <= 100, f"{options.things} things")


@pytest.mark.parametrize(
    ("words", "things", "parts"),
    [
        ([], 1000, 2),
        (["--short"], 10, 1),
        (["--short", "--things=7", "b", "b"], 7, 2),
    ],
)
def test_an_option_has_its_own_value_or_that_of_the_form(
    words: list[str], things: int, parts: int
) -> None:
    report = counts_things.report(*words)
    assert report.figures == {"things": things, "parts": parts}


def test_a_part_that_there_is_not_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        counts_things.report("d")
    assert "d: choose from a, b" in capsys.readouterr().err


def test_the_last_line_has_the_figures_and_the_exit_code_says_whether_all_is_well(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert counts_things.report("--short", "--seed=12").end("counts-things") == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "seed 12"
    assert said[-1] == '{"things": 10.0, "parts": 1.0}'
    assert counts_things.report().end("counts-things") == 1
    assert "WRONG 1000 things" in capsys.readouterr().out


def test_without_a_name_every_trial_is_listed_with_a_sentence(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([]) == 0
    assert "counts-things           Counts things.\n" in capsys.readouterr().out
    assert main(["nothing"]) == 2
