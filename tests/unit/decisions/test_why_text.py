"""What `kubextend why` prints, and the files that it reads again."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kubextend import why
from kubextend.cli import main
from kubextend.decisions.explanation import Facts, explain
from kubextend.errors import KubextendError

EVIL = "\x1b[2J\nforged"


def facts(**decisions: Any) -> Facts:
    conditions = [{"type": "PodScheduled", "message": f"0/1 nodes are available: 1 {EVIL}."}]
    pod = {"metadata": {"uid": "u"}, "spec": {}, "status": {"conditions": conditions}}
    return Facts("ns", "p", {"kubextend": {}, "attempts": [], **decisions}, "", pod)


def capture(file: Path, known: Facts) -> Path:
    file.write_text(json.dumps(why.captured(known, explain(known))))
    return file


def printed(file: Path, *options: str) -> str:
    done = CliRunner().invoke(main, ["why", "--file", str(file), *options])
    assert done.exit_code == 0, done.output
    return done.output


def call(**nodes: Any) -> dict[str, Any]:
    group = {"plugin": EVIL, "reason": EVIL, "detail": EVIL, "nodes": 1, "examples": [EVIL]}
    found = {
        "nodes": 1,
        "passed": 0,
        "rejected": [group],
        "told": [{"reason": EVIL, "nodes": 1}],
        "best": [],
        **nodes,
    }
    return {
        "verb": "filter",
        "at": EVIL,
        "tookSeconds": 0.001,
        "done": True,
        "error": "",
        "note": EVIL,
        "failed": None,
        "node": EVIL,
        "nodes": found,
        "rejectedBy": None,
        "heldSeconds": None,
    }


def test_what_pods_and_plugins_say_forges_no_line_of_why(tmp_path: Path) -> None:
    lacks = [{"plugin": EVIL, "reason": EVIL, "lacks": EVIL}]
    known = facts(
        attempts=[{"calls": [call()]}],
        lacks=[{"plugin": EVIL, "lacks": EVIL}],
        nearest=[{"node": EVIL, "lacks": lacks}],
    )
    output = printed(capture(tmp_path / "c.json", known))
    assert "\x1b" not in output
    assert "forged" in output
    assert not any(line.startswith("forged") for line in output.splitlines())


def test_a_flood_of_texts_is_cut(tmp_path: Path) -> None:
    lacks = [{"plugin": "P", "lacks": "x" * 10_000} for _ in range(1_000)]
    output = printed(capture(tmp_path / "c.json", facts(lacks=lacks)))
    assert len(output) < 100_000


def test_a_captured_file_is_explained_again_word_for_word(tmp_path: Path) -> None:
    first = capture(tmp_path / "c.json", facts(attempts=[{"calls": [call()]}]))
    second = tmp_path / "d.json"
    second.write_text(printed(first, "--output", "json"))
    assert json.loads(second.read_text()) == json.loads(first.read_text())


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"facts": {}}'])
def test_any_other_file_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    file.write_text(text)
    with pytest.raises(KubextendError, match="is not what"):
        why.read_capture(file)


def test_a_server_that_cannot_be_asked_is_said(tmp_path: Path) -> None:
    with pytest.raises(KubextendError, match="no URL of a server"):
        why.Server("file:///etc/passwd").get("/decisions", {})
    with pytest.raises(KubextendError, match="cannot be read"):
        why.Server("http://127.0.0.1:9", token_file=str(tmp_path / "none")).get("/x", {})


def test_a_redirect_takes_the_token_nowhere(tmp_path: Path) -> None:
    asked: list[str] = []

    class Redirects(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(302)
            self.send_header("Location", "/elsewhere")
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    token_file = tmp_path / "token"
    token_file.write_text("a-bearer-token-of-a-reader")
    with HTTPServer(("127.0.0.1", 0), Redirects) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}"
        with pytest.raises(KubextendError, match="status 302"):
            why.Server(url, token_file=str(token_file)).get("/decisions", {})
        server.shutdown()
        thread.join()
    assert asked == ["/decisions?"]
