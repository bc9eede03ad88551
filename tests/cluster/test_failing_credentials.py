"""Credentials that fail for a while; see also tests/e2e/test_credentials.py."""

import base64
import json
import os
import re
import ssl
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.guarded_api import (
    ANONYMOUS,
    Guarded,
    assert_one_sentence,
    configuration,
    said_by,
    ungate,
)
from tests.doors.extender import Answer
from tests.doors.kube_api import Request, refusing
from tests.doors.sockets import Connection, is_listening
from tests.doors.wire import bind_request
from tests.e2e.certificates import Authority
from tests.e2e.exec_plugin import SECRET, VERSION, ExecPlugin, printing
from tests.e2e.stack import KUBEXTEND
from tests.e2e.workbench import Workbench, until

FAST_KUBEXTEND = Path(__file__).parents[1] / "fast_kubextend.py"
SAID = "the identity provider is down"
COMPLAINT = f"echo '{SAID}; token={SECRET}' >&2; exit 3"
NONE_NOW = "has no credentials now"
NOT_ACCEPTED = "the API does not accept user me of context there in kubeconfig "


def credential(version: str = VERSION, **status: object) -> str:
    """Return the shell text that prints an ExecCredential."""
    printed = json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status})
    return f"cat <<'END'\n{printed}\nEND\n"


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Guarded]:
    scripted = Guarded(tmp_path)
    scripted.put_node("n1")
    scripted.put_pod("web", "uid-web")
    scripted.up()
    yield scripted
    scripted.down()


@pytest.fixture
def plugin(tmp_path: Path) -> ExecPlugin:
    return ExecPlugin(tmp_path / "plugin")


@pytest.fixture(autouse=True)
def nothing_around(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [*os.environ]:
        if name.lower().endswith("_proxy") or name in {"KUBECONFIG", "KUBERNETES_SERVICE_HOST"}:
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))


class Served:
    """A ``kubextend serve`` on loopback, by default on a clock that is five times as fast."""

    def __init__(self, bench: Workbench, file: Path, *, fast: bool = True) -> None:
        port = bench.free_port()
        config = configuration(file, host="127.0.0.1", port=port)
        self._url = f"http://127.0.0.1:{port}"
        kubextend = (sys.executable, FAST_KUBEXTEND) if fast else (KUBEXTEND,)
        program = bench.start("kubextend", *kubextend, "serve", "--config", config)
        self._log = program.log
        until(lambda: is_listening(self._url), "kubextend answers", program=program)

    def log(self) -> str:
        return self._log.read_text()

    def until_ready(self) -> None:
        until(lambda: self._ask("/readyz").status == 200, "kubextend is ready", 60.0)

    def until_conditions_say(self, what: str) -> None:
        until(lambda: what in self._ask("/readyz?verbose").text, f"conditions say {what}")

    def bind(self, name: str = "web") -> str:
        """Ask to bind a pod, and return the Error of the answer."""
        named = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
        return self._ask("/bind", bind_request({"metadata": named}, "n1")).error

    def _ask(self, path: str, body: bytes = b"") -> Answer:
        with Connection(self._url) as client:
            return client.post(path, body) if body else client.get(path)


Serve = Callable[..., Served]


@pytest.fixture
def serve(tmp_path: Path, api: Guarded) -> Iterator[Serve]:
    """Serve with the credentials of a user."""
    with Workbench(tmp_path / "bench") as bench:
        yield lambda user, **how: Served(bench, api.kubeconfig(user), **how)


def assert_bound_once_and_never_as_nobody(api: Guarded) -> None:
    assert api.pods["web"]["bindings"] == 1
    assert api.anonymous_calls == 0


def assert_gets_ready_and_binds_once(served: Served, api: Guarded) -> None:
    served.until_ready()
    assert served.bind() == ""
    assert_bound_once_and_never_as_nobody(api)


def until_run(plugin: ExecPlugin, times: int) -> None:
    until(lambda: plugin.runs >= times, f"the plugin is asked {times} times")


def assert_no_hint_to_grant(*texts: str) -> None:
    for text in texts:
        assert re.search(r"\bgrant", text) is None
        assert SECRET not in text


# Credentials that fail while kubextend runs.


@pytest.mark.slow
def test_a_plugin_that_fails_at_the_start_is_asked_again_and_nothing_is_sent_meanwhile(
    api: Guarded, plugin: ExecPlugin, serve: Serve
) -> None:
    plugin.does(COMPLAINT)
    served = serve(plugin.user)
    until_run(plugin, 3)
    told = f"user me of context there in kubeconfig {api.file} {NONE_NOW}"
    why = f"{told}: exec plugin {plugin.command}: exec: process returned 3. {SAID}"
    served.until_conditions_say(why)
    assert why in served.bind()
    assert api.requests == []
    plugin.gives("good")
    assert_gets_ready_and_binds_once(served, api)
    assert_no_hint_to_grant(served.log())


@pytest.mark.slow
def test_as_the_token_ends_the_old_one_is_used_until_the_plugin_works_again(
    api: Guarded, plugin: ExecPlugin, serve: Serve
) -> None:
    plugin.gives("good", lasts_s=5)
    served = serve(plugin.user)
    served.until_ready()
    plugin.does(COMPLAINT)
    until_run(plugin, plugin.runs + 1)
    # For the API, the token goes on for a while.
    assert served.bind() == ""
    api.tokens = {"next"}
    # kube-scheduler tries again after an Error.
    error = served.bind()
    assert f"{NOT_ACCEPTED}{api.file}" in error
    assert SAID in error
    until(lambda: SAID in served.log(), "the log says why there are no others")
    until_run(plugin, plugin.runs + 1)
    plugin.gives("next")
    until(lambda: served.bind() == "", "the pod is bound", 60.0)
    assert_bound_once_and_never_as_nobody(api)
    assert_no_hint_to_grant(error, served.log())


@pytest.mark.slow
def test_a_plugin_that_hangs_while_its_last_token_is_good_keeps_nobody_waiting(
    api: Guarded, plugin: ExecPlugin, serve: Serve
) -> None:
    plugin.gives("good", lasts_s=2)
    served = serve(plugin.user, fast=False)
    served.until_ready()
    go_on = plugin.folder / "go-on"
    plugin.does(f"while ! test -e {go_on}; do sleep 0.1; done\n{credential(token='next')}")
    until_run(plugin, plugin.runs + 1)
    assert served.bind() == ""
    go_on.touch()
    api.tokens = {"next"}
    until(lambda: served.bind() == "", "the pod is bound with the next token")


@pytest.mark.slow
def test_a_binding_that_gets_a_401_is_repeated_with_the_next_token(
    api: Guarded, plugin: ExecPlugin, serve: Serve
) -> None:
    plugin.gives("good")
    served = serve(plugin.user, fast=False)
    served.until_ready()
    plugin.gives("next")
    api.tokens = {"next"}
    assert served.bind() == ""
    assert_bound_once_and_never_as_nobody(api)


@pytest.mark.slow
def test_a_403_for_system_anonymous_renews_the_credentials(
    api: Guarded, plugin: ExecPlugin, serve: Serve
) -> None:
    def for_nobody(request: Request) -> bool:
        # A proxy before the API may take a token that it does not know out of the request.
        known = request.client == "next"
        return not known and refusing(403, "Forbidden", ANONYMOUS)(request)

    api.always = for_nobody
    plugin.gives("good")
    served = serve(plugin.user)
    until_run(plugin, 3)
    served.until_conditions_say(NOT_ACCEPTED)
    plugin.gives("next")
    assert_gets_ready_and_binds_once(served, api)
    assert_no_hint_to_grant(served.log())


@pytest.mark.slow
def test_a_token_file_that_is_empty_or_missing_for_a_moment_is_read_again(
    api: Guarded, serve: Serve, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("\n")
    served = serve({"tokenFile": "token"})
    served.until_conditions_say(NONE_NOW)
    token.write_text("good\n")
    served.until_ready()
    token.unlink()
    api.tokens = {"next"}
    missing = f"{token}: No such file or directory"
    until(lambda: missing in served.bind(), "bind says which file is missing", 60.0)
    token.write_text("next\n")
    until(lambda: served.bind() == "", "the pod is bound", 60.0)
    assert_bound_once_and_never_as_nobody(api)


@pytest.mark.slow
def test_a_token_that_has_ended_when_it_comes_does_not_make_the_plugin_run_for_each_call(
    api: Guarded, plugin: ExecPlugin, serve: Serve
) -> None:
    # By the clock of the API, the token goes on for a while.
    api.tokens = {"ended"}
    plugin.does(printing("ended", -60))
    names = [f"web-{number}" for number in range(50)]
    for name in names:
        api.put_pod(name, f"uid-{name}")
    served = serve(plugin.user, fast=False)
    served.until_ready()
    before = plugin.runs
    assert {served.bind(name) for name in names} == {""}
    assert plugin.runs < before + 15


@pytest.mark.slow
def test_tokens_that_the_api_never_accepts_do_not_make_the_plugin_run_for_each_call(
    api: Guarded, plugin: ExecPlugin, serve: Serve
) -> None:
    """client-go runs a plugin again after a 401, and kubextend waits ever longer to do so."""
    plugin.does(credential(token="good-$(wc -c < runs)").replace("'END'", "END"))
    served = serve(plugin.user, fast=False)
    until_run(plugin, 3)
    before = plugin.runs
    for _ in range(10):
        assert NOT_ACCEPTED in served.bind()
    assert plugin.runs < before + 8
    assert len({headers["Authorization"] for _, _, headers, _ in api.requests}) > 2


# What a command says.


def test_a_user_without_credentials_is_nobody_on_purpose_and_is_told_to_get_some(
    api: Guarded,
) -> None:
    file = api.kubeconfig(None)
    told = f"the API wants credentials, and context there in kubeconfig {file} has none: give"
    assert_no_hint_to_grant(assert_one_sentence(ungate(file), told))
    api.tokens = {None}
    assert ungate(file).exit_code == 0


@pytest.mark.parametrize("who", ["system:anonymous", ""])
def test_no_hint_asks_for_a_right_of_nobody(api: Guarded, who: str) -> None:
    api.always = refusing(403, "Forbidden", ANONYMOUS.replace("system:anonymous", who))
    file = api.kubeconfig({"token": "good"})
    for name in ("doctor", "why", "queue", "admission", "ungate"):
        output = said_by(name, file)
        assert f"{NOT_ACCEPTED}{file}" in output
        assert_no_hint_to_grant(output)


def test_a_403_that_is_about_system_anonymous_is_no_403_for_it(
    api: Guarded, plugin: ExecPlugin
) -> None:
    plugin.gives("good")
    about = 'pods "system:anonymous" is forbidden: User "jane" cannot list resource "pods"'
    api.always = refusing(403, "Forbidden", about)
    line = assert_one_sentence(ungate(api.kubeconfig(plugin.user)), about)
    assert "does not accept" not in line
    assert plugin.runs == 1


NO_CREDENTIAL = "it printed no ExecCredential with a token, or a certificate and key"


@pytest.mark.parametrize(
    ("does", "said"),
    [
        (COMPLAINT, f"process returned 3. {SAID}"),
        ("kill -9 $$", "process returned -9"),
        ("echo '<html>please log in</html>'", "failed to decode process output"),
        ("printf '\\377\\376'", NO_CREDENTIAL),
        ("true", "failed to decode process output"),
        ("echo []", "malformed response"),
        ("""echo '{"status": null}'""", "malformed response"),
        (credential(token=""), NO_CREDENTIAL),
        (credential("client.authentication.k8s.io/v1beta1", token="good"), VERSION),
        (credential(clientCertificateData="x"), NO_CREDENTIAL),
        (credential(token="good", expirationTimestamp="soon"), NO_CREDENTIAL),
    ],
)
def test_a_command_says_in_a_sentence_how_the_plugin_failed(
    api: Guarded, plugin: ExecPlugin, does: str, said: str
) -> None:
    plugin.does(does)
    file = api.kubeconfig(plugin.user)
    told = f"user me of context there in kubeconfig {file} {NONE_NOW}: exec plugin {plugin.command}"
    assert_one_sentence(ungate(file), told, said)
    assert api.requests == []


@pytest.mark.parametrize(
    "complaint",
    [
        f"refused: Bearer {SECRET}",
        f"client_secret={SECRET} is wrong",
        f'{{"refresh_token": "{SECRET}"}}',
        f"https://me:{SECRET}@idp.example/login does not answer",
        f"password: {SECRET}",
        f"jwt {base64.urlsafe_b64encode(SECRET.encode() * 3).decode()} has ended",
    ],
)
def test_no_secret_of_a_plugin_is_repeated(
    api: Guarded, plugin: ExecPlugin, complaint: str
) -> None:
    plugin.does(f"cat >&2 <<'END'\n{complaint}\nEND\nexit 1")
    file = api.kubeconfig(plugin.user)
    line = assert_one_sentence(ungate(file), "process returned 1. ")
    assert base64.urlsafe_b64encode(SECRET.encode()).decode()[:20] not in line


def test_a_plugin_runs_as_client_go_runs_it(api: Guarded, plugin: ExecPlugin) -> None:
    noted = 'echo "$KUBERNETES_EXEC_INFO" > info; echo "$REGION $1" > given\n'
    plugin.does(noted + credential(token="good"))
    user = plugin.user
    environment = [{"name": "REGION", "value": "north"}]
    user["exec"] |= {"command": "./plugin/login", "args": ["now"], "env": environment}
    user["exec"]["provideClusterInfo"] = True
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "k"}}
    file = api.kubeconfig(user, cluster={"extensions": [extension]})
    assert ungate(file).exit_code == 0
    assert (plugin.folder / "given").read_text() == "north now\n"
    info = json.loads((plugin.folder / "info").read_text())
    assert (info["apiVersion"], info["kind"]) == (VERSION, "ExecCredential")
    assert info["spec"]["interactive"] is False
    assert info["spec"]["cluster"]["server"] == api.url
    assert info["spec"]["cluster"]["config"] == {"audience": "k"}


@pytest.mark.parametrize("other", [{"token": "good"}, {"tokenFile": "token"}])
def test_other_credentials_come_before_the_plugin_as_for_kubectl(
    api: Guarded, plugin: ExecPlugin, tmp_path: Path, other: dict[str, str]
) -> None:
    plugin.does(COMPLAINT)
    (tmp_path / "token").write_text("good")
    assert ungate(api.kubeconfig(plugin.user | other)).exit_code == 0
    assert plugin.runs == 0


ENDED = base64.urlsafe_b64encode(b'{"exp": 1}').decode().rstrip("=")
OIDC = {"id-token": f"e30.{ENDED}.sig", "refresh-token": SECRET, "client-id": "k"}
OIDC |= {"client-secret": SECRET, "idp-issuer-url": "https://127.0.0.1:1"}


@pytest.mark.parametrize(
    ("user", "said"),
    [
        ({"exec": {"apiVersion": VERSION, "command": "none"}}, "none: cannot be run: No such file"),
        ({"auth-provider": {"name": "oidc", "config": OIDC}}, f"{NONE_NOW}: .*127.0.0.1"),
        ({"auth-provider": {"name": "oidc", "config": {}}}, NONE_NOW),
        ({"auth-provider": {"name": "oidc"}}, "nothing came of its auth-provider"),
        ({"auth-provider": {"name": "azure", "config": {}}}, "nothing came of its auth-provider"),
        ({"auth-provider": {"name": "gcp", "config": {"cmd-path": "no-such-gcloud"}}}, NONE_NOW),
        ({"auth-provider": {"name": "gcp"}}, NONE_NOW),
    ],
)
def test_what_gives_no_credentials_is_no_way_to_go_on_as_nobody(
    api: Guarded, user: dict[str, Any], said: str
) -> None:
    line = assert_one_sentence(ungate(api.kubeconfig(user)))
    assert re.search(said, line)
    assert api.requests == []


# Certificates of clients.


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """The authority that the API with TLS has its certificate from, and asks clients for one."""
    return Authority(tmp_path / "pki")


@pytest.fixture
def tls_api(authority: Authority, tmp_path: Path) -> Iterator[Guarded]:
    pair = authority.issue("server")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert, pair.key)
    context.load_verify_locations(authority.cert)
    context.verify_mode = ssl.CERT_REQUIRED
    scripted = Guarded(tmp_path, tls=context)
    scripted.tokens = {None}
    scripted.up()
    yield scripted
    scripted.down()


def test_a_plugin_may_print_a_certificate(
    tls_api: Guarded, authority: Authority, plugin: ExecPlugin
) -> None:
    pair = authority.issue("client")
    certificate, key = pair.cert.read_text(), pair.key.read_text()
    plugin.does(credential(clientCertificateData=certificate, clientKeyData=key))
    cluster = {"certificate-authority": str(authority.cert)}
    file = tls_api.kubeconfig(plugin.user, cluster=cluster)
    done = ungate(file)
    assert done.exit_code == 0, done.output
    assert "Authorization" not in tls_api.requests[-1][2]
    plugin.does(credential(clientCertificateData=certificate, clientKeyData="no key"))
    assert_one_sentence(ungate(file), NONE_NOW, "certificate")


@pytest.mark.parametrize("missing", ["client-certificate", "client-key"])
def test_a_certificate_whose_file_is_missing_is_named(
    tls_api: Guarded, authority: Authority, tmp_path: Path, missing: str
) -> None:
    pair = authority.issue("client")
    user = {"client-certificate": str(pair.cert), "client-key": str(pair.key)}
    cluster = {"certificate-authority": str(authority.cert)}
    file = tls_api.kubeconfig(user | {missing: "gone.pem"}, cluster=cluster)
    assert_one_sentence(ungate(file), f"{file} {NONE_NOW}", str(tmp_path / "gone.pem"))
    assert tls_api.requests == []
    assert ungate(tls_api.kubeconfig(user, cluster=cluster)).exit_code == 0
