"""Whom ``kubextend why`` asks, and what it says of those who do not answer."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.doors.answering import (
    Answering,
    answer_of_replicas,
    api,
    closed_port,
    kubeconfig_for,
    listening,
    says,
)
from tests.doors.certificates import Authority
from tests.doors.command_line import Result, configuration, enabled, run, write

from kubextend.errors import KubextendError

pytestmark = pytest.mark.slow

POD = "/api/v1/namespaces/ml/pods/p"
UNASKED = {"kubextend": {}, "attempts": []}
TOKEN = "a-bearer-token-of-a-reader"


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "absent"))


def manifest(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p", "namespace": "ml", "uid": "u"}, "spec": spec, "status": {}}


def why(server: str, *options: object, **sections: Any) -> Result:
    config = write(Path("why.yaml"), configuration(**sections))
    return run("why", "p", "-n", "ml", "--config", config, "--server", server, *options)


def refusal(*answers: bytes, scheme: str = "http", options: tuple[object, ...] = ()) -> str:
    """Return why a server that answers bytes to anything, and hangs up, cannot be asked."""
    with says(*answers) as address:
        done = why(f"{scheme}://{address}", *options)
    assert (done.exit_code, done.stdout) == (1, "")
    return done.stderr


@pytest.mark.parametrize(
    ("scheme", "answers", "words"),
    [
        ("http", [b"SSH-2.0-OpenSSH\r\n"], "cannot be asked: SSH"),
        ("https", [], "--cert-file"),
        (
            "https",
            [b"HTTP/1.1 400 Bad Request\r\n\r\n"],
            "answers without TLS: if it speaks http, write http://",
        ),
        (
            "http",
            [b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"],
            "either no kubextend answers at this URL, or it tells nobody its decisions",
        ),
        ("http", [b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"], ": status 401"),
        # A redirect takes the token nowhere.
        (
            "http",
            [b"HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n"],
            "status 302",
        ),
    ],
)
def test_why_says_how_a_server_cannot_be_asked(
    scheme: str, answers: list[bytes], words: str
) -> None:
    said = refusal(*answers, scheme=scheme)
    assert words in said
    assert ("--cert-file" in said) is (words == "--cert-file")


@pytest.mark.parametrize(
    ("server", "options", "cause"),
    [
        ("http://{closed}", (), "http://{closed} cannot be asked: "),
        ("ftp://kubextend", (), "ftp://kubextend is no URL of a server"),
        (
            "http://{closed}",
            ("--token-file", "none"),
            "token file none cannot be read: No such file or directory",
        ),
    ],
)
@pytest.mark.parametrize("output", ["table", "json"])
def test_why_fails_and_says_why_first_if_nobody_can_be_asked(
    server: str, options: tuple[str, ...], cause: str, output: str
) -> None:
    with closed_port() as closed:
        done = why(server.format(closed=closed), *options, "--output", output)
        assert (done.exit_code, done.stdout) == (1, "")
        assert done.stderr.startswith(f"Error: kubextend: {cause.format(closed=closed)}")
        assert "; the Kubernetes API: " in done.stderr
        assert "; so nothing is known of the pod ml/p" in done.stderr


def test_why_names_a_file_of_tls_that_is_not_there_or_holds_something_else() -> None:
    write(Path("other"), "no PEM")
    for options, words in [
        (("--ca-file", "none"), "none cannot be read: No such file or directory"),
        (("--cert-file", "none"), "none cannot be read: No such file or directory"),
        (
            ("--cert-file", "other", "--key-file", "none"),
            "none cannot be read: No such file or directory",
        ),
        (("--ca-file", "other"), "other holds no CA certificates"),
        (("--cert-file", "other"), "other cannot be used: --cert-file has to hold"),
        (
            ("--cert-file", "other", "--key-file", "other"),
            "other and other cannot be used: --cert-file has to hold your certificate",
        ),
    ]:
        assert f"kubextend: {words}" in refusal(scheme="https", options=options)
    # Nothing of TLS is read for a server without it.
    assert "none cannot be read" not in refusal(options=("--ca-file", "none"))


def test_why_checks_the_name_of_the_configurations_own_server_alone(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ca")
    pair = authority.sign("server", "kubextend")
    tls = {"caFile": str(authority.file), "serverName": "another"}
    decisions = Answering({"/decisions": UNASKED})
    with (
        api(Answering({POD: manifest()}), tmp_path) as kubeconfig,
        listening(decisions, pair) as url,
    ):
        for server_name, own, answered in (
            ("kubextend", True, True),
            ("another", True, False),
            ("another", False, True),
        ):
            prefix = url if own else "https://127.0.0.1:1"
            extender = {"urlPrefix": prefix, "tlsConfig": {**tls, "serverName": server_name}}
            done = why(url, "--kubeconfig", kubeconfig, extender=extender)
            assert ("not known: what kubextend decided" not in done.stdout) is answered


@pytest.mark.parametrize("known", [True, False])
def test_why_asks_kubextend_by_the_uid_of_the_pod_that_there_is_now(
    known: bool, tmp_path: Path
) -> None:
    decisions = Answering({"/decisions": UNASKED})
    there = Answering({POD: manifest()} if known else {})
    with api(there, tmp_path) as kubeconfig, listening(decisions) as url:
        done = why(url, "--kubeconfig", kubeconfig)
    assert done.exit_code == 0, done.output
    assert decisions.asked == [f"/decisions?pod={'u' if known else 'ml%2Fp'}"]
    assert done.stdout.startswith(f"pod ml/p: {'NotTried' if known else 'NoSuchPod'}\n")


def test_one_source_is_enough_for_an_answer(tmp_path: Path) -> None:
    there = Answering({POD: manifest()}, forbidden={"/api/v1/namespaces/ml/events"})
    with api(there, tmp_path) as kubeconfig, closed_port() as closed:
        done = why(f"http://{closed}", "--kubeconfig", kubeconfig)
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("pod ml/p: NotTried\n")


def test_a_user_whom_the_api_refuses_is_told_whose_kubeconfig_was_used(tmp_path: Path) -> None:
    refuses = Answering(forbidden={POD})
    hint = "asked with cluster.kubeconfig of the configuration; --kubeconfig names another file"
    with api(refuses, tmp_path) as kubeconfig, listening(Answering({"/decisions": UNASKED})) as url:
        theirs = why(url, cluster={"kubeconfig": str(kubeconfig)})
        mine = why(url, "--kubeconfig", kubeconfig, cluster={"kubeconfig": "/nowhere"})
    for done in (theirs, mine):
        assert done.exit_code == 0, done.output
        assert "403" in done.stdout
    assert hint in theirs.stdout
    assert hint not in mine.stdout


def test_of_several_replicas_the_one_with_a_record_is_believed() -> None:
    empty, full = {"attempts": [], "pod": None}, {"attempts": [{"calls": []}]}
    assert answer_of_replicas(None, empty, full, empty) == full
    assert answer_of_replicas(None, empty) == answer_of_replicas(empty, None) == empty
    with pytest.raises(KubextendError, match="cannot be asked"):
        answer_of_replicas(None)


def test_of_replicas_without_a_record_the_one_whose_records_began_last_is_believed() -> None:
    def since(*times: str | None, down: bool = False) -> Any:
        answers: list[Any] = [{"attempts": [], "kubextend": {"recordsSince": t}} for t in times]
        found = answer_of_replicas(*answers, *([None] if down else []))
        return found["kubextend"]["recordsSince"]

    old, new = "2026-01-01T09:00:00Z", "2026-01-01T10:00:00Z"
    # The replica that does not lead does not say since when.
    assert since(old, new, None) == since(new, old) == new
    assert since(old, down=True) is None


def test_watch_prints_each_new_sentence_once_until_the_pod_is_bound(tmp_path: Path) -> None:
    """In real time: the command asks every two seconds."""
    gated = manifest(schedulingGates=[{"name": "a/b"}])
    seen = iter([manifest(), manifest(), gated, 403, manifest(nodeName="n")])
    there = Answering({POD: lambda: next(seen, None)})
    there.forbidden = {"/api/v1/namespaces/ml/events"}
    with api(there, tmp_path) as kubeconfig, closed_port() as closed:
        done = why(f"http://{closed}", "--kubeconfig", kubeconfig, "--watch")
    assert done.exit_code == 0, done.output
    told = [line for line in done.output.splitlines() if line.startswith("pod ml/p: ")]
    causes = ["NotTried", "OtherGate", "NotKnown", "Bound"]
    assert [line.split(": ")[1] for line in told] == causes


SSD = {"key": "disk", "operator": "In", "values": ["ssd"]}
ZONES = {"key": "zone", "operator": "In", "values": ["a", "b"]}
ELSE = {"key": "arch", "operator": "Exists"}


def pod_with(*terms: list[dict[str, Any]], **spec: Any) -> dict[str, Any]:
    """Return a pod of the profile trains with these required terms, and the label ``disk``."""
    selector = {"nodeSelectorTerms": [{"matchExpressions": each} if each else {} for each in terms]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": selector}
    labels = spec.pop("labels", {"disk": "any"})
    pod = manifest(**{"schedulerName": "trains", "affinity": {"nodeAffinity": required}} | spec)
    return {**pod, "metadata": {**pod["metadata"], "labels": labels}}


def rules_on(folder: Path, pod: Any, *, refused: bool = False, **fields: Any) -> list[Any]:
    """Return the compiled rules that ``why`` finds on a pod; two nodes meet each."""
    rules = (("disk", "disk=ssd"), ("zone", "zone in (b, a)"))
    filters = [{"podSelector": p, "nodeSelector": n, "reason": "No"} for p, n in rules]
    profiles = [
        {
            "schedulerName": name,
            "plugins": {"filter": enabled("LabelMatch")},
            "pluginConfig": [{"name": "LabelMatch", "args": {"filters": filters}}],
        }
        for name in ("trains", "other")
    ]
    nodes = {"items": [{"metadata": {"name": name}} for name in "ab"]}
    there = Answering({POD: pod, "/api/v1/nodes": nodes})
    there.forbidden = {"/api/v1/nodes"} if refused else set()
    with listening(there) as url:
        kubeconfig = kubeconfig_for(url, folder)
        options = ("--kubeconfig", kubeconfig, "--output", "json")
        done = why("http://127.0.0.1:1", *options, profiles=profiles, **fields)
    assert done.exit_code == 0, done.output
    found: list[Any] = json.loads(done.stdout)["facts"]["rules"]
    return found


@pytest.mark.parametrize(
    ("pod", "selectors"),
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
    ],
)
def test_why_finds_the_compiled_rules_on_a_pod(
    pod: Any, selectors: list[str], tmp_path: Path
) -> None:
    assert rules_on(tmp_path, pod) == [
        {"plugin": "LabelMatch", "profile": "trains", "nodes": nodes, "meeting": 2}
        for nodes in selectors
    ]


def test_why_names_a_rule_though_nobody_may_list_nodes_and_none_that_is_called(
    tmp_path: Path,
) -> None:
    (rule,) = rules_on(tmp_path, pod_with([SSD]), refused=True)
    assert rule["meeting"] is None
    called = {"managedResources": [{"name": "a.b/c"}]}
    assert rules_on(tmp_path, pod_with([SSD]), extender=called) == []
