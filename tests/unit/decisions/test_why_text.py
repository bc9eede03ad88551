"""What `kubextend why` prints, and the files that it reads again."""

import json
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
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
from kubextend.errors import ClusterError, KubextendError
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
    assert "NotKnown" in printed(file)


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


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        ("decisions.attempts.0.calls.0.verb", 5, "Input should be a valid string"),
        ("decisions.attempts.0.calls.0.tookSeconds", "1 s", "Input should be a valid number"),
        ("decisions.attempts.0.calls.0.nodes.rejected.0.examples", "n", "Input should be a valid"),
        ("decisions.attempts", {}, "Input should be a valid list"),
        ("decisions.kubextend.notReady", [], "Input should be a valid dictionary"),
        ("events", [{"from": 5}], "Input should be a valid string"),
        ("pod.spec.schedulerName", 5, "Input should be a valid string"),
        ("pod.status.conditions.0.message", 5, "Input should be a valid string"),
        ("pod_unknown", None, "Input should be a valid string"),
    ],
)
def test_a_file_with_a_field_of_a_wrong_type_is_refused_with_the_field(
    place: str, value: object, said: str, tmp_path: Path
) -> None:
    file = capture(tmp_path / "c.json", facts(attempts=[{"calls": [call()]}]))
    written = json.loads(file.read_text())
    part = written["facts"]
    *above, last = [int(key) if key.isdigit() else key for key in place.split(".")]
    for key in above:
        part = part[key]
    part[last] = value
    file.write_text(json.dumps(written))
    done = CliRunner().invoke(main, ["why", "--file", str(file)])
    assert (done.exit_code, done.stdout) == (1, "")
    other = f"Error: {file} is not what kubextend why --output json writes: facts.{place}"
    assert done.stderr.startswith(other)
    assert said in done.stderr


def test_a_file_without_a_field_that_is_printed_is_refused_with_the_field(tmp_path: Path) -> None:
    without = {key: value for key, value in call().items() if key != "tookSeconds"}
    known = facts(attempts=[{"calls": [call()]}])
    file = capture(tmp_path / "c.json", known)
    written = json.loads(file.read_text())
    written["facts"]["decisions"]["attempts"] = [{"calls": [without]}]
    file.write_text(json.dumps(written))
    done = CliRunner().invoke(main, ["why", "--file", str(file)])
    assert (done.exit_code, done.stdout) == (1, "")
    assert "is not what kubextend why --output json writes: the field 'tookSeconds'" in done.stderr


def test_the_name_of_a_pod_beside_a_file_is_refused(tmp_path: Path) -> None:
    file = capture(tmp_path / "c.json", facts())
    done = CliRunner().invoke(main, ["why", "another-pod", "--file", str(file)])
    assert done.exit_code == 2
    assert "give either the POD, or --file" in done.output


def test_a_node_beside_a_file_is_refused(tmp_path: Path) -> None:
    file = capture(tmp_path / "c.json", facts())
    done = CliRunner().invoke(main, ["why", "--file", str(file), "--node", "n"])
    assert done.exit_code == 2
    assert "a file says nothing about single nodes" in done.output


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["shop/web-0"], "write web-0 -n shop"),
        (["pod/web-0"], "write web-0\n"),
        (["web-0", "--key-file", "key.pem"], "--key-file is the key of --cert-file: give both"),
    ],
)
def test_what_the_command_cannot_read_is_told_with_what_to_write(
    options: list[str], words: str
) -> None:
    done = CliRunner().invoke(main, ["why", *options])
    assert done.exit_code == 2
    assert words in done.output


@pytest.mark.parametrize("given", [(), ("--kubeconfig", "mine")])
def test_a_user_whom_the_api_refuses_is_told_that_the_kubeconfig_is_the_configurations(
    given: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "kubextend.yaml"
    config.write_text(f"{CONFIG}cluster: {{kubeconfig: theirs}}\n")
    used: list[str | None] = []

    def refuses(*_: object) -> None:
        raise RefusedError(Call("GET", "/pods", 1.0), 403, "no")

    def connect(kubeconfig: str | None, _context: str | None) -> None:
        used.append(kubeconfig)

    monkeypatch.setattr(cluster, "connect", connect)
    monkeypatch.setattr(cluster, "read_manifest", refuses)
    monkeypatch.setattr(why.Server, "get", lambda *_: {"kubextend": {}, "attempts": []})
    done = CliRunner().invoke(main, ["why", "p", "--config", str(config), *given])
    assert done.exit_code == 0, done.output
    assert "403 no" in done.output
    hint = "asked with cluster.kubeconfig of the configuration; --kubeconfig names another file"
    assert (hint in done.output) is not bool(given)
    assert set(used) == {"mine" if given else "theirs"}


@pytest.mark.parametrize("url", [None, "https://elsewhere:1"])
def test_the_name_of_the_certificate_is_that_of_the_configuration_for_its_own_url(
    url: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "kubextend.yaml"
    tls = "{caFile: ca.pem, serverName: kubextend}"
    config.write_text(f"{CONFIG}extender: {{urlPrefix: 'https://10.0.0.1:1', tlsConfig: {tls}}}\n")
    asked: list[why.Server] = []

    def get(server: why.Server, *_: object) -> Any:
        asked.append(server)
        return {"kubextend": {}, "attempts": []}

    def no_cluster(*_: object) -> None:
        message = "none"
        raise ClusterError(message)

    monkeypatch.setattr(cluster, "connect", no_cluster)
    monkeypatch.setattr(why.Server, "get", get)
    server = [] if url is None else ["--server", url]
    done = CliRunner().invoke(main, ["why", "p", "--config", str(config), *server])
    assert done.exit_code == 0, done.output
    assert [each.server_name for each in asked] == ["kubextend" if url is None else None]


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


def test_of_replicas_without_a_record_the_one_whose_records_began_last_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def answer(since: str | None) -> dict[str, Any]:
        return {"attempts": [], "kubextend": {"recordsSince": since}}

    # The replica that does not lead does not say since when.
    answers = {"old": answer("2026-01-01T09:00:00Z"), "new": answer("2026-01-01T10:00:00Z")}
    answers["follower"] = answer(None)

    def get(server: why.Server, _path: str, _query: Any) -> Any:
        if server.url == "down":
            message = "down"
            raise KubextendError(message)
        return answers[server.url]

    def since(*urls: str) -> Any:
        replicas = why.Replicas([why.Server(url) for url in urls])
        return replicas.get("/decisions", {})["kubextend"]["recordsSince"]

    monkeypatch.setattr(why.Server, "get", get)
    assert since("old", "new", "follower") == since("new", "old") == "2026-01-01T10:00:00Z"
    assert since("old", "down") is None


def test_a_server_that_speaks_no_http_is_said() -> None:
    ours, theirs = socket.socketpair()
    theirs.sendall(b"SSH-2.0-OpenSSH\r\n")
    with theirs, pytest.raises(KubextendError, match="cannot be asked: SSH"):
        why.Server("http://kubextend", dial=lambda: ours).get("/decisions", {})


def refusal(url: str, *answers: bytes, **fields: Any) -> str:
    """Return why a server cannot be asked that answers bytes to anything, and hangs up."""
    ours, theirs = socket.socketpair()
    for answer in answers:
        theirs.sendall(answer)
    theirs.shutdown(socket.SHUT_WR)
    with ours, theirs, pytest.raises(KubextendError) as refused:
        why.Server(url, dial=lambda: ours, **fields).get("/decisions", {})
    return str(refused.value)


def test_a_plain_server_that_hangs_up_wants_no_certificate() -> None:
    assert "--cert-file" not in refusal("http://kubextend")
    assert "--cert-file" in refusal("https://kubextend")


def test_a_server_of_http_that_is_asked_by_https_is_said() -> None:
    said = refusal("https://kubextend", b"HTTP/1.1 400 Bad Request\r\n\r\n")
    assert "answers without TLS: if it speaks http, write http://" in said
    assert "--cert-file" not in said


def test_a_path_that_nobody_knows_may_be_that_of_another_server() -> None:
    said = refusal("http://kubextend", b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
    assert "either no kubextend answers at this URL, or it tells nobody its decisions" in said


def test_a_file_of_tls_that_is_not_there_or_holds_something_else_is_named(tmp_path: Path) -> None:
    none, other = str(tmp_path / "none"), tmp_path / "other"
    other.write_text("no PEM")
    url = "https://kubextend"
    for field in ("ca_file", "cert_file", "key_file"):
        said = refusal(url, **{"cert_file": str(other), field: none})
        assert said == f"{none} cannot be read: No such file or directory"
    assert f"{other} holds no CA certificates" in refusal(url, ca_file=str(other))
    said = refusal(url, cert_file=str(other), key_file=str(other))
    assert f"{other} and {other} cannot be used: --cert-file has to hold your certificate" in said
    assert refusal(url, cert_file=str(other)).startswith(f"{other} cannot be used: ")
    # Nothing of TLS is read for a server without it.
    plain = refusal("http://kubextend", ca_file=none)
    assert none not in plain


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


def no_api(*_: object) -> None:
    message = "there are no credentials"
    raise ClusterError(message)


class RefusesTokens(BaseHTTPRequestHandler):
    """Answers each request with status 401."""

    def do_GET(self) -> None:
        self.send_response(401)
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def urls() -> Iterator[dict[str, str]]:
    """Yield the URL of a server that refuses every token, and one where nobody listens."""
    with HTTPServer(("127.0.0.1", 0), RefusesTokens) as server, socket.socket() as bound:
        # While the socket is bound, nobody else gets its port.
        bound.bind(("127.0.0.1", 0))
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        ports = {"refuses": server.server_port, "closed": bound.getsockname()[1]}
        yield {name: f"http://127.0.0.1:{port}" for name, port in ports.items()}
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("server", "token", "cause"),
    [
        ("{refuses}", "token", "{refuses}: status 401"),
        ("{closed}", "token", "{closed} cannot be asked: "),
        ("ftp://kubextend", "token", "ftp://kubextend is no URL of a server"),
        ("{closed}", "none", "token file none cannot be read: No such file or directory"),
    ],
    ids=["token", "refused", "url", "file"],
)
def test_if_nobody_can_be_asked_the_command_fails_and_says_why_first(
    server: str,
    token: str,
    cause: str,
    urls: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "token").write_text("a-bearer-token-of-a-reader")
    monkeypatch.setattr(cluster, "connect", no_api)
    monkeypatch.chdir(tmp_path)
    options = ["--server", server.format(**urls), "--token-file", token]
    for output in ("table", "json"):
        done = CliRunner().invoke(main, ["why", "p", *options, "--output", output])
        assert (done.exit_code, done.stdout) == (1, "")
        assert done.stderr.startswith(f"Error: kubextend: {cause.format(**urls)}")
        assert "; the Kubernetes API: there are no credentials; so nothing" in done.stderr


@pytest.mark.parametrize(
    ("manifest", "cause"),
    [(None, "NoSuchPod"), ({"metadata": {"uid": "u"}, "spec": {}}, "NotTried")],
    ids=["no pod", "no Events"],
)
def test_one_source_is_enough_for_an_answer(
    manifest: Any, cause: str, urls: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "connect", lambda *_: None)
    monkeypatch.setattr(cluster, "read_manifest", lambda *_: manifest)
    monkeypatch.setattr(cluster, "pod_events", no_api)
    done = CliRunner().invoke(main, ["why", "p", "--server", urls["closed"]])
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith(f"pod default/p: {cause}\n")


def test_watch_goes_on_when_for_a_while_nobody_can_be_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pod = {"metadata": {"uid": "u"}, "spec": {}}
    bound = {**pod, "spec": {"nodeName": "n"}}
    seen = iter([(pod, ""), (None, "no API"), (bound, "")])

    def gathered(namespace: str, name: str, *_: object) -> Facts:
        manifest, unknown = next(seen)
        return Facts(namespace, name, None, "no kubextend", manifest, unknown)

    monkeypatch.setattr(why, "gathered", gathered)
    monkeypatch.setattr(cli, "_WATCH_S", 0.0)
    done = CliRunner().invoke(main, ["why", "p", "--watch"])
    assert done.exit_code == 0, done.output
    told = [line for line in done.output.splitlines() if line.startswith("pod default/p: ")]
    assert [line.split(": ")[1] for line in told] == ["NotTried", "NotKnown", "Bound"]


def test_kubectl_runs_the_command_as_its_plugin(tmp_path: Path) -> None:
    file = capture(tmp_path / "c.json", facts())
    plugin = Path(sys.executable).with_name("kubectl-kubextend")
    done = subprocess.run(
        [plugin, "why", "--file", file], capture_output=True, text=True, check=True
    )
    assert done.stdout == printed(file)
