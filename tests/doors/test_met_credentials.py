"""Credentials that fail for a while, and kubeconfigs and proxies that kubextend cannot use.

A scripted API stands in for kube-apiserver. As kube-apiserver, it answers a call with a wrong token
with 401, and a call without credentials with a 403 that names system:anonymous. The real
kube-apiserver is asked in tests/e2e/test_credentials.py.
"""

import base64
import json
import os
import re
import ssl
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

import httpx
import pytest
import yaml
from click.testing import CliRunner, Result
from tests.doors.kube_api import Request, ScriptedApi, refusing
from tests.e2e.certificates import Authority
from tests.e2e.exec_plugin import SECRET, VERSION, ExecPlugin, printing
from tests.e2e.stack import KUBEXTEND
from tests.e2e.workbench import Program, Workbench, until

from kubextend.cli import main

FAST_KUBEXTEND = Path(__file__).parents[1] / "fast_kubextend.py"
# httpx would read all certificates of the system for each request.
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
ANONYMOUS = (
    'nodes is forbidden: User "system:anonymous" cannot list resource "nodes" in API group "" at'
    " the cluster scope"
)
COMPLAINT = f"echo trying >&2; echo 'the identity provider is down; token={SECRET}' >&2; exit 3"
SAID = "the identity provider is down"


def credential(version: str = VERSION, **status: object) -> str:
    """Return the shell text that prints an ExecCredential."""
    printed = json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status})
    return f"cat <<'END'\n{printed}\nEND\n"


class Guarded(ScriptedApi):
    """A scripted API that knows tokens; with the token None, it answers callers without any."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens: set[str | None] = {"good"}
        self.anonymous_calls = 0
        self.faults = _Always(self._check)

    def _check(self, request: Request) -> bool:
        header = request.headers.get("Authorization")
        self.anonymous_calls += header is None
        if (header and header.removeprefix("Bearer ")) in self.tokens:
            return False
        if header is None:
            request.refuse(403, "Forbidden", ANONYMOUS)
        else:
            request.refuse(401, "Unauthorized", "Unauthorized")
        return True


class _Always(dict[str, Any]):
    """Faults of each kind without an end."""

    def __init__(self, fault: Callable[[Request], bool]) -> None:
        super().__init__()
        self._fault = fault

    def get(self, *_: object) -> Any:
        return self

    def __bool__(self) -> bool:
        return True

    def popleft(self) -> Callable[[Request], bool]:
        return self._fault


@pytest.fixture
def api() -> Iterator[Guarded]:
    scripted = Guarded()
    scripted.put_node("n1")
    scripted.put_pod("web", "uid-web")
    scripted.up()
    yield scripted
    scripted.down()


@pytest.fixture
def plugin(tmp_path: Path) -> ExecPlugin:
    return ExecPlugin(tmp_path / "plugin")


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Workbench]:
    with Workbench(tmp_path / "bench") as bench:
        yield bench


@pytest.fixture(autouse=True)
def nothing_around(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [*os.environ]:
        if name.lower().endswith("_proxy") or name in {"KUBECONFIG", "KUBERNETES_SERVICE_HOST"}:
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))


def kubeconfig(folder: Path, server: str, user: dict[str, Any] | None, **more: Any) -> Path:
    """Write the kubeconfig of the user ``me`` in the context ``there``; None: of no user."""
    file = folder / "kube.config"
    named = {} if user is None else {"user": "me"}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "there",
        "contexts": [{"name": "there", "context": {"cluster": "c", **named}}],
        "clusters": [{"name": "c", "cluster": {"server": server, **more.pop("cluster", {})}}],
        "users": [] if user is None else [{"name": "me", "user": user}],
        **more,
    }
    file.write_text(yaml.safe_dump(document))
    return file


def configuration(folder: Path, file: Path | None, **server: Any) -> Path:
    """Write a configuration with the queue, the verb bind and the kubeconfig."""
    enabled = {"enabled": [{"name": "HighCommPodFilter"}, {"name": "PrioritySort"}]}
    config = folder / "kubextend.yaml"
    tree = {
        "apiVersion": "kubextend.dev/v1alpha1",
        "kind": "ExtenderConfiguration",
        "server": server,
        "extender": {"nodeCacheCapable": True, "bind": True},
        "cluster": {} if file is None else {"kubeconfig": str(file)},
        "profiles": [{"schedulerName": "default-scheduler", "plugins": {"multiPoint": enabled}}],
    }
    config.write_text(yaml.safe_dump(tree))
    return config


class Served:
    """A ``kubextend serve`` on loopback.

    Args:
        bench: starts it.
        folder: gets the configuration.
        file: the kubeconfig.
        fast: whether its clock is fast, for a test that sees kubextend ask again and again.
    """

    def __init__(self, bench: Workbench, folder: Path, file: Path, *, fast: bool = True) -> None:
        port = bench.free_port()
        config = configuration(folder, file, host="127.0.0.1", port=port)
        self._url = f"http://127.0.0.1:{port}"
        kubextend = (sys.executable, FAST_KUBEXTEND) if fast else (KUBEXTEND,)
        self._program: Program = bench.start("kubextend", *kubextend, "serve", "--config", config)
        until(self.is_alive, "kubextend answers", program=self._program)

    @property
    def log(self) -> str:
        return self._program.log.read_text()

    def is_alive(self) -> bool:
        try:
            return self._ask("GET", "/livez").is_success
        except httpx.TransportError:
            return False

    def is_ready(self) -> bool:
        return self._ask("GET", "/readyz").is_success

    def conditions(self) -> str:
        return self._ask("GET", "/readyz?verbose").text

    def bind(self, name: str = "web") -> str:
        """Ask to bind a pod, and return the Error of the answer."""
        uid = f"uid-{name}"
        body = {"PodName": name, "PodNamespace": "default", "PodUID": uid, "Node": "n1"}
        answer = self._ask("POST", "/bind", json=body)
        return str(answer.raise_for_status().json()["Error"])

    def _ask(self, method: str, path: str, **given: Any) -> httpx.Response:
        given |= {"trust_env": False, "timeout": 60.0, "verify": NO_TLS}
        return httpx.request(method, f"{self._url}{path}", **given)


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def assert_one_sentence(done: Result, *said: str) -> str:
    """Assert that a command failed with one line, which says all this; return the line."""
    assert isinstance(done.exception, SystemExit), done.exception
    assert done.exit_code == 1
    line, end = done.output.split("\n", 1)
    assert end == ""
    assert all(text in line for text in said), line
    assert SECRET not in line
    return line


def assert_no_hint_to_grant(*texts: str) -> None:
    for text in texts:
        assert re.search(r"\bgrant", text) is None
        assert SECRET not in text


COMMANDS: dict[str, Callable[[Path, Path], Result]] = {
    "serve": lambda config, _: run("serve", "--config", config),
    "queue": lambda config, _: run("queue", "--config", config),
    "admission": lambda config, _: run("admission", "--config", config, "--diff"),
    "ungate": lambda _, file: run("ungate", "--dry-run", "--kubeconfig", file),
}
"""The commands that use a kubeconfig and end with its error."""


def test_a_plugin_that_fails_at_the_start_is_asked_again_and_nothing_is_sent_meanwhile(
    api: Guarded, plugin: ExecPlugin, bench: Workbench, tmp_path: Path
) -> None:
    plugin.does(COMPLAINT)
    served = Served(bench, tmp_path, kubeconfig(tmp_path, api.url, plugin.user))
    until(lambda: plugin.runs > 2, "the plugin is asked again and again")
    told = f"user me of context there in kubeconfig {tmp_path}/kube.config has no credentials now"
    why = f"{told}: exec plugin {plugin.command} ended with status 3: {SAID}"
    until(lambda: why in served.conditions(), "the conditions say it")
    assert why in served.bind()
    assert api.requests == []
    plugin.does(credential(token="good"))
    until(served.is_ready, "kubextend is ready", 60.0)
    assert served.bind() == ""
    assert api.pods["web"]["bindings"] == 1
    assert api.anonymous_calls == 0
    assert_no_hint_to_grant(served.log)


def test_a_plugin_that_hangs_at_the_start_is_ended_with_its_children_and_asked_again(
    api: Guarded, plugin: ExecPlugin, bench: Workbench, tmp_path: Path
) -> None:
    plugin.does("sleep 60 & test -e child || echo $! > child; wait")
    served = Served(bench, tmp_path, kubeconfig(tmp_path, api.url, plugin.user))
    until(lambda: "did not end within 10 s" in served.conditions(), "the conditions say it")
    child = (plugin.folder / "child").read_text().strip()
    until(lambda: not is_running(child), "the child is killed, long before its end", 20.0)
    plugin.does(credential(token="good"))
    until(served.is_ready, "kubextend is ready", 60.0)
    assert served.bind() == ""
    assert api.pods["web"]["bindings"] == 1
    assert api.anonymous_calls == 0


def is_running(process: str) -> bool:
    """Return whether a process runs; one that only its parent has not asked about does not."""
    try:
        # Source: proc(5), /proc/pid/stat: the state follows the name.
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_as_the_token_ends_the_old_one_is_used_until_the_plugin_works_again(
    api: Guarded, plugin: ExecPlugin, bench: Workbench, tmp_path: Path
) -> None:
    plugin.does(printing("good", 5))
    served = Served(bench, tmp_path, kubeconfig(tmp_path, api.url, plugin.user))
    until(served.is_ready, "kubextend is ready")
    plugin.does(COMPLAINT)
    runs = plugin.runs
    until(lambda: plugin.runs > runs, "the plugin is asked for the next token")
    # For the API, the token goes on for a while.
    assert served.bind() == ""
    assert api.pods["web"]["bindings"] == 1
    api.tokens = {"next"}
    # kube-scheduler tries again after an Error.
    error = served.bind()
    assert f"the API does not accept user me of context there in kubeconfig {tmp_path}" in error
    assert SAID in error
    until(lambda: SAID in served.log, "the log says why there are no others")
    runs = plugin.runs
    until(lambda: plugin.runs > runs, "the plugin is asked again")
    plugin.does(credential(token="next"))
    until(lambda: served.bind() == "", "the pod is bound", 60.0)
    assert api.pods["web"]["bindings"] == 1
    assert api.anonymous_calls == 0
    assert_no_hint_to_grant(error, served.log)


def test_a_plugin_that_hangs_while_its_last_token_is_good_keeps_nobody_waiting(
    api: Guarded, plugin: ExecPlugin, bench: Workbench, tmp_path: Path
) -> None:
    plugin.does(printing("good", 2))
    served = Served(bench, tmp_path, kubeconfig(tmp_path, api.url, plugin.user), fast=False)
    until(served.is_ready, "kubextend is ready")
    go_on = plugin.folder / "go-on"
    plugin.does(f"while ! test -e {go_on}; do sleep 0.1; done\n{credential(token='next')}")
    runs = plugin.runs
    until(lambda: plugin.runs > runs, "the plugin is asked for the next token")
    assert served.bind() == ""
    go_on.touch()
    api.tokens = {"next"}
    until(lambda: served.bind() == "", "the pod is bound with the next token")
    # Nobody has waited until the plugin was ended.
    assert "did not end" not in served.log


def test_a_binding_that_gets_a_401_is_repeated_with_the_next_token(
    api: Guarded, plugin: ExecPlugin, bench: Workbench, tmp_path: Path
) -> None:
    plugin.does(credential(token="good"))
    served = Served(bench, tmp_path, kubeconfig(tmp_path, api.url, plugin.user), fast=False)
    until(served.is_ready, "kubextend is ready")
    plugin.does(credential(token="next"))
    api.tokens = {"next"}
    assert served.bind() == ""
    assert api.pods["web"]["bindings"] == 1


def test_a_403_for_system_anonymous_renews_the_credentials(
    api: Guarded, plugin: ExecPlugin, bench: Workbench, tmp_path: Path
) -> None:
    def for_nobody(request: Request) -> bool:
        # A proxy before the API may take a token that it does not know out of the request.
        if request.headers.get("Authorization") == "Bearer next":
            return False
        request.refuse(403, "Forbidden", ANONYMOUS)
        return True

    api.faults = _Always(for_nobody)
    plugin.does(credential(token="good"))
    served = Served(bench, tmp_path, kubeconfig(tmp_path, api.url, plugin.user))
    until(lambda: plugin.runs > 2, "the plugin is asked again and again")
    said = "the API does not accept user me of context there"
    until(lambda: said in served.conditions(), "the conditions say it")
    plugin.does(credential(token="next"))
    until(served.is_ready, "kubextend is ready", 60.0)
    assert served.bind() == ""
    assert api.pods["web"]["bindings"] == 1
    assert_no_hint_to_grant(served.log)


def test_a_token_file_that_is_empty_or_missing_for_a_moment_is_read_again(
    api: Guarded, bench: Workbench, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("\n")
    file = kubeconfig(tmp_path, api.url, {"tokenFile": "token"})
    served = Served(bench, tmp_path, file)
    until(lambda: "has no credentials now" in served.conditions(), "the conditions say it")
    token.write_text("good\n")
    until(served.is_ready, "kubextend is ready", 60.0)
    token.unlink()
    api.tokens = {"next"}
    missing = f"{token}: No such file or directory"
    until(lambda: missing in served.bind(), "bind says which file is missing", 60.0)
    token.write_text("next\n")
    until(lambda: served.bind() == "", "the pod is bound", 60.0)
    assert api.pods["web"]["bindings"] == 1
    assert api.anonymous_calls == 0


def test_a_user_without_credentials_is_nobody_on_purpose_and_is_told_to_get_some(
    api: Guarded, tmp_path: Path
) -> None:
    file = kubeconfig(tmp_path, api.url, None)
    told = f"the API wants credentials, and context there in kubeconfig {file} has none: give"
    line = assert_one_sentence(COMMANDS["ungate"](tmp_path, file), told)
    assert_no_hint_to_grant(line)
    api.tokens = {None}
    assert COMMANDS["ungate"](tmp_path, file).exit_code == 0


@pytest.mark.parametrize("who", ["system:anonymous", ""])
def test_no_hint_asks_for_a_right_of_nobody(api: Guarded, tmp_path: Path, who: str) -> None:
    def refuse(request: Request) -> bool:
        request.refuse(403, "Forbidden", ANONYMOUS.replace("system:anonymous", who))
        return True

    api.faults = _Always(refuse)
    file = kubeconfig(tmp_path, api.url, {"token": "good"})
    config = configuration(tmp_path, file)
    outputs = [run("doctor", "--config", config).output]
    outputs += [run("why", "web", "--config", config).output]
    outputs += [COMMANDS[name](config, file).output for name in ("queue", "admission", "ungate")]
    for output in outputs:
        assert f"the API does not accept user me of context there in kubeconfig {file}" in output
    assert_no_hint_to_grant(*outputs)


def test_who_is_somebody_is_told_which_right_is_missing(
    api: Guarded, bench: Workbench, tmp_path: Path
) -> None:
    api.faults = _Always(refusing(403, "Forbidden", ANONYMOUS.replace("system:anonymous", "jane")))
    served = Served(bench, tmp_path, kubeconfig(tmp_path, api.url, {"token": "good"}), fast=False)
    hint = "grant list and watch on nodes"
    until(lambda: hint in served.conditions(), "the conditions say it")
    assert "grant get on pods" in served.bind()


def test_a_403_that_is_about_system_anonymous_is_no_403_for_it(
    api: Guarded, plugin: ExecPlugin, tmp_path: Path
) -> None:
    plugin.does(credential(token="good"))
    about = 'pods "system:anonymous" is forbidden: User "jane" cannot list resource "pods"'
    api.faults = _Always(refusing(403, "Forbidden", about))
    file = kubeconfig(tmp_path, api.url, plugin.user)
    line = assert_one_sentence(COMMANDS["ungate"](tmp_path, file), about)
    assert "does not accept" not in line
    assert plugin.runs == 1


@pytest.mark.parametrize(
    ("does", "said"),
    [
        (COMPLAINT, f"ended with status 3: {SAID}"),
        ("kill -9 $$", "ended with status -9"),
        ("echo '<html>please log in</html>'", f"printed no ExecCredential of {VERSION}"),
        ("printf '\\377\\376'", f"printed no ExecCredential of {VERSION}"),
        ("true", f"printed no ExecCredential of {VERSION}"),
        ("echo []", f"printed no ExecCredential of {VERSION}"),
        ("""echo '{"status": null}'""", f"printed no ExecCredential of {VERSION}"),
        (credential(), f"printed no ExecCredential of {VERSION} with a token"),
        (credential(token=""), f"printed no ExecCredential of {VERSION} with a token"),
        (credential("client.authentication.k8s.io/v1beta1", token="good"), VERSION),
        (credential(clientCertificateData="x"), "or a certificate and key"),
        (credential(token="good", expirationTimestamp="soon"), f"no ExecCredential of {VERSION}"),
    ],
)
def test_a_command_says_in_a_sentence_how_the_plugin_failed(
    api: Guarded, plugin: ExecPlugin, tmp_path: Path, does: str, said: str
) -> None:
    plugin.does(does)
    file = kubeconfig(tmp_path, api.url, plugin.user)
    told = f"user me of context there in kubeconfig {file} has no credentials now: exec plugin"
    assert_one_sentence(COMMANDS["ungate"](tmp_path, file), f"{told} {plugin.command} ", said)
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
    api: Guarded, plugin: ExecPlugin, tmp_path: Path, complaint: str
) -> None:
    plugin.does(f"cat >&2 <<'END'\n{complaint}\nEND\nexit 1")
    file = kubeconfig(tmp_path, api.url, plugin.user)
    line = assert_one_sentence(COMMANDS["ungate"](tmp_path, file), "ended with status 1: ")
    assert base64.urlsafe_b64encode(SECRET.encode()).decode()[:20] not in line


def test_a_plugin_that_is_not_there_is_named(api: Guarded, tmp_path: Path) -> None:
    user = {"exec": {"apiVersion": VERSION, "command": "no-such-login"}}
    file = kubeconfig(tmp_path, api.url, user)
    said = "exec plugin no-such-login cannot be run: No such file or directory"
    assert_one_sentence(COMMANDS["ungate"](tmp_path, file), said)


def test_a_plugin_runs_as_client_go_runs_it(
    api: Guarded, plugin: ExecPlugin, tmp_path: Path
) -> None:
    plugin.does(
        'echo "$KUBERNETES_EXEC_INFO" > info; echo "$REGION $1" > given\n'
        + credential(token="good")
    )
    user = plugin.user
    user["exec"] |= {
        "command": "./plugin/login",
        "args": ["now"],
        "env": [{"name": "REGION", "value": "north"}],
        "provideClusterInfo": True,
    }
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "k"}}
    file = kubeconfig(tmp_path, api.url, user, cluster={"extensions": [extension]})
    assert COMMANDS["ungate"](tmp_path, file).exit_code == 0
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
    file = kubeconfig(tmp_path, api.url, plugin.user | other)
    assert COMMANDS["ungate"](tmp_path, file).exit_code == 0
    assert plugin.runs == 0


def test_a_token_that_has_ended_when_it_comes_does_not_make_the_plugin_run_for_each_call(
    api: Guarded, plugin: ExecPlugin, bench: Workbench, tmp_path: Path
) -> None:
    # By the clock of the API, the token goes on for a while.
    api.tokens = {"ended"}
    plugin.does(printing("ended", -60))
    names = [f"web-{number}" for number in range(100)]
    for name in names:
        api.put_pod(name, f"uid-{name}")
    served = Served(bench, tmp_path, kubeconfig(tmp_path, api.url, plugin.user), fast=False)
    until(served.is_ready, "kubextend is ready")
    before = plugin.runs
    assert [served.bind(name) for name in names] == [""] * 100
    assert plugin.runs < before + 15
    assert api.anonymous_calls == 0


def test_tokens_that_the_api_never_accepts_do_not_make_the_plugin_run_for_each_call(
    api: Guarded, plugin: ExecPlugin, bench: Workbench, tmp_path: Path
) -> None:
    """client-go runs a plugin again after a 401, and kubextend waits ever longer to do so."""
    plugin.does(credential(token="good-$(wc -c < runs)").replace("'END'", "END"))
    served = Served(bench, tmp_path, kubeconfig(tmp_path, api.url, plugin.user), fast=False)
    until(lambda: plugin.runs > 2, "the plugin is asked again and again")
    before = plugin.runs
    for _ in range(10):
        assert "the API does not accept user me" in served.bind()
    assert plugin.runs < before + 8
    assert len({headers["Authorization"] for _, _, headers, _ in api.requests}) > 2


@pytest.mark.parametrize(
    ("provider", "said"),
    [
        ({"name": "oidc", "config": {"id-token": "no.jwt"}}, "nothing came of its auth-provider"),
        ({"name": "oidc", "config": {}}, "has no credentials now"),
        ({"name": "oidc"}, "nothing came of its auth-provider"),
        ({"name": "azure", "config": {}}, "nothing came of its auth-provider"),
        ({"name": "gcp", "config": {"cmd-path": "no-such-gcloud"}}, "has no credentials now"),
        ({"name": "gcp"}, "has no credentials now"),
    ],
)
def test_an_auth_provider_that_gives_nothing_is_no_way_to_go_on_as_nobody(
    api: Guarded, tmp_path: Path, provider: dict[str, Any], said: str
) -> None:
    file = kubeconfig(tmp_path, api.url, {"auth-provider": provider})
    assert_one_sentence(COMMANDS["ungate"](tmp_path, file), said)
    assert api.requests == []


def test_an_oidc_provider_that_does_not_answer_is_named(api: Guarded, tmp_path: Path) -> None:
    ended = base64.urlsafe_b64encode(b'{"exp": 1}').decode().rstrip("=")
    config = {
        "id-token": f"e30.{ended}.sig",
        "refresh-token": SECRET,
        "client-id": "k",
        "client-secret": SECRET,
        "idp-issuer-url": "https://127.0.0.1:1",
    }
    file = kubeconfig(tmp_path, api.url, {"auth-provider": {"name": "oidc", "config": config}})
    assert_one_sentence(COMMANDS["ungate"](tmp_path, file), "has no credentials now: ", "127.0.0.1")


class TlsApi(ScriptedApi):
    """A scripted API with TLS that asks for a client's certificate; only http calls it by itself.

    Attributes:
        authority: the authority of its certificate and of the clients' certificates.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.authority = Authority(folder / "pki")

    def __enter__(self) -> Self:
        pair = self.authority.issue("server")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pair.cert, pair.key)
        context.load_verify_locations(self.authority.cert)
        context.verify_mode = ssl.CERT_REQUIRED
        api = self

        class Handler(Request):
            server_api = api

        self._served = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._served.daemon_threads = True
        self._served.socket = context.wrap_socket(self._served.socket, server_side=True)
        threading.Thread(target=self._served.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._served.shutdown()
        self._served.server_close()

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._served.server_port}"


@pytest.fixture
def tls_api(tmp_path: Path) -> Iterator[TlsApi]:
    with TlsApi(tmp_path) as api:
        yield api


def test_a_plugin_may_print_a_certificate(
    tls_api: TlsApi, plugin: ExecPlugin, tmp_path: Path
) -> None:
    pair = tls_api.authority.issue("client")
    certificate, key = pair.cert.read_text(), pair.key.read_text()
    plugin.does(credential(clientCertificateData=certificate, clientKeyData=key))
    cluster = {"certificate-authority": str(tls_api.authority.cert)}
    file = kubeconfig(tmp_path, tls_api.url, plugin.user, cluster=cluster)
    done = COMMANDS["ungate"](tmp_path, file)
    assert done.exit_code == 0, done.output
    assert "Authorization" not in tls_api.requests[-1][2]
    plugin.does(credential(clientCertificateData=certificate, clientKeyData="no key"))
    assert_one_sentence(COMMANDS["ungate"](tmp_path, file), "has no credentials now", "certificate")


@pytest.mark.parametrize("missing", ["client-certificate", "client-key"])
def test_a_certificate_whose_file_is_missing_is_named(
    tls_api: TlsApi, tmp_path: Path, missing: str
) -> None:
    pair = tls_api.authority.issue("client")
    user = {"client-certificate": str(pair.cert), "client-key": str(pair.key)}
    cluster = {"certificate-authority": str(tls_api.authority.cert)}
    file = kubeconfig(tmp_path, tls_api.url, user | {missing: "gone.pem"}, cluster=cluster)
    told = f"user me of context there in kubeconfig {file} has no credentials now"
    assert_one_sentence(COMMANDS["ungate"](tmp_path, file), told, str(tmp_path / "gone.pem"))
    assert tls_api.requests == []
    file = kubeconfig(tmp_path, tls_api.url, user, cluster=cluster)
    assert COMMANDS["ungate"](tmp_path, file).exit_code == 0


UNUSABLE: dict[str, tuple[Any, str]] = {
    "no YAML": ("clusters: [", "while parsing"),
    "a list": ("- a\n- b\n", "does not list clusters, contexts and users"),
    "a word": ("word", "does not list clusters, contexts and users"),
    "empty": ("", "does not list clusters, contexts and users"),
    "binary": (b"\x80\xff\x00", "cannot be used"),
    "no names": ({"users": [{"user": {"token": SECRET}}]}, "does not list clusters, contexts"),
    "no list": ({"contexts": "there"}, "does not list clusters, contexts and users"),
    "unknown context": ({"current-context": "elsewhere"}, "it has no context 'elsewhere'"),
    "no context": ({"current-context": ""}, "it has no context ''"),
    "unknown user": ({"users": []}, "it has no user 'me'"),
    "unknown cluster": ({"clusters": []}, "it has no cluster 'c'"),
    "no cluster": ({"clusters": [{"name": "c"}]}, "needs `server: https://...`"),
    "a secret where it does not belong": (
        {"clusters": [{"name": "c", "token": SECRET}], "users": [{"name": "me", "token": SECRET}]},
        "needs `server: https://...`",
    ),
    "CA missing": ({"ca": {"certificate-authority": "no-ca.pem"}}, "no-ca.pem"),
    "CA unreadable": (
        {"ca": {"certificate-authority": "kube.config"}},
        "kube.config cannot be used",
    ),
    "CA no base64": ({"ca": {"certificate-authority-data": "a"}}, "cannot be used"),
    "CA no PEM": ({"ca": {"certificate-authority-data": "YWJj"}}, "cannot be used as certificate"),
    "no URL": ({"ca": {"server": "https://["}}, "cannot be used"),
    "no port": ({"ca": {"server": "https://a:b"}}, "needs `server: https://...`"),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("case", UNUSABLE)
def test_a_kubeconfig_that_nobody_can_use_is_told_in_a_sentence(
    tmp_path: Path, command: str, case: str
) -> None:
    wrong, said = UNUSABLE[case]
    user = {"token": SECRET}
    if isinstance(wrong, dict):
        cluster = wrong.get("ca", {})
        more = {key: value for key, value in wrong.items() if key != "ca"}
        file = kubeconfig(tmp_path, "https://127.0.0.1:1", user, cluster=cluster, **more)
    else:
        file = tmp_path / "kube.config"
        file.write_bytes(wrong if isinstance(wrong, bytes) else wrong.encode())
    done = COMMANDS[command](configuration(tmp_path, file), file)
    assert_one_sentence(done, f"kubeconfig {file}", said)


@pytest.mark.parametrize("command", ["why", "doctor"])
@pytest.mark.parametrize("case", ["no YAML", "a list", "unknown user", "CA unreadable"])
def test_who_asks_for_help_is_told_of_a_kubeconfig_that_nobody_can_use(
    tmp_path: Path, command: str, case: str
) -> None:
    wrong, said = UNUSABLE[case]
    file = tmp_path / "kube.config"
    if isinstance(wrong, dict):
        more = {key: value for key, value in wrong.items() if key != "ca"}
        kubeconfig(tmp_path, "https://127.0.0.1:1", {}, cluster=wrong.get("ca", {}), **more)
    else:
        file.write_text(wrong)
    config = configuration(tmp_path, file)
    arguments = ["why", "web"] if command == "why" else ["doctor"]
    done = run(*arguments, "--config", config)
    assert isinstance(done.exception, SystemExit), done.exception
    assert f"kubeconfig {file}" in done.output
    assert said in done.output


PROXIES = {
    "socks5://proxy.example:1080": "socks5://proxy.example:1080",
    "SOCKS5H://proxy.example": "SOCKS5H://proxy.example",
    "socks4://proxy.example": "socks4://proxy.example",
    f"socks5h://me:{SECRET}@proxy.example:1": "socks5h://proxy.example:1",
    f"socks5h://me:{SECRET}/@{SECRET}@proxy.example:1": "socks5h://proxy.example:1",
    "proxy.example:3128": "proxy.example:3128",
    f"me:{SECRET}@proxy.example:3128": "proxy.example:3128",
    "10.0.0.1:3128": "10.0.0.1:3128",
    "http://": "http://",
    "http://proxy.example:port": "http://proxy.example:port",
    "ftp://proxy.example": "ftp://proxy.example",
}
"""Proxies that kubextend cannot use, as it may tell them."""


@pytest.mark.parametrize("command", [*COMMANDS, "why", "doctor"])
@pytest.mark.parametrize(
    "setting", ["proxy-url", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"]
)
def test_every_command_says_where_a_proxy_is_named_that_it_cannot_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, setting: str
) -> None:
    proxy = f"socks5h://me:{SECRET}@proxy.example:1080"
    cluster = {"proxy-url": proxy} if setting == "proxy-url" else {}
    if setting != "proxy-url":
        monkeypatch.setenv(setting, proxy)
    file = kubeconfig(tmp_path, "https://10.0.0.1:6443", {"token": "good"}, cluster=cluster)
    config = configuration(tmp_path, file)
    where = f"proxy-url of kubeconfig {file}" if setting == "proxy-url" else setting
    told = f"{where} names the proxy socks5h://proxy.example:1080: use one with http:// or https://"
    if command in COMMANDS:
        assert_one_sentence(COMMANDS[command](config, file), told)
        return
    done = run(*(["why", "web"] if command == "why" else ["doctor"]), "--config", config)
    assert isinstance(done.exception, SystemExit), done.exception
    assert told in done.output
    assert SECRET not in done.output


@pytest.mark.parametrize(("proxy", "shown"), PROXIES.items())
def test_a_proxy_that_cannot_be_used_is_told_without_its_user(
    tmp_path: Path, proxy: str, shown: str
) -> None:
    file = kubeconfig(tmp_path, "https://10.0.0.1:6443", {}, cluster={"proxy-url": proxy})
    done = COMMANDS["ungate"](tmp_path, file)
    assert_one_sentence(done, f"proxy-url of kubeconfig {file} names the proxy {shown}: use one")


def test_a_proxy_that_is_not_for_the_api_is_of_no_interest(
    api: Guarded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "socks5://proxy.example:1080")
    file = kubeconfig(tmp_path, api.url, {"token": "good"})
    assert COMMANDS["ungate"](tmp_path, file).exit_code == 0
    monkeypatch.setenv("ALL_PROXY", "socks5://proxy.example:1080")
    assert COMMANDS["ungate"](tmp_path, file).exit_code == 1
    monkeypatch.setenv("NO_PROXY", "localhost,127.0.0.0/8")
    assert COMMANDS["ungate"](tmp_path, file).exit_code == 0
    # A check asks no API.
    monkeypatch.delenv("NO_PROXY")
    done = run("check", configuration(tmp_path, file))
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("setting", ["proxy-url", "HTTP_PROXY", "all_proxy"])
def test_the_api_is_reached_by_an_http_proxy_that_wants_a_password(
    api: Guarded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    proxy = f"http://me:p%40ss@127.0.0.1:{api.port}"
    cluster = {"proxy-url": proxy} if setting == "proxy-url" else {}
    if setting != "proxy-url":
        monkeypatch.setenv(setting, proxy)
    # The scripted API stands for the proxy and for the API.
    file = kubeconfig(tmp_path, "http://kube.invalid", {"token": "good"}, cluster=cluster)
    done = COMMANDS["ungate"](tmp_path, file)
    assert done.exit_code == 0, done.output
    _, path, headers, _ = api.requests[-1]
    assert path.startswith("http://kube.invalid/api/v1/pods")
    assert {k.lower(): v for k, v in headers.items()}[
        "proxy-authorization"
    ] == f"Basic {base64.b64encode(b'me:p@ss').decode()}"


def test_a_proxy_that_is_not_there_is_told_without_its_password(tmp_path: Path) -> None:
    proxy = f"http://me:{SECRET}@127.0.0.1:1"
    file = kubeconfig(
        tmp_path, "https://kube.invalid", {"token": "x"}, cluster={"proxy-url": proxy}
    )
    assert_one_sentence(COMMANDS["ungate"](tmp_path, file), "GET /api/v1/pods: ")
