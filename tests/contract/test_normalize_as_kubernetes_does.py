"""Scores are normalised as Kubernetes' DefaultNormalizeScore does it; its answers are recorded."""

import json
from array import array
from pathlib import Path
from typing import Any

import pytest

from kubextend import core, testing
from kubextend.errors import PluginError

RECORDED = Path(__file__).parent.parent / "data" / "oracle" / "normalize_scores.jsonl"
CASES = [json.loads(line) for line in RECORDED.read_text().splitlines()]
MAX_NODE_SCORE = 100


class Normalizes:
    """A score plugin that gives each node its number and leaves the rest to the core."""

    name = "Normalizes"

    def __init__(self, case: dict[str, Any]) -> None:
        self._case = case

    def score(self, _state: Any, _pod: Any, node: core.NodeInfo) -> int:
        return self._case["scores"][int(node.name)]

    def normalize_score(self, _state: Any, _pod: Any, scores: Any) -> Any:
        return core.normalize(scores, reverse=self._case["reverse"])


def answered(case: dict[str, Any]) -> list[int]:
    nodes: dict[str, dict[str, str]] = {str(row): {} for row in range(len(case["scores"]))}
    return [*testing.run_score(Normalizes(case), testing.make_pod(), nodes).values()]


def in_range(case: dict[str, Any]) -> bool:
    return all(0 <= score <= MAX_NODE_SCORE for score in case["normalized"])


def test_numbers_are_those_of_kubernetes_as_a_list_and_as_a_buffer() -> None:
    assert len(CASES) > 1000
    for case in CASES:
        options = (case["maximum"], case["reverse"])
        assert core.normalize(case["scores"], *options) == case["normalized"], case
        buffer = core.normalize(array("q", case["scores"]), *options)
        assert buffer.tolist() == case["normalized"], case


def test_what_a_profile_answers_is_what_kubernetes_would_have_summed() -> None:
    of_100 = [each for each in CASES if each["maximum"] == MAX_NODE_SCORE and each["scores"]]
    asked = [case for case in of_100 if in_range(case)]
    assert len(asked) > 500
    for case in asked:
        assert answered(case) == case["normalized"], case


@pytest.mark.parametrize("reverse", [False, True])
def test_numbers_that_kubernetes_leaves_out_of_range_are_refused(reverse: bool) -> None:
    case = next(each for each in CASES if each["reverse"] is reverse and not in_range(each))
    with pytest.raises(PluginError, match=r"score -?\d+ is outside \[0, 100\]"):
        answered(case)
