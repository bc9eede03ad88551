"""Every file of the JSON test suite, in every position of every verb, over one connection."""

import json
from pathlib import Path

import pytest
from live_server import DATA, VERBS, Connection, request

FILES = sorted((DATA / "jsontestsuite").glob("*.json"))
# Read by the verb, with the type that most of the suite's values do not have.
READ = {"filter": "NodeNames", "prioritize": "Nodes", "preempt": "Pod", "bind": "PodName"}


def in_field(field: str, verb: str, value: bytes) -> bytes:
    """A whole request in which the value stands in a field, which comes first."""
    fields = json.loads(request(verb))
    fields.pop(field, None)
    rest = json.dumps(fields).encode()[1:]
    return b'{"%b":%b,%b' % (field.encode(), value, rest)


def bodies(position: str, verb: str) -> list[tuple[Path, bytes]]:
    files = [(file, file.read_bytes()) for file in FILES]
    match position:
        case "whole":
            return files
        case "skipped":
            return [(file, in_field("Unknown", verb, value)) for file, value in files]
    return [(file, in_field(READ[verb], verb, value)) for file, value in files]


def test_the_suite_is_there() -> None:
    assert {file.name[:2] for file in FILES} == {"y_", "n_", "i_"}
    assert len(FILES) > 300


@pytest.mark.parametrize("position", ["whole", "skipped", "read"])
@pytest.mark.parametrize("verb", VERBS)
def test_every_file_is_served_or_refused_and_nothing_breaks(
    url: str, verb: str, position: str
) -> None:
    wrong = []
    with Connection(url) as connection:
        for file, body in bodies(position, verb):
            answer = connection.post(f"/{verb}", body)
            allowed = {"y_": {200, 400}, "n_": {400}, "i_": {200, 400}}[file.name[:2]]
            if file.name.startswith("y_") and position == "skipped":
                allowed = {200}
            if verb == "preempt":
                # A refusal is an answer that evicts nobody.
                nobody = answer.body == b'{"NodeNameToMetaVictims":{}}'
                allowed = {200} if nobody or 200 in allowed else set()
            if answer.status not in allowed:
                wrong.append((file.name, answer.status))
        assert connection.post(f"/{verb}", request(verb)).status == 200
    assert wrong == []
