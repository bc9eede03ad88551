"""Which verbs may run on the event loop, where one that takes long holds up every request."""

from typing import Any

import pytest

from kubextend.framework.plugin import in_core
from kubextend.profile import Profile, Profiles
from make_verbs import make_verbs

METHODS = ("pre_filter", "filter_nodes", "post_filter", "pre_score", "score_nodes")
VERBS = frozenset({"filter", "prioritize", "preempt"})


class Plugin:
    """At every point; in the core but for one method."""

    name = "Plugin"

    def __init__(self, in_python: str) -> None:
        for method in METHODS:
            setattr(self, method, _does_nothing if method == in_python else _in_core)


def _does_nothing(*_: Any) -> None:
    pass


@in_core
def _in_core(*_: Any) -> None:
    pass


def brief(in_python: str, size: int) -> set[str]:
    """The verbs that may run there where that method is the only one in Python."""
    plugin: Any = Plugin(in_python)
    of = [plugin]
    profile = Profile("s", of, [(plugin, 1)], pre_filter=of, post_filter=of, pre_score=of)
    verbs = make_verbs(Profiles.of([profile]))
    body = b"{}".ljust(size)
    return {verb for verb in VERBS if getattr(verbs, verb).at_once(body) is not None}


# (which method is in Python, the verbs that run it)
RUN_BY = [
    ("none", set()),
    # prioritize where the attempt of filter is lost.
    ("pre_filter", {"filter", "preempt", "prioritize"}),
    ("filter_nodes", {"filter", "preempt"}),
    # preempt never does, but is judged as filter is.
    ("post_filter", {"filter", "preempt"}),
    ("pre_score", {"prioritize"}),
    ("score_nodes", {"prioritize"}),
]


@pytest.mark.parametrize(("in_python", "run_by"), RUN_BY)
def test_a_verb_that_runs_python_is_not_brief(in_python: str, run_by: set[str]) -> None:
    assert brief(in_python, 2) == VERBS - run_by


def test_preempt_that_may_wait_for_a_pod_group_is_not_brief() -> None:
    counting = Profile("default-scheduler", filter=[Plugin("none")], counts_pods=True)
    verbs = make_verbs(Profiles.of([counting]))
    assert verbs.filter.at_once(b"{}") is not None
    assert verbs.preempt.at_once(b"{}") is None


def test_a_verb_with_much_to_read_is_not_brief() -> None:
    assert brief("none", 1_000_000) == VERBS
    assert brief("none", 1_000_001) == set()
