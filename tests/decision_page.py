"""Reads and works the page that shows decisions, in a browser."""

import json

from browser import Browser

ROWS = "[...document.querySelectorAll('{} tbody tr[aria-rowindex]')]"
"""The rows of a table, by its place, that are in the document."""
SIGNED_IN = "!document.querySelector('#content').hidden"
NOT_SIGNED_IN = "!document.querySelector('#login').hidden"


def sign_in(page: Browser, url: str, token: str) -> None:
    """Open the page below a server's URL, and give a token; ``until`` waits for the answer."""
    page.open(f"{url.rstrip('/')}/ui/")
    page.until(NOT_SIGNED_IN)
    page.type("#token", token)
    page.run("document.querySelector('#login button').click()")


def open_pod(page: Browser, namespace: str, name: str) -> None:
    """Follow the link of a pod, and wait until the page shows what was decided about it."""
    named = json.dumps(f"{namespace}/{name}")
    link = f"[...document.querySelectorAll('#pod-list a')].find(a => a.textContent === {named})"
    page.until(link)
    page.run(f"{link}.click()")
    page.until(f"document.querySelector('#pod-title').textContent === 'Pod ' + {named}")


def refresh(page: Browser) -> None:
    """Click on the button that asks the server again; ``until`` waits for the answer."""
    page.run("document.querySelector('#refresh').click()")


def rows(page: Browser, place: str) -> list[list[str]]:
    """Return the texts of the cells of a table's rows that are in the document."""
    cells = "row => [...row.cells].map(cell => cell.textContent)"
    return page.run(f"{ROWS.format(place)}.map({cells})")


def table(page: Browser, place: str) -> list[dict[str, str]]:
    """Return the rows of a table that are in the document: name of a column -> text of a cell."""
    cells = f"[...document.querySelectorAll('{place} th button')].map(each => each.textContent)"
    names = page.run(cells)
    return [dict(zip(names, row, strict=True)) for row in rows(page, place)]


def text(page: Browser, selector: str) -> str:
    """Return the text of an element as the browser shows it."""
    return page.run(f"document.querySelector({json.dumps(selector)}).innerText")


def step(page: Browser, title: str) -> str:
    """Return the text of one step of a pod's way."""
    steps = page.run("[...document.querySelectorAll('#way > li')].map(li => li.innerText)")
    return next(each for each in steps if each.startswith(title))
