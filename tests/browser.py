"""Drives Chromium over its DevTools pipe: no port, no driver and no package is needed.

Source: https://chromedevtools.github.io/devtools-protocol/, --remote-debugging-pipe
"""

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import time
from base64 import b64decode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

PATIENT_S = 60.0
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--no-proxy-server",
    # The browser finds no other machine, whatever the page or the browser itself asks for.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)


class BrowserError(Exception):
    """Raised if Chromium ends, does not answer, or a script of a test fails."""


class Browser:
    """A Chromium with one page, and its profile in a new folder."""

    def __init__(self, folder: Path) -> None:
        program = shutil.which("chromium")
        assert program is not None, "chromium is not installed: run make test"
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        # Chromium reads commands from descriptor 3, and writes answers and events to descriptor 4.
        command = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out} > "$0" 2>&1'
        arguments = [*FLAGS, f"--user-data-dir={folder / 'profile'}", "--remote-debugging-pipe"]
        self._log = folder / "chromium.log"
        self._process = subprocess.Popen(
            ["bash", "-c", command, self._log, program, *arguments, "about:blank"],
            pass_fds=(theirs_in, theirs_out),
            start_new_session=True,
        )
        for each in (theirs_in, theirs_out):
            os.close(each)
        self._in, self._out = ours_in, ours_out
        self._read = b""
        self._last_id = 0
        self._session = ""
        self.events: list[dict[str, Any]] = []
        targets = self.command("Target.getTargets")["targetInfos"]
        page = next(each["targetId"] for each in targets if each["type"] == "page")
        attach = self.command("Target.attachToTarget", targetId=page, flatten=True)
        self._session = attach["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.command(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(BrowserError, OSError):
            self._session = ""
            self.command("Browser.close")
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(PATIENT_S)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._in)
        os.close(self._out)

    def command(self, method: str, **parameters: Any) -> Any:
        """Send a command of the DevTools protocol, and return its result."""
        self._last_id += 1
        message = {"id": self._last_id, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._message()
            if answer.get("id") != self._last_id:
                self.events.append(answer)
            elif "error" in answer:
                raise BrowserError(method, answer["error"])
            else:
                return answer["result"]

    def open(self, url: str) -> None:
        """Open a page; ``until`` waits for what it shows."""
        self.command("Page.navigate", url=url)

    def run(self, script: str) -> Any:
        """Return the value of a JavaScript expression in the page; a promise is awaited."""
        parameters = {"returnByValue": True, "awaitPromise": True, "userGesture": True}
        done = self.command("Runtime.evaluate", expression=script, **parameters)
        if "exceptionDetails" in done:
            raise BrowserError(script, done["exceptionDetails"])
        return done["result"].get("value")

    def until(self, script: str) -> None:
        """Wait until a JavaScript expression is true in the page, or an element or a text."""
        deadline = time.monotonic() + PATIENT_S
        while time.monotonic() < deadline:
            # While a page is loading, its elements are missing.
            with contextlib.suppress(BrowserError):
                if self.run(f"Boolean({script})"):
                    return
            time.sleep(0.02)
        shown = self.run("document.body.innerText")
        raise BrowserError(script, "is never true", shown, *self.complaints())

    def until_event(self, method: str, holds: Callable[[Any], bool]) -> None:
        """Wait until the browser has logged an event whose parameters fulfil a condition."""
        deadline = time.monotonic() + PATIENT_S
        while not any(holds(each["params"]) for each in self._events(method)):
            assert time.monotonic() < deadline, f"{method} is never logged"
            # Events come with the answers to commands.
            self.run("0")
            time.sleep(0.02)

    def type(self, selector: str, text: str) -> None:
        """Put the focus on an element, and type a text as a person does."""
        self.run(f"document.querySelector({json.dumps(selector)}).focus()")
        self.command("Input.insertText", text=text)

    def press(self, key: str, code: int, text: str = "") -> None:
        """Press and release a key, given its name, its code on Windows, and the text it makes."""
        down = {"text": text} if text else {}
        for kind, more in (("keyDown" if text else "rawKeyDown", down), ("keyUp", {})):
            named = {"key": key, "code": key, "windowsVirtualKeyCode": code}
            self.command("Input.dispatchKeyEvent", type=kind, **named, **more)

    def size(self, width: int, height: int) -> None:
        """Set the size of the window in pixels."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.command("Emulation.setDeviceMetricsOverride", **metrics)

    def media(self, media: str = "", **features: str) -> None:
        """Show the page for a medium, or with features such as prefers_color_scheme."""
        named = [{"name": k.replace("_", "-"), "value": v} for k, v in features.items()]
        self.command("Emulation.setEmulatedMedia", media=media, features=named)

    def screenshot(self, file: Path) -> None:
        """Write a picture of the page as PNG."""
        file.write_bytes(b64decode(self.command("Page.captureScreenshot", format="png")["data"]))

    def requests(self) -> list[str]:
        """Return the URLs of all requests since the start, as the browser logged them."""
        sent = self._events("Network.requestWillBeSent")
        urls = [each["params"]["request"]["url"] for each in sent]
        return [url for url in urls if url != "about:blank"]

    def complaints(self) -> list[str]:
        """Return the errors that the browser logged: exceptions, refused loads, policies."""
        thrown = self._events("Runtime.exceptionThrown")
        entries = [each["params"]["entry"] for each in self._events("Log.entryAdded")]
        errors = [each for each in entries if each["level"] == "error"]
        return [str(each["params"]["exceptionDetails"]) for each in thrown] + [
            f"{each['text']} {each.get('url', '')}" for each in errors
        ]

    def _events(self, method: str) -> Iterator[dict[str, Any]]:
        return (each for each in self.events if each.get("method") == method)

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self._read:
            ready, _, _ = select.select([self._in], [], [], PATIENT_S)
            more = os.read(self._in, 1 << 20) if ready else b""
            if not more:
                raise BrowserError(self._log.read_text()[-2000:], "chromium does not answer")
            self._read += more
        message, _, self._read = self._read.partition(b"\0")
        return json.loads(message)
