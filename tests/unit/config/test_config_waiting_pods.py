"""Who may decide on waiting pods: what of it is refused, and with which words."""

from pathlib import Path
from typing import Any

import pytest
from config_world import KNOWN, Parse, Refusal, document

from kubextend import config
from kubextend.errors import ConfigError, Issue

GANG = [{"plugins": {"permit": {"enabled": [{"name": "Gang"}]}}}]


@pytest.fixture
def file(tmp_path: Path) -> str:
    """A file that has something in it."""
    path = tmp_path / "file"
    path.write_text("s3cret-and-long-enough\n")
    return str(path)


def held(waiting_pods: Any, **server: Any) -> dict[str, Any]:
    """A configuration with a Permit plugin and this ``server.waitingPods``."""
    server = {"waitingPods": waiting_pods} | server
    return document(server=server, cluster={}, profiles=GANG)


def tls(file: str) -> dict[str, str]:
    return {"certFile": file, "keyFile": file, "clientCAFile": file}


def test_nobody_may_unless_the_file_says_who(parse: Parse) -> None:
    assert parse(document()).server.waiting_pods is None


def test_names_or_tokens_are_enough(parse: Parse, file: str) -> None:
    by_name = parse(held({"allowedNames": ["ops", "ops.example"]}, tls=tls(file)))
    by_token = parse(held({"tokenFile": file}))
    assert by_name.server.waiting_pods == config.WaitingPods(allowedNames=("ops", "ops.example"))
    assert by_token.server.waiting_pods == config.WaitingPods(tokenFile=file)
    assert by_token.notes == ()
    assert [note for note in by_name.notes if "tlsConfig" not in note] == []


def test_nobody_at_all_is_refused(refusal: Refusal) -> None:
    for nobody in ({}, {"allowedNames": []}, {"tokenFile": ""}, {"tokenFile": None}):
        assert refusal(held(nobody)) == (
            Issue(
                "server.waitingPods",
                "names nobody who may decide on waiting pods",
                {},
                "set allowedNames to names of client certificates, or tokenFile, or both",
            ),
        )


def test_names_need_client_certificates(refusal: Refusal, file: str) -> None:
    without = Issue(
        "server.waitingPods.allowedNames",
        "needs server.tls.clientCAFile: nobody else asks clients for a certificate",
        ["ops"],
        "set server.tls.certFile, keyFile and clientCAFile, or use tokenFile",
    )
    assert refusal(held({"allowedNames": ["ops"]})) == (without,)
    half = {"certFile": file, "keyFile": file}
    assert refusal(held({"allowedNames": ["ops"], "tokenFile": file}, tls=half)) == (without,)


def test_an_empty_name_is_refused(refusal: Refusal, file: str) -> None:
    assert refusal(held({"allowedNames": ["ops", ""]}, tls=tls(file))) == (
        Issue("server.waitingPods.allowedNames[1]", "must not be empty", ""),
    )


def test_what_is_no_name_is_said_once(refusal: Refusal) -> None:
    assert refusal(held({"allowedNames": ["ops", 1, True]})) == (
        Issue("server.waitingPods.allowedNames[1]", "expected a string, found a number", 1),
        Issue("server.waitingPods.allowedNames[2]", "expected a string, found true or false", True),
    )
    assert refusal(held({"allowedNames": "ops"})) == (
        Issue(
            "server.waitingPods.allowedNames",
            "expected a list, found a string",
            "ops",
            "write [ops]",
        ),
    )


def test_an_unknown_field_is_refused(refusal: Refusal) -> None:
    assert refusal(held({"token": "s3cret-and-long-enough"})) == (
        Issue(
            "server.waitingPods.token",
            'unknown field "token"',
            "s3cret-and-long-enough",
            "did you mean tokenFile? known fields: allowedNames, tokenFile",
        ),
    )


def test_tokens_do_not_cross_a_network_in_plain_text(
    refusal: Refusal, parse: Parse, file: str
) -> None:
    tokens = {"tokenFile": file}
    assert refusal(held(tokens, host="10.0.0.1"))[-1] == Issue(
        "server.waitingPods.tokenFile",
        "its tokens would cross the network in plain text",
        file,
        "set server.tls.certFile and keyFile, or accept that with server.insecure: true",
    )
    for host in ("127.0.0.1", "::1", "localhost"):
        assert parse(held(tokens, host=host)).server.waiting_pods is not None
    for accepted in ({"insecure": True}, {"tls": tls(file)}):
        assert parse(held(tokens, host="10.0.0.1", **accepted)).server.waiting_pods is not None


def test_a_token_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    path, complaint = tmp_path / "tokens", "cannot be read: No such file or directory"
    tree = held({"tokenFile": str(path)})
    with pytest.raises(ConfigError) as caught:
        config.parse(tree, known=KNOWN)
    assert caught.value.issues == (Issue("server.waitingPods.tokenFile", complaint, str(path)),)
    # On another machine than the one it is to run on that is worth a note.
    assert config.parse(tree, known=KNOWN, runs_here=False).notes == (
        f"server.waitingPods.tokenFile: {path} {complaint}; `kubextend serve` will need it",
    )


def test_a_relative_file_that_is_not_there_is_named_with_the_folder_that_was_looked_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    looked = f"looked for {tmp_path / 'secrets/tokens'}"
    complaint = "cannot be read: No such file or directory"
    tree = held({"tokenFile": "secrets/tokens"})
    with pytest.raises(ConfigError) as caught:
        config.parse(tree, known=KNOWN)
    assert caught.value.issues == (
        Issue("server.waitingPods.tokenFile", complaint, "secrets/tokens", looked),
    )
    note = f"server.waitingPods.tokenFile: secrets/tokens {complaint}; {looked}"
    assert config.parse(tree, known=KNOWN, runs_here=False).notes == (
        f"{note}; `kubextend serve` will need it",
    )


def test_a_home_folder_in_a_path_is_noted_not_to_be_expanded() -> None:
    parsed = config.parse(held({"tokenFile": "~/tokens"}), known=KNOWN, runs_here=False)
    [note] = (each for each in parsed.notes if "tokenFile" in each)
    assert "~ is not expanded here; `kubextend serve` will need it" in note


def test_without_a_permit_plugin_it_is_noted_that_no_pod_waits(parse: Parse, file: str) -> None:
    assert parse(document(server={"waitingPods": {"tokenFile": file}})).notes == (
        "server.waitingPods: no profile has a Permit plugin, so no pod will ever wait",
    )
