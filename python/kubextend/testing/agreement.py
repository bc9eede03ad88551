"""Compares the answers of two plugins, such as a per-node form and a vectorised one."""

from collections.abc import Mapping, Sequence
from typing import Any

from kubextend.testing.cases import Case, generated_cases
from kubextend.testing.one_plugin import made, run_filter, run_score

__all__ = ["assert_same_answers"]


def assert_same_answers(
    one: Any,
    other: Any,
    *,
    cases: int = 1000,
    args: Mapping[str, Any] | None = None,
    labels: Mapping[str, Sequence[str]] | None = None,
    seed: int = 0,
) -> int:
    """Assert that both plugins keep, reject and score every node of every generated case alike.

    Args:
        one: a plugin or its class.
        other: a plugin or its class.
        cases: how many cases to generate.
        args: the Args of both plugins, if they are given as classes.
        labels: values by label key for nodes and pods; give the keys that the plugins read.
        seed: the seed of the random cases; equal seeds give equal cases.

    Returns: how many different answers the plugins gave; 1 means that every case had the same
        answer.
    Raises: AssertionError: the plugins differ; the message names the first case in which they do.
    """
    plugins = [made(plugin, args) for plugin in (one, other)]
    different = set()
    for number, case in enumerate(generated_cases(cases, labels, seed)):
        left, right = (_answers(plugin, case) for plugin in plugins)
        if left != right:
            message = f"case {number} of seed {seed}: {left} and {right} for {case}"
            raise AssertionError(message)
        different.add(repr(left))
    return len(different)


def _answers(plugin: Any, case: Case) -> tuple[object, ...]:
    asked = (plugin, case.pod, case.nodes)
    filters = hasattr(plugin, "filter") or hasattr(plugin, "filter_nodes")
    scores = hasattr(plugin, "score") or hasattr(plugin, "score_nodes")
    return (
        run_filter(*asked, pods=case.pods) if filters else None,
        run_score(*asked, pods=case.pods) if scores else None,
    )
