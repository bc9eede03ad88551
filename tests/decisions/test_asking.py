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
    listening,
    says,
)
from tests.doors.certificates import Authority
from tests.doors.command_line import Result, configuration, profile, run, write

from kubextend.errors import KubextendError

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("in_a_folder")]

POD = "/api/v1/namespaces/ml/pods/p"
ABSENT = "cannot be read: No such file or directory"
UNASKED = {"kubextend": {}, "attempts": []}


def manifest(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p", "namespace": "ml", "uid": "u"}, "spec": spec, "status": {}}


def why(server: str, *options: object, **sections: Any) -> Result:
    config = write(Path("why.yaml"), configuration(**sections))
    return run("why", "p", "-n", "ml", "--config", config, "--server", server, *options)


def answer(status: str, header: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\n{header}Content-Length: 0\r\n\r\n".encode()


def refusal(*answers: bytes, scheme: str = "http", options: str = "") -> str:
    """Return why a server that answers bytes to anything, and hangs up, cannot be asked."""
    with says(*answers) as address:
        done = why(f"{scheme}://{address}", *options.split())
    assert (done.exit_code, done.stdout) == (1, "")
    return done.stderr


@pytest.mark.parametrize(
    ("scheme", "answers", "words"),
    [
        ("http", [b"SSH-2.0-OpenSSH\r\n"], "cannot be asked: SSH"),
        ("https", [], "--cert-file"),
        ("https", [answer("400 Bad Request")], "if it speaks http, write http://"),
        ("http", [answer("404 Not Found")], "either no kubextend answers at this URL, or it tells"),
        ("http", [answer("401 Unauthorized")], ": status 401"),
        # A redirect takes the token nowhere.
        ("http", [answer("302 Found", "Location: /x\r\n")], "status 302"),
    ],
)
def test_why_says_how_a_server_cannot_be_asked(
    scheme: str, answers: list[bytes], words: str
) -> None:
    said = refusal(*answers, scheme=scheme)
    assert words in said
    assert ("--cert-file" in said) is (words == "--cert-file")


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        ("http://{closed}", "http://{closed} cannot be asked: "),
        ("http://{closed} --output json", "http://{closed} cannot be asked: "),
        ("ftp://kubextend", "ftp://kubextend is no URL of a server"),
        ("http://{closed} --token-file none", f"token file none {ABSENT}"),
    ],
)
def test_why_fails_and_says_why_first_if_nobody_can_be_asked(words: str, cause: str) -> None:
    with closed_port() as closed:
        done = why(*words.format(closed=closed).split())
        assert (done.exit_code, done.stdout) == (1, "")
        assert done.stderr.startswith(f"Error: kubextend: {cause.format(closed=closed)}")
        assert "; the Kubernetes API: " in done.stderr
        assert "; so nothing is known of the pod ml/p" in done.stderr


def test_why_names_a_file_of_tls_that_is_not_there_or_holds_something_else() -> None:
    write(Path("other"), "no PEM")
    for options, words in [
        ("--ca-file none", f"none {ABSENT}"),
        ("--cert-file none", f"none {ABSENT}"),
        ("--cert-file other --key-file none", f"none {ABSENT}"),
        ("--ca-file other", "other holds no CA certificates"),
        ("--cert-file other", "other cannot be used: --cert-file has to hold"),
        ("--cert-file other --key-file other", "other and other cannot be used: --cert-file has"),
    ]:
        assert f"kubextend: {words}" in refusal(scheme="https", options=options)
    # Nothing of TLS is read for a server without it.
    assert "none cannot be read" not in refusal(options="--ca-file none")


def test_why_checks_the_name_of_the_configurations_own_server_alone(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ca")
    pair = authority.sign("server", "kubextend")
    tls = {"caFile": str(authority.file)}
    there, decisions = Answering({POD: manifest()}), Answering({"/decisions": UNASKED})
    with api(there, tmp_path) as kubeconfig, listening(decisions, pair) as url:
        for name, prefix, answered in (
            ("kubextend", url, True),
            ("another", url, False),
            ("another", "https://127.0.0.1:1", True),
        ):
            extender = {"urlPrefix": prefix, "tlsConfig": tls | {"serverName": name}}
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


def test_of_several_replicas_that_with_a_record_or_with_the_youngest_records_is_believed() -> None:
    empty, full = {"attempts": [], "pod": None}, {"attempts": [{"calls": []}]}
    assert answer_of_replicas(None, empty, full, empty) == full
    assert answer_of_replicas(None, empty) == answer_of_replicas(empty, None) == empty
    with pytest.raises(KubextendError, match="cannot be asked"):
        answer_of_replicas(None)
    # The replica that does not lead does not say since when.
    old, new, silent = (
        {"attempts": [], "kubextend": {"recordsSince": since}}
        for since in ("2026-01-01T09:00:00Z", "2026-01-01T10:00:00Z", None)
    )
    assert answer_of_replicas(old, new, silent) == answer_of_replicas(new, old) == new
    assert answer_of_replicas(old, None)["kubextend"]["recordsSince"] is None


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
    entry = {"name": "LabelMatch", "args": {"filters": filters}}
    profiles = [
        profile(name, filter="LabelMatch") | {"pluginConfig": [entry]}
        for name in ("trains", "other")
    ]
    nodes = {"items": [{"metadata": {"name": name}} for name in "ab"]}
    there = Answering({POD: pod, "/api/v1/nodes": nodes})
    there.forbidden = {"/api/v1/nodes"} if refused else set()
    with api(there, folder) as kubeconfig:
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
        (pod_with([SSD, ZONES], labels={"disk": "x", "zone": "y"}), ["disk=ssd", "zone in (b, a)"]),
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
