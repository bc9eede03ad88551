"""The page for browsers as HTTP sees it: its files, its headers, and who gets them."""

import re
import ssl
from pathlib import Path

import pytest
from live_server import Answer, Connection, serving, some_verbs
from page_world import page_world
from server_certificates import Authority

from kubextend.server import Access, TlsFiles, page_routes

FILES = ("/ui/", "/ui/page.css", "/ui/page.js")
TYPES = dict(zip(FILES, ("text/html", "text/css", "text/javascript"), strict=True))


@pytest.mark.parametrize("file", FILES)
def test_each_file_forbids_all_that_is_not_of_this_server(file: str, tmp_path: Path) -> None:
    with page_world(tmp_path) as world:
        answer = world.get(file, token="")
    assert answer.status == 200
    assert answer.headers["content-type"] == f"{TYPES[file]}; charset=utf-8"
    policy = dict(
        part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";")
    )
    assert policy == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "connect-src": "'self'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize("file", FILES)
def test_no_file_names_another_origin_or_makes_markup_of_text(file: str, tmp_path: Path) -> None:
    with page_world(tmp_path) as world:
        text = world.get(file).body.decode()
    assert not re.search(r"\w+://", text)
    markup = "innerHTML|outerHTML|insertAdjacentHTML|document.write|eval|Function\\("
    assert not re.search(f"{markup}|DOMParser|setHTML|localStorage|sessionStorage|cookie", text)
    assert not re.search(r"<[^>]*\s(on\w+|style)=", text)


def test_without_a_token_the_files_tell_nothing_of_pods(tmp_path: Path) -> None:
    with page_world(tmp_path) as world:
        before = [world.get(file, token="").body for file in FILES]
        world.filter("secret-pod", [])
        assert [world.get(file, token="").body for file in FILES] == before
        assert world.get("/overview", token="").status == 401


def test_the_page_is_below_the_path_of_the_server(tmp_path: Path) -> None:
    with page_world(tmp_path, path="/v1") as world:
        assert world.get("/v1/ui/").status == 200
        assert world.get("/ui/").status == 404


def test_the_page_takes_get_alone(tmp_path: Path) -> None:
    with page_world(tmp_path) as world, Connection(world.url) as connection:
        assert connection.post("/ui/", b"").status == 405


def test_where_only_certificates_count_nobody_else_gets_a_file(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ca")
    pair = authority.sign("server")
    verbs = some_verbs()
    routes = page_routes(Access(frozenset({"reader"}), setting="server.decisions"), verbs.metrics)
    tls = TlsFiles(pair.cert_file, pair.key_file, authority.file)

    def get(url: str, client: str, file: str) -> Answer:
        context = ssl.create_default_context(cafile=authority.file)
        shown = authority.sign(client)
        context.load_cert_chain(shown.cert_file, shown.key_file)
        with Connection(url, context) as connection:
            return connection.get(file)

    with serving(verbs, more_routes=routes, tls=tls) as url:
        for file in FILES:
            assert get(url, "reader", file).status == 200
            refused = get(url, "kube-scheduler", file)
            assert refused.status == 403
            assert refused.error.endswith("none of server.decisions.allowedNames")
