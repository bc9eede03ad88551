"""What ``kubextend why`` prints, and the captured files that it reads again."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.doors.captures import Facts, call, capture, facts, why
from tests.doors.command_line import run, write

EVIL = "\x1b[2J\nforged"
WRITES = "is not what kubextend why --output json writes"


def evil_call(**fields: Any) -> dict[str, Any]:
    group = {"plugin": EVIL, "reason": EVIL, "detail": EVIL, "nodes": 1, "examples": [EVIL]}
    told = [{"reason": EVIL, "nodes": 1}]
    nodes = {"nodes": 1, "passed": 0, "rejected": [group], "told": told, "best": []}
    return call(**{"at": EVIL, "note": EVIL, "node": EVIL, "nodes": nodes} | fields)


def evil(*calls: Any, **told: Any) -> Facts:
    return facts(f"0/1 nodes are available: 1 {EVIL}.", *calls, told=told)


def test_why_prints_no_line_that_pods_and_plugins_forge(tmp_path: Path) -> None:
    lacks = [{"plugin": EVIL, "reason": EVIL, "lacks": EVIL}]
    known = evil(evil_call(), lacks=lacks, nearest=[{"node": EVIL, "lacks": lacks}])
    output = why(tmp_path, known)
    assert "\x1b" not in output
    assert "forged" in output
    assert not any(line.startswith("forged") for line in output.splitlines())


def test_why_cuts_a_flood_of_texts(tmp_path: Path) -> None:
    lacks = [{"plugin": "P", "lacks": "x" * 10_000} for _ in range(1_000)]
    assert len(why(tmp_path, evil(lacks=lacks))) < 100_000


def test_why_explains_its_own_capture_word_for_word(tmp_path: Path) -> None:
    known = evil(evil_call())
    captured = why(tmp_path, known, "--output", "json")
    file = write(tmp_path / "again.json", captured)
    assert run("why", "--file", file, "--output", "json").stdout == captured
    assert run("why", "--file", file).stdout == why(tmp_path, known)
    # A file of an earlier version has fewer fields.
    older = json.loads(captured)
    del older["facts"]["rules"], older["facts"]["awaited"]
    assert run("why", "--file", write(file, older)).stdout == why(tmp_path, known)


@pytest.mark.parametrize(
    ("spec", "recorded", "group"),
    [
        ({"schedulingGroup": {"podGroupName": "trains"}}, None, "trains"),
        # The Kubernetes API may not tell the pod.
        ({}, "trains", "trains"),
        ({}, None, None),
    ],
)
def test_why_names_the_pod_group_of_a_member(
    spec: dict[str, Any], recorded: str | None, group: str | None, tmp_path: Path
) -> None:
    known = facts(spec=spec, told={"pod": {"podGroup": recorded}})
    assert json.loads(why(tmp_path, known, "--output", "json"))["podGroup"] == group
    head = why(tmp_path, known).splitlines()[0]
    assert head == f"pod ns/p{f' of pod group {group}' if group else ''}: NotTried"


def test_why_prints_calls_with_the_newest_first(tmp_path: Path) -> None:
    first, *others = (evil_call(at=f"00:00:0{at}Z") for at in range(3))
    output = why(tmp_path, evil(attempts=[{"calls": others}, {"calls": [first]}]))
    times = re.findall(r"^ *00:00:0(\d)Z", output, re.MULTILINE)
    assert times == ["2", "1", "0"]


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"facts": {}}'])
def test_why_refuses_any_other_file(text: str, tmp_path: Path) -> None:
    done = run("why", "--file", write(tmp_path / "c.json", text))
    assert (done.exit_code, done.stdout) == (1, "")
    assert WRITES in done.stderr


CALL = "decisions.attempts.0.calls.0"


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (f"{CALL}.verb", 5, "Input should be a valid string"),
        (f"{CALL}.tookSeconds", "1 s", "Input should be a valid number"),
        (f"{CALL}.nodes.rejected.0.examples", "n", "Input should be a valid"),
        ("decisions.attempts", {}, "Input should be a valid list"),
        ("decisions.kubextend.notReady", [], "Input should be a valid dictionary"),
        ("events", [{"from": 5}], "Input should be a valid string"),
        ("pod.spec.schedulerName", 5, "Input should be a valid string"),
        ("pod.status.conditions.0.message", 5, "Input should be a valid string"),
        ("pod_unknown", None, "Input should be a valid string"),
    ],
)
def test_why_refuses_a_field_of_a_wrong_type_by_its_name(
    place: str, value: object, said: str, tmp_path: Path
) -> None:
    known = json.loads(json.dumps(evil(evil_call())))
    *above, last = [int(key) if key.isdigit() else key for key in place.split(".")]
    part = known
    for key in above:
        part = part[key]
    part[last] = value
    file = capture(tmp_path, known)
    done = run("why", "--file", file)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith(f"Error: {file} {WRITES}: facts.{place}")
    assert said in done.stderr


def test_why_refuses_a_file_without_a_field_that_is_printed(tmp_path: Path) -> None:
    without = {key: value for key, value in evil_call().items() if key != "tookSeconds"}
    done = run("why", "--file", capture(tmp_path, evil(without)))
    assert (done.exit_code, done.stdout) == (1, "")
    assert f"{WRITES}: the field 'tookSeconds'" in done.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("shop/web-0", "write web-0 -n shop"),
        ("pod/web-0", "write web-0\n"),
        ("web-0 --key-file key.pem", "--key-file is the key of --cert-file: give both"),
        ("web-0 --file c.json", "give either the POD, or --file"),
        ("--file c.json --node n", "a file says nothing about single nodes"),
        ("", "give either the POD, or --file"),
    ],
)
def test_why_says_what_to_write_in_place_of_what_it_cannot_read(options: str, words: str) -> None:
    done = run("why", *options.split())
    assert (done.exit_code, words in done.output) == (2, True)


@pytest.mark.slow
def test_kubectl_runs_the_command_as_its_plugin(tmp_path: Path) -> None:
    file = capture(tmp_path, facts())
    command = [Path(sys.executable).with_name("kubectl-kubextend"), "why", "--file", file]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == run("why", "--file", file).stdout
