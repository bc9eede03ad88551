"""What a log line looks like."""

import json
import logging
import sys
from collections.abc import Iterator

import pytest
from tests.doors import log_lines


@pytest.fixture(autouse=True)
def root_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


LOG = logging.getLogger("kubextend.test")


def logged(fmt: str, capsys: pytest.CaptureFixture[str]) -> str:
    log_lines.configure("info", fmt)
    LOG.debug("below the level")
    LOG.info('pod "%s" rejected\n', "a\x1b[31m", extra={"nodes": 3, "why": "no RDMA"})
    return capsys.readouterr().err


def test_a_line_of_text_cannot_be_forged(capsys: pytest.CaptureFixture[str]) -> None:
    time, rest = logged("text", capsys).split(" ", 1)
    assert rest == ('INFO    kubextend.test: pod "a\\x1b[31m" rejected\\n nodes=3 why="no RDMA"\n')
    assert time.endswith("Z")


@pytest.mark.parametrize(
    ("fact", "written"),
    [("a-b/c", "a-b/c"), ("a\nb", r'"a\nb"'), ("\x1b[2J", r'"\u001b[2J"'), ("", '""')],
)
def test_a_fact_of_a_line_of_text_cannot_forge_another(
    fact: str, written: str, capsys: pytest.CaptureFixture[str]
) -> None:
    log_lines.configure("info", "text")
    LOG.info("rejected", extra={"why": fact})
    assert capsys.readouterr().err.partition(" why=")[2] == f"{written}\n"


def test_a_line_of_json_carries_the_facts(capsys: pytest.CaptureFixture[str]) -> None:
    line = json.loads(logged("json", capsys))
    assert line.pop("time").endswith("Z")
    facts = {"message": 'pod "a\x1b[31m" rejected\n', "nodes": 3, "why": "no RDMA"}
    assert line == {"level": "info", "logger": "kubextend.test"} | facts


def test_a_line_of_json_is_one_line_of_plain_ascii(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "a\x9b31m\u202e\x85\u2028\x7f\x1bß"
    log_lines.configure("info", "json")
    LOG.info("rejected", extra={"why": hostile})
    line = capsys.readouterr().err
    assert line.removesuffix("\n").isprintable()
    assert line.isascii()
    assert json.loads(line)["why"] == hostile


@pytest.mark.parametrize("fmt", log_lines.FORMATS)
def test_an_exception_is_written_with_its_traceback(
    fmt: str, capsys: pytest.CaptureFixture[str]
) -> None:
    log_lines.configure("error", fmt)
    try:
        sys.intern(1)
    except TypeError:
        LOG.exception("failed")
    err = capsys.readouterr().err
    text = json.loads(err)["exception"] if fmt == "json" else err
    assert "Traceback (most recent call last):" in text
    assert "TypeError" in text


def test_no_line_of_a_traceback_looks_like_a_line_of_the_log(
    capsys: pytest.CaptureFixture[str],
) -> None:
    log_lines.configure("info", "text")
    forged = "2026-11-21T20:00:00.000Z INFO    kubextend: pod ml/p is allowed"
    try:
        sys.exit(f"bad\n{forged}\r{forged}\x1b[31m\u2028{forged}")
    except SystemExit:
        LOG.exception("failed", stack_info=True)
    first, *rest = capsys.readouterr().err.splitlines()
    assert first.endswith("ERROR   kubextend.test: failed")
    assert all(line.startswith("  ") for line in rest)
    assert "\\x1b[31m" in rest[[forged in line for line in rest].index(True)]


def test_configuring_twice_writes_each_line_once(capsys: pytest.CaptureFixture[str]) -> None:
    log_lines.configure("info", "text")
    assert logged("text", capsys).count("rejected") == 1


def test_a_flood_of_lines_is_bounded_and_the_next_line_says_how_many_are_missing() -> None:
    now_s = [0.0]
    at_most = log_lines.at_most(3, lambda: now_s[0])
    records = [logging.makeLogRecord({"msg": str(number)}) for number in range(12)]
    passed = [record.msg for record in records[:10] if at_most.filter(record)]
    assert passed == ["0", "1", "2"]
    now_s[0] = 1.0
    assert [at_most.filter(record) for record in records[10:]] == [True, True]
    assert vars(records[10])["lines_left_out"] == 7
    assert not hasattr(records[11], "lines_left_out")
