"""The page in a real Chromium: what it shows, what it asks for, and what it keeps to itself."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.doors.extender import NODES, node
from tests.doors.sockets import eventually
from tests.server.page_world import HOSTILE, READER, World, nodes, page_world

from browser import Browser
from decision_page import (
    NOT_SIGNED_IN,
    ROWS,
    SIGNED_IN,
    open_pod,
    refresh,
    rows,
    sign_in,
    step,
    text,
)

pytestmark = pytest.mark.slow

MANY = 15_000
ENTER, TAB = 13, 9


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("chromium")) as browser:
        yield browser


@pytest.fixture
def page(browser: Browser) -> Browser:
    """The browser with nothing open, and with no events of an earlier test."""
    browser.media()
    browser.size(1400, 1000)
    browser.open("about:blank")
    browser.until("location.href === 'about:blank'")
    browser.events.clear()
    return browser


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with page_world(tmp_path) as world:
        yield world


def signed_in(page: Browser, world: World) -> None:
    sign_in(page, world.url, READER)
    page.until(f"{SIGNED_IN} && document.querySelector('#pod-list table')")


def test_a_pod_that_fits_nowhere_is_shown_as_the_endpoints_tell_it(
    page: Browser, world: World
) -> None:
    world.filter("a", NODES)
    signed_in(page, world)
    open_pod(page, "ml", "a")
    (pod,) = world.json("/overview")["pods"]["items"]
    at = pod["at"][11:19]
    assert rows(page, "#pod-list") == [["ml/a", "Rejected", "0 of 2", at, ""]]
    assert "0 of 2 nodes passed" in step(page, "Filter")
    assert "NeedsSsd rejected 2 nodes: no ssd" in step(page, "Filter")
    for later in ("Score", "Permit", "Bind"):
        assert step(page, later) == f"{later}\nnot called"
    items = world.json("/decisions/u-a/nodes")["items"]
    assert rows(page, "#nodes") == [[each["node"], "", "yes", each["reason"]] for each in items]


def test_the_way_of_a_bound_pod_and_its_scores_are_shown_as_the_endpoints_tell_them(
    page: Browser, world: World
) -> None:
    world.filter("a", nodes(6))
    world.filter("a", nodes(6), "prioritize")
    world.bind("a", "node-3")
    signed_in(page, world)
    open_pod(page, "ml", "a")
    assert rows(page, "#pod-list")[0][1] == "Bound"
    assert "2 of 6 nodes passed" in step(page, "Filter")
    best = world.json("/decisions?pod=u-a")["attempts"][0]["calls"][1]["nodes"]["best"][0]
    assert f"best: {best['node']} with {best['total']}" in step(page, "Score")
    assert "passed" in step(page, "Permit")
    assert "bound to node node-3" in step(page, "Bind")
    items = world.json("/decisions/u-a/nodes")["items"]
    shown = {row[0]: row[1:] for row in rows(page, "#nodes")}
    assert len(shown) == len(items) == 6
    for item in items:
        total = str(item["scores"]["Spreads"]["weighted"])
        filtered = item["reason"] or "passed"
        if not item["reason"]:
            assert shown[item["node"]] == [total, "no", filtered, total]


def test_a_waiting_pod_is_listed_with_who_holds_it(page: Browser, world: World) -> None:
    world.filter("held", nodes(3))
    with world.held("held", "node-0"):
        signed_in(page, world)
        (held,) = world.json("/overview")["waiting"]["items"]
        since, until = (held[each][11:19] for each in ("since", "deadline"))
        assert rows(page, "#waiting") == [["ml/held", "node-0", "Holds", since, until]]
        dated = page.run(f"{ROWS.format('#waiting')}[0].cells[3].title")
        assert dated == held["since"][:19].replace("T", " ")
        open_pod(page, "ml", "held")
        assert "held by Holds" in step(page, "Permit")
        assert "waits for Permit" in step(page, "Bind")


def test_health_the_queue_and_plugins_are_shown_as_the_endpoints_tell_them(
    page: Browser, world: World
) -> None:
    world.filter("a", NODES)

    def in_trouble(told: Any) -> None:
        why = {"node-sync": "the nodes are not listed yet"}
        told["kubextend"] |= {"notReady": why, "openBreakers": ["NeedsSsd"]}
        told["queue"] = {"leads": False, "pods": {"ready": 12_345, "set_aside": 2}}

    def is_open(told: Any) -> None:
        (plugin,) = [each for each in told["items"] if each["name"] == "NeedsSsd"]
        plugin["breakerOpen"] = True

    world.changes |= {"/overview": in_trouble, "/plugins": is_open}
    signed_in(page, world)
    health = text(page, "#facts")
    assert "node-sync: the nodes are not listed yet" in health
    assert "Open breakers\nNeedsSsd" in health
    assert f"Configuration (SHA-256)\n{world.extender.config.sha256[:12]}" in health
    assert "Profile default-scheduler\nHolds, NeedsSsd, Spreads" in health
    queue = text(page, "#counts")
    assert "another replica leads" in queue
    assert "Queue: ready\n12,345" in queue
    assert "Queue: set aside\n2" in queue
    shown = [row for row in rows(page, "#latency") if row[0] == "NeedsSsd"]
    (plugin,) = [each for each in world.json("/plugins")["items"] if each["name"] == "NeedsSsd"]
    (point,) = plugin["extensionPoints"]
    seconds = [f"{point['seconds'][each] * 1000:.3f} ms" for each in ("p50", "p90", "p99", "max")]
    assert shown == [["NeedsSsd", "Filter", "open", "0", "1", *seconds]]


def test_names_and_reasons_of_tenants_never_become_markup(page: Browser, world: World) -> None:
    def in_trouble(told: Any) -> None:
        told["kubextend"]["notReady"] = {HOSTILE: HOSTILE}
        told["queue"] = {"leads": True, "pods": {HOSTILE: 1}}

    world.filter(HOSTILE, [node(HOSTILE)])
    world.changes["/overview"] = in_trouble
    signed_in(page, world)
    open_pod(page, "ml", HOSTILE)
    assert rows(page, "#pod-list")[0][0] == f"ml/{HOSTILE}"
    assert rows(page, "#nodes") == [[HOSTILE, "", f"yes: {HOSTILE}", HOSTILE]]
    assert text(page, "#pod-title") == f"Pod ml/{HOSTILE}"
    assert HOSTILE in step(page, "Filter")
    assert HOSTILE in text(page, "#facts")
    assert HOSTILE in text(page, "#counts")
    assert page.run("window.owned ?? ''") == ""
    assert page.run("document.querySelectorAll('img, iframe, object, embed, base').length") == 0
    assert page.run("[...document.scripts].map(each => each.getAttribute('src'))") == ["page.js"]
    links = page.run("[...document.links].map(each => each.getAttribute('href'))")
    assert all(link.startswith("#") for link in links)
    page.run("[...document.links].forEach(each => each.click())")
    assert page.run("window.owned ?? ''") == ""


def test_a_fragment_that_names_no_pod_is_shown_as_text(page: Browser, world: World) -> None:
    signed_in(page, world)
    image = "<img src=x onerror=owned=1>"
    for fragment, name in (("%3Cimg src=x onerror=owned=1%3E", image), ("%E0%A4%A", "%E0%A4%A")):
        page.run(f"location.hash = {json.dumps(fragment)}")
        page.until(f"document.querySelector('#pod-title').textContent === 'Pod {name}'")
        assert text(page, "#pod-state").startswith("kubextend has no record of this pod")
    assert page.run("document.querySelectorAll('img').length") == 0
    assert all(url.startswith(f"{world.url}/") for url in page.requests())


def test_no_request_leaves_the_origin_and_the_policy_stops_those_that_would(
    page: Browser, world: World
) -> None:
    world.filter("a", NODES)
    signed_in(page, world)
    open_pod(page, "ml", "a")
    asked = page.requests()
    assert all(url.startswith(f"{world.url}/") for url in asked)
    below = {url.removeprefix(world.url.rstrip("/")).partition("?")[0] for url in asked}
    pages = {"/ui/", "/ui/page.css", "/ui/page.js"}
    assert below == pages | {"/overview", "/plugins", "/decisions", "/decisions/u-a/nodes"}
    # The first question shows whether a certificate is enough.
    assert [each for each in page.complaints() if "401" not in each] == []
    page.run(
        "window.blocked = []; addEventListener('securitypolicyviolation', "
        "event => window.blocked.push(event.effectiveDirective))"
    )
    elsewhere = "http://127.0.0.1:9/"
    for attempt in (
        f"fetch('{elsewhere}').catch(() => 0)",
        f"const image = new Image(); image.src = '{elsewhere}'; document.body.append(image)",
        "document.body.innerHTML = '<b>'",
        "const each = document.createElement('script'); each.textContent = 'window.owned = 1'",
    ):
        page.run(f"(() => {{ try {{ {attempt} }} catch {{ }} }})()")
    page.until("window.blocked.length >= 4")
    blocked = set(page.run("window.blocked"))
    assert {"connect-src", "img-src", "require-trusted-types-for"} <= blocked
    assert page.run("window.owned ?? ''") == ""


def test_without_a_token_the_page_asks_for_one_and_shows_nothing(
    page: Browser, world: World
) -> None:
    world.filter("secret", NODES)
    page.open(f"{world.url}/ui/")
    page.until(NOT_SIGNED_IN)
    assert page.run("document.querySelector('#content').hidden")
    sign_in(page, world.url, "no-token-of-anybody")
    page.until("document.querySelector('#trouble').textContent.includes('no known bearer token')")
    assert "secret" not in page.run("document.documentElement.innerHTML")
    assert page.run("document.activeElement.id") == "token"


def test_the_token_is_nowhere_but_in_memory(page: Browser, world: World) -> None:
    world.filter("a", NODES)
    signed_in(page, world)
    kept = "[location.href, document.cookie, JSON.stringify(localStorage), "
    kept += "JSON.stringify(sessionStorage), document.documentElement.outerHTML, token.value]"
    assert READER not in "".join(page.run(f"{kept}.map(String)"))
    assert all(READER not in url for url in page.requests())
    page.command("Page.reload")
    page.until(NOT_SIGNED_IN)
    assert page.run("token.value") == ""


def test_a_token_that_is_forgotten_or_taken_back_empties_the_page(
    page: Browser, world: World, tmp_path: Path
) -> None:
    world.filter("secret", NODES)
    signed_in(page, world)
    open_pod(page, "ml", "secret")
    page.run("document.querySelector('#forget').click()")
    assert "secret" not in page.run("document.body.innerHTML")
    page.type("#token", READER)
    page.run("document.querySelector('#login button').click()")
    open_pod(page, "ml", "secret")
    (tmp_path / "token").write_text("another-token-of-readers")
    refresh(page)
    page.until(NOT_SIGNED_IN)
    assert "secret" not in page.run("document.body.innerHTML")


def test_fifteen_thousand_nodes_are_sorted_and_filtered_with_few_rows_in_the_document(
    page: Browser, world: World
) -> None:
    def column(number: int) -> list[str]:
        return [row[number] for row in rows(page, "#nodes")]

    many = nodes(MANY)
    world.filter("a", many)
    world.filter("a", many, "prioritize")
    signed_in(page, world)
    open_pod(page, "ml", "a")
    in_document = f"{ROWS.format('#nodes')}.length"
    of_all = "document.querySelector('#nodes table').getAttribute('aria-rowcount')"
    assert page.run(of_all) == "15001"
    assert page.run(in_document) < 100
    items = world.json("/decisions/u-a/nodes")["items"]
    assert len(items) == MANY
    # The columns are node, total, rejected, NeedsSsd and Spreads.
    page.run("document.querySelectorAll('#nodes th button')[4].click()")
    assert column(4)[:3] == ["0", "0", "0"]
    page.run("document.querySelectorAll('#nodes th button')[4].click()")
    weighted = [each["scores"]["Spreads"]["weighted"] for each in items]
    best = [each["node"] for each, score in zip(items, weighted, strict=True) if score == 200]
    shown = column(0)
    assert shown == best[: len(shown)]
    page.run("document.querySelectorAll('#nodes th button')[0].click()")
    page.run("document.querySelectorAll('#nodes th button')[0].click()")
    assert column(0)[:2] == ["node-14999", "node-14998"]
    page.run("document.querySelector('#nodes .scroll').scrollTop = 1e9")
    page.until(f"{ROWS.format('#nodes')}.at(-1).cells[0].textContent === 'node-0'")
    assert page.run(f"{ROWS.format('#nodes')}.at(-1).ariaRowIndex") == "15001"
    assert page.run(in_document) < 100
    heights = page.run(f"[...new Set({ROWS.format('#nodes')}.map(row => row.offsetHeight))]")
    assert heights == [26]
    page.type("#nodes input", "node-1499")
    assert sorted(column(0)) == ["node-1499", *(f"node-1499{last}" for last in range(10))]
    assert text(page, "#nodes [role=status]") == "11 of 15,000 rows"


def test_a_person_signs_in_sorts_and_opens_a_pod_with_the_keyboard_alone(
    page: Browser, world: World
) -> None:
    for name in ("b", "a"):
        world.filter(name, NODES)
    page.open(f"{world.url}/ui/")
    page.until("document.activeElement.id === 'token'")
    page.command("Input.insertText", text=READER)
    enter(page)
    page.until(f"{ROWS.format('#pod-list')}.length === 2")
    tab_to(page, "document.activeElement.textContent === 'Pod'")
    enter(page)
    page.until("document.querySelector('#pod-list th').ariaSort === 'ascending'")
    assert [row[0] for row in rows(page, "#pod-list")] == ["ml/a", "ml/b"]
    tab_to(page, "document.activeElement.textContent === 'ml/b'")
    world.filter("c", NODES)
    refresh(page)
    page.until(f"{ROWS.format('#pod-list')}.length === 3")
    # A refresh leaves the focus where it was.
    enter(page)
    page.until("document.activeElement.textContent === 'Pod ml/b'")


def enter(page: Browser) -> None:
    page.press("Enter", ENTER, text="\r")


def tab_to(page: Browser, script: str) -> None:
    """Press the tabulator until a JavaScript expression is true."""
    for _ in range(50):
        page.press("Tab", TAB)
        if page.run(script):
            return
    pytest.fail(f"the tabulator never makes it true: {script}")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_follows_the_scheme_of_the_browser(
    scheme: str, page: Browser, world: World
) -> None:
    page.media(prefers_color_scheme=scheme)
    signed_in(page, world)
    for element, is_dark in (("body", scheme == "dark"), ("th", scheme == "dark")):
        style = f"getComputedStyle(document.querySelector('{element}'))"
        ground, text_on_it = (page.run(f"{style}.{each}") for each in ("backgroundColor", "color"))
        assert (brightness(ground) < brightness(text_on_it)) is is_dark


def brightness(color: str) -> int:
    """Return the sum of the parts of ``rgb(…)``."""
    return sum(int(part) for part in color[4:-1].split(","))


def test_on_paper_are_the_first_five_hundred_rows_and_no_controls(
    page: Browser, world: World
) -> None:
    world.filter("a", nodes(600))
    signed_in(page, world)
    open_pod(page, "ml", "a")
    page.media("print")
    page.run("dispatchEvent(new Event('beforeprint'))")
    assert page.run(f"{ROWS.format('#nodes')}.length") == 500
    assert "The first 500 of 600 rows are printed." in text(page, "#nodes")
    assert page.run("getComputedStyle(controls).display") == "none"
    page.media()
    page.run("dispatchEvent(new Event('afterprint'))")
    assert page.run(f"{ROWS.format('#nodes')}.length") < 100


def test_while_other_readers_are_answered_the_page_waits(page: Browser, world: World) -> None:
    world.filter("asked", NODES)
    signed_in(page, world)
    # The page's own requests would take a place of the two readers.
    page.run("often.click()")
    plugin = world.extender.plugin("NeedsSsd")
    plugin.go_on.clear()
    before = plugin.asked
    readers = [
        threading.Thread(target=world.get, args=("/decisions?pod=ml/asked",)) for _ in range(2)
    ]
    try:
        for number, each in enumerate(readers, 1):
            each.start()
            eventually(lambda number=number: plugin.asked == before + number)
        world.filter("late", NODES)
        refresh(page)
    finally:
        plugin.go_on.set()
    page.until(f"{ROWS.format('#pod-list')}[0]?.textContent.startsWith('ml/late')")
    assert text(page, "#trouble") == ""
    for each in readers:
        each.join()
