"""Which attempt of a pod is found, and which one makes room."""

from verb_world import names_request, pod

from kubextend import core
from kubextend.verbs.attempts import Attempts


def pod_named(name: str) -> core.Pod:
    found = core.read_args(names_request([], pod(name))).pod
    assert found is not None
    return found


def test_an_older_request_that_fails_leaves_the_newer_attempt_alone() -> None:
    attempts, asked = Attempts(), pod_named("p")
    older, newer = attempts.begin(asked), attempts.begin(asked)
    attempts.drop(older)
    assert attempts.find(asked.uid) is newer
    attempts.drop(newer)
    assert attempts.find(asked.uid) is None


def test_the_attempts_kept_are_bounded_and_the_one_begun_first_goes() -> None:
    attempts = Attempts(limit=2)
    pods = {name: pod_named(name) for name in ("first", "second", "third")}
    for name in ("first", "second", "first", "third"):
        attempts.begin(pods[name])
    assert [name for name in pods if attempts.find(pods[name].uid)] == ["first", "third"]


def test_a_bind_takes_the_attempt_with_it() -> None:
    attempts, asked = Attempts(), pod_named("p")
    begun = attempts.begin(asked)
    assert attempts.take(asked.uid) is begun
    assert attempts.take(asked.uid) is None
