"""What `kubextend why` prints, and the files that it reads again."""

import json
import re
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner

from kubextend import cli, cluster, config, why
from kubextend.cli import main
from kubextend.cluster.api_call import Call, RefusedError
from kubextend.config.admission_rules import RuleDecision, compile_rules
from kubextend.decisions.explanation import Facts, explain
from kubextend.errors import KubextendError
from kubextend.plugins import IN_TREE

CONFIG = """
apiVersion: kubextend.dev/v1alpha1
kind: ExtenderConfiguration
profiles: [{schedulerName: trains}]
"""
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


def test_a_file_of_an_earlier_version_is_explained(tmp_path: Path) -> None:
    file = capture(tmp_path / "c.json", facts())
    written = json.loads(file.read_text())
    del written["facts"]["rules"]
    file.write_text(json.dumps(written))
    assert "RejectedByKubeScheduler" in printed(file)


@pytest.mark.parametrize(
    ("spec", "recorded", "group"),
    [
        ({"schedulingGroup": {"podGroupName": "trains"}}, None, "trains"),
        # The Kubernetes API may not tell the pod.
        ({}, "trains", "trains"),
        ({}, None, None),
    ],
)
def test_the_pod_group_of_a_member_is_named(
    spec: dict[str, Any], recorded: str | None, group: str | None, tmp_path: Path
) -> None:
    pod = {"metadata": {"uid": "u"}, "spec": spec, "status": {}}
    known = Facts("ns", "p", {"kubextend": {}, "pod": {"podGroup": recorded}}, "", pod)
    file = capture(tmp_path / "c.json", known)
    assert json.loads(printed(file, "--output", "json"))["podGroup"] == group
    head = printed(file).splitlines()[0]
    assert head == f"pod ns/p{f' of pod group {group}' if group else ''}: NotTried"


def label_match(*selectors: tuple[str, str]) -> dict[str, Any]:
    filters = [
        {"podSelector": pods, "nodeSelector": nodes, "reason": "No"} for pods, nodes in selectors
    ]
    return {
        "schedulerName": "trains",
        "plugins": {"filter": {"enabled": [{"name": "LabelMatch"}]}},
        "pluginConfig": [{"name": "LabelMatch", "args": {"filters": filters}}],
    }


def decisions(folder: Path, **fields: Any) -> tuple[RuleDecision, ...]:
    """Return the rules of two profiles, each of which asks pods with `disk` for nodes disk=ssd."""
    rules = (("disk", "disk=ssd"), ("zone", "zone in (b, a)"))
    profiles = [label_match(*rules), {**label_match(*rules), "schedulerName": "other"}]
    file = folder / "kubextend.yaml"
    head = {"apiVersion": "kubextend.dev/v1alpha1", "kind": "ExtenderConfiguration"}
    file.write_text(json.dumps({**head, "profiles": profiles, **fields}))
    return compile_rules(config.load(file, known=IN_TREE, runs_here=False)).decisions


SSD = {"key": "disk", "operator": "In", "values": ["ssd"]}
ZONES = {"key": "zone", "operator": "In", "values": ["a", "b"]}
ELSE = {"key": "arch", "operator": "Exists"}


def pod_with(*terms: list[dict[str, Any]], **spec: Any) -> Facts:
    """Return the facts of a pod of the profile trains with these required terms."""
    selector = {"nodeSelectorTerms": [{"matchExpressions": each} if each else {} for each in terms]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": selector}
    labels = spec.pop("labels", {"disk": "any"})
    given = {"schedulerName": "trains", "affinity": {"nodeAffinity": required}, **spec}
    return Facts("ns", "p", pod={"metadata": {"uid": "u", "labels": labels}, "spec": given})


class Nodes:
    """Stands in for an API that counts two nodes for each selector, or refuses."""

    def __init__(self, *, refuses: bool = False) -> None:
        self.refuses = refuses
        self.selectors: list[str] = []

    def request(self, call: Call) -> bytes:
        if self.refuses:
            raise RefusedError(call, 403, "no")
        self.selectors.append(call.query["labelSelector"])
        return json.dumps({"items": [{"metadata": {"name": n}} for n in "ab"]}).encode()


@pytest.mark.parametrize(
    ("given", "selectors"),
    [
        (pod_with([SSD]), ["disk=ssd"]),
        (pod_with([ELSE, SSD], [SSD]), ["disk=ssd"]),
        # A term without requirements matches no node, and has no rule.
        (pod_with([SSD], []), ["disk=ssd"]),
        (
            pod_with([SSD, ZONES], labels={"disk": "x", "zone": "y"}),
            ["disk=ssd", "zone in (b, a)"],
        ),
        # The pod was made before the policies, or lacks the rule for another reason.
        (pod_with([SSD], [ELSE]), []),
        (pod_with([]), []),
        (pod_with(), []),
        # Somebody else asks for such nodes.
        (pod_with([SSD], labels={}), []),
        (pod_with([SSD], schedulerName="third"), []),
        (pod_with([SSD], nodeName="n"), []),
        (Facts("ns", "p"), []),
    ],
)
def test_the_compiled_rules_on_a_pod_are_found(
    given: Facts, selectors: list[str], tmp_path: Path
) -> None:
    api = Nodes()
    found = why.with_rules(given, decisions(tmp_path), lambda: cast("Any", api))
    assert api.selectors == selectors
    assert list(found.rules) == [
        {"plugin": "LabelMatch", "profile": "trains", "nodes": nodes, "meeting": 2}
        for nodes in selectors
    ]


def test_a_rule_is_named_though_nobody_may_list_nodes(tmp_path: Path) -> None:
    api = cast("Any", Nodes(refuses=True))
    found = why.with_rules(pod_with([SSD]), decisions(tmp_path), lambda: api)
    assert [rule["meeting"] for rule in found.rules] == [None]


def test_a_rule_that_kubextend_is_called_for_is_on_no_pod(tmp_path: Path) -> None:
    called = decisions(tmp_path, extender={"managedResources": [{"name": "a.b/c"}]})
    api = cast("Any", Nodes())
    assert list(why.with_rules(pod_with([SSD]), called, lambda: api).rules) == []


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"facts": {}}'])
def test_any_other_file_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    file.write_text(text)
    with pytest.raises(KubextendError, match="is not what"):
        why.read_capture(file)


def test_the_name_of_a_pod_beside_a_file_is_refused(tmp_path: Path) -> None:
    file = capture(tmp_path / "c.json", facts())
    done = CliRunner().invoke(main, ["why", "another-pod", "--file", str(file)])
    assert done.exit_code == 2
    assert "give either the POD, or --file" in done.output


def test_a_server_that_cannot_be_asked_is_said(tmp_path: Path) -> None:
    with pytest.raises(KubextendError, match="no URL of a server"):
        why.Server("file:///etc/passwd").get("/decisions", {})
    with pytest.raises(KubextendError, match="cannot be read"):
        why.Server("http://127.0.0.1:9", token_file=str(tmp_path / "none")).get("/x", {})


def test_calls_are_printed_with_the_newest_first(tmp_path: Path) -> None:
    filtered, bound = call() | {"at": "00:00:01Z"}, call() | {"at": "00:00:02Z", "verb": "bind"}
    earlier = call() | {"at": "00:00:00Z"}
    known = facts(attempts=[{"calls": [filtered, bound]}, {"calls": [earlier]}])
    output = printed(capture(tmp_path / "c.json", known))
    assert re.findall(r"^ *(00:00:\d\d)Z", output, re.MULTILINE) == [
        "00:00:02",
        "00:00:01",
        "00:00:00",
    ]


@pytest.mark.parametrize(
    ("manifest", "asked"), [({"metadata": {"uid": "u"}}, "u"), (None, "shop/web")]
)
def test_kubextend_is_asked_by_the_uid_of_the_pod_that_there_is_now(
    manifest: Any, asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Asked:
        def get(self, path: str, query: dict[str, str]) -> Any:
            return {"path": path, **query}

    monkeypatch.setattr(cluster, "read_manifest", lambda *_: manifest)
    monkeypatch.setattr(cluster, "pod_events", lambda *_: [])
    known = why.gathered("shop", "web", cast("Any", Asked()), lambda: cast("Any", None), "gate")
    assert known.decisions == {"path": "/decisions", "pod": asked}


def test_of_several_replicas_the_one_with_a_record_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    empty, full = {"attempts": [], "pod": None}, {"attempts": [{"calls": []}]}
    answers: dict[str, Any] = {"a": KubextendError("down"), "b": empty, "c": full, "d": empty}

    def get(server: why.Server, _path: str, _query: Any) -> Any:
        if isinstance(answer := answers[server.url], Exception):
            raise answer
        return answer

    def asked(*urls: str) -> Any:
        return why.Replicas([why.Server(url) for url in urls]).get("/decisions", {})

    monkeypatch.setattr(why.Server, "get", get)
    assert asked("a", "b", "c", "d") == full
    assert asked("a", "b") == asked("b", "a") == empty
    with pytest.raises(KubextendError, match="down"):
        asked("a")


def test_a_server_that_speaks_no_http_is_said() -> None:
    ours, theirs = socket.socketpair()
    theirs.sendall(b"SSH-2.0-OpenSSH\r\n")
    with theirs, pytest.raises(KubextendError, match="cannot be asked: SSH"):
        why.Server("http://kubextend", dial=lambda: ours).get("/decisions", {})


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


def test_watch_prints_each_new_sentence_once_until_the_pod_is_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "kubextend.yaml"
    config.write_text(CONFIG)
    gated, bound = {"schedulingGates": [{"name": "a/b"}]}, {"nodeName": "n"}
    seen = iter([{}, {}, gated, {}, bound, gated])

    def gathered(namespace: str, name: str, *_: object) -> Facts:
        pod = {"metadata": {"uid": "u"}, "spec": next(seen)}
        return Facts(namespace, name, {"kubextend": {}, "attempts": []}, "", pod)

    monkeypatch.setattr(why, "gathered", gathered)
    monkeypatch.setattr(cli, "_WATCH_S", 0.0)
    done = CliRunner().invoke(main, ["why", "p", "--config", str(config), "--watch"])
    assert done.exit_code == 0, done.output
    told = [line for line in done.output.splitlines() if line.startswith("pod default/p: ")]
    assert [line.split(": ")[1] for line in told] == ["NotTried", "OtherGate", "NotTried", "Bound"]
    assert next(seen) == gated


def test_kubectl_runs_the_command_as_its_plugin(tmp_path: Path) -> None:
    file = capture(tmp_path / "c.json", facts())
    plugin = Path(sys.executable).with_name("kubectl-kubextend")
    done = subprocess.run(
        [plugin, "why", "--file", file], capture_output=True, text=True, check=True
    )
    assert done.stdout == printed(file)
