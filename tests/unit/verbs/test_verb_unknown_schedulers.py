"""Pods of a schedulerName without a profile: passed through, counted apart, named once."""

import asyncio
import json
import logging
from collections.abc import Callable

import pytest
from verb_world import (
    Binder,
    Needs,
    Scores,
    Watched,
    counted,
    names_request,
    node,
    pod,
    preempt_request,
)

from kubextend import core
from kubextend.profile import Profile, Profiles
from kubextend.verbs import Verbs
from kubextend.verbs.answer import Answer
from kubextend.verbs.unknown_schedulers import UnknownSchedulers
from make_verbs import make_verbs


class Reader:
    def get(self, _namespace: str, name: str) -> core.Pod | None:
        return core.read_args(names_request([], pod(name, scheduler="renamed"))).pod


def verbs_of_a_rule() -> Verbs:
    rule = Profile("rule", filter=[Needs()], score=[(Scores(9), 1)], counts_pods=True)
    return make_verbs(
        Profiles.of([rule, Profile("idle")]),
        watched=Watched().listing(node("n")),
        binder=Binder(),
        pod_reader=Reader(),
    )


def bind(verbs: Verbs, _pod: object) -> bytes:
    fields = {"PodName": "pod", "PodNamespace": "ml", "PodUID": "uid-of-pod", "Node": "n"}
    return bytes(asyncio.run(verbs.bind(json.dumps(fields).encode())))


ASKED: dict[str, Callable[[Verbs, object], bytes]] = {
    "filter": lambda verbs, of: bytes(verbs.filter(names_request(["n"], of))),
    "prioritize": lambda verbs, of: bytes(verbs.prioritize(names_request(["n"], of))),
    "preempt": lambda verbs, of: bytes(verbs.preempt(preempt_request({"n": ["u"]}, of))),
    "bind": bind,
}
UNTOUCHED = {
    "filter": {
        "Nodes": None,
        "NodeNames": ["n"],
        "FailedNodes": None,
        "FailedAndUnresolvableNodes": None,
        "Error": "",
    },
    "prioritize": [],
    "preempt": {"NodeNameToMetaVictims": {"n": {"Pods": [{"UID": "u"}], "NumPDBViolations": 1}}},
    "bind": {"Error": ""},
}


@pytest.mark.parametrize("verb", ASKED)
def test_a_pod_of_an_unknown_scheduler_passes_and_is_counted_apart(
    verb: str, caplog: pytest.LogCaptureFixture
) -> None:
    verbs = verbs_of_a_rule()
    for _ in range(3):
        answer = json.loads(ASKED[verb](verbs, pod(scheduler="renamed")))
        for key, value in UNTOUCHED[verb].items() if isinstance(answer, dict) else ():
            assert (answer[key] or None) == (value or None)
        assert isinstance(answer, dict) or answer == UNTOUCHED[verb]
    name = "kubextend_verb_requests_total"
    assert counted(verbs, name, verb=verb, result="unknown_scheduler") == 3
    assert counted(verbs, name, verb=verb, result="ok") == 0
    (record,) = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert record.getMessage() == (
        "pod ml/pod has schedulerName renamed, for which there is no profile: such pods pass "
        "through untouched; configured are idle, rule. If that is meant, list the name under "
        "`profiles` without plugins"
    )


@pytest.mark.parametrize("verb", ["filter", "prioritize", "preempt"])
def test_a_profile_without_plugins_says_that_it_is_meant(
    verb: str, caplog: pytest.LogCaptureFixture
) -> None:
    verbs = verbs_of_a_rule()
    ASKED[verb](verbs, pod(scheduler="idle"))
    assert counted(verbs, "kubextend_verb_requests_total", verb=verb, result="ok") == 1
    assert caplog.records == []


def test_the_memory_of_names_is_bounded_and_forgets_what_was_not_seen_for_longest(
    caplog: pytest.LogCaptureFixture,
) -> None:
    unknown = UnknownSchedulers(Profiles.of([]), limit=2)

    def ask(name: str) -> None:
        asked = core.read_args(names_request([], pod(scheduler=name))).pod
        assert asked is not None
        unknown.passes(asked, Answer(b""))

    for name in ("a", "b", "a", "c", "a", "b"):
        ask(name)
    assert len(unknown) == 2
    named = [getattr(record, "scheduler_name", "") for record in caplog.records]
    assert named == ["a", "b", "c", "b"]


def test_of_a_name_that_no_profile_can_have_only_the_beginning_is_remembered_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    unknown = UnknownSchedulers(Profiles.of([]))
    for end in ("a", "b"):
        body = names_request([], pod(scheduler="x" * 100_000 + end))
        asked = core.read_args(body).pod
        assert asked is not None
        unknown.passes(asked, Answer(b""))
    (record,) = caplog.records
    assert len(record.getMessage()) < 1000
