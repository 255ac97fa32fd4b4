"""A headless Chromium, driven over a pair of pipes: the DevTools protocol needs no port, no driver and no package."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--disable-sync",
    "--remote-debugging-pipe",
)
PATIENCE = 30.0  # seconds until a browser that says nothing is taken for dead
KEYS = {"ArrowDown": 40, "ArrowUp": 38, "Home": 36, "End": 35, "Tab": 9, "Enter": 13, " ": 32}


class Browser:
    """Run one Chromium."""

    def __init__(self, program: str) -> None:
        import fcntl  # only where there is one: elsewhere the tests are skipped, not broken

        self._profile = tempfile.mkdtemp(prefix="rungwise-chromium-")
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()

        def place() -> None:  # the protocol is spoken on the descriptors 3 and 4
            ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (theirs_in, theirs_out)]
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        self._process = subprocess.Popen(
            [program, *FLAGS, f"--user-data-dir={self._profile}", "about:blank"],
            preexec_fn=place,
            close_fds=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._buffer = b""
        self._number = 0
        self.events: list[dict[str, Any]] = []

    def send(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """Send a command and return its result; events that arrive meanwhile are kept."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result

    def receive(self) -> dict[str, Any]:
        """Return the next message; an event is also kept."""
        killer = threading.Timer(PATIENCE, self._process.kill)
        killer.start()
        try:
            while b"\0" not in self._buffer:
                piece = os.read(self._in, 1 << 16)
                if not piece:
                    raise RuntimeError("the browser has gone")
                self._buffer += piece
        finally:
            killer.cancel()
        text, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        if "method" in message:
            self.events.append(message)
        return message

    def close(self) -> None:
        """End the browser and remove its profile."""
        try:
            self.send("Browser.close")
            self._process.wait(10)
        except (OSError, RuntimeError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        os.close(self._in)
        os.close(self._out)
        shutil.rmtree(self._profile, ignore_errors=True)


class Tab:
    """Be one page in the browser; what it logs and loads is remembered."""

    def __init__(self, browser: Browser, *, width: int = 1200, height: int = 900, dark: bool = False) -> None:
        self._browser = browser
        self._target = browser.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = browser.send("Target.attachToTarget", targetId=self._target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")
        self.size(width, height)
        self.prefer(dark=dark)

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command to this page."""
        return self._browser.send(method, self._session, **parameters)

    def size(self, width: int, height: int) -> None:
        """Set the size of the window."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def prefer(self, *, dark: bool = False, still: bool = False) -> None:
        """Set what the user prefers."""
        features = [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce" if still else "no-preference"},
        ]
        self.send("Emulation.setEmulatedMedia", features=features)

    def open(self, path: Path) -> Tab:
        """Load a file and wait until it has run."""
        del self._browser.events[:]
        self.send("Page.navigate", url=path.as_uri())
        while not self.events("Page.loadEventFired"):
            self._browser.receive()
        return self

    def events(self, method: str) -> list[dict[str, Any]]:
        """Return what this page has reported of one kind."""
        return [
            event["params"]
            for event in self._browser.events
            if event["method"] == method and event.get("sessionId") == self._session
        ]

    def run(self, expression: str) -> Any:
        """Evaluate an expression in the page and return its value."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"]["exception"].get("description"))
        return answer["result"].get("value")

    def press(self, key: str, modifiers: int = 0) -> None:
        """Press a key as a person would."""
        text = {"Enter": "\r", " ": " "}.get(key, "")
        one = {"key": key, "code": "Space" if key == " " else key, "windowsVirtualKeyCode": KEYS[key]}
        down = "keyDown" if text else "rawKeyDown"
        self.send("Input.dispatchKeyEvent", type=down, text=text, modifiers=modifiers, **one)
        self.send("Input.dispatchKeyEvent", type="keyUp", modifiers=modifiers, **one)

    def click(self, selector: str) -> None:
        """Click on the middle of an element with the mouse."""
        quoted = json.dumps(selector)
        self.run(f"document.querySelector({quoted}).scrollIntoView({{block: 'center'}})")
        box = self.run(
            f"(b => [b.x + b.width / 2, b.y + b.height / 2])(document.querySelector({quoted}).getBoundingClientRect())"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)

    def photograph(self, path: Path, *, whole: bool = True) -> None:
        """Write what is to be seen as a PNG."""
        data = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(data))

    def problems(self) -> list[Any]:
        """Return everything that went wrong: errors, warnings of the console, blocked or failed loads."""
        logged = [event["entry"]["text"] for event in self.events("Log.entryAdded")]
        thrown = [event["exceptionDetails"]["text"] for event in self.events("Runtime.exceptionThrown")]
        said = [event["type"] for event in self.events("Runtime.consoleAPICalled")]
        return [*logged, *thrown, *said]

    def requests(self) -> list[str]:
        """Return the address of everything that was asked for, the page itself included."""
        return [event["request"]["url"] for event in self.events("Network.requestWillBeSent")]

    def close(self) -> None:
        """Close the page."""
        self._browser.send("Target.closeTarget", targetId=self._target)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if os.name != "posix":
        pytest.skip("the browser is driven over inherited pipes, which need a POSIX system")
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.skip(f"no browser: none of {', '.join(PROGRAMS)} is installed (on Debian: apt-get install chromium)")
    chromium = Browser(program)
    try:
        yield chromium
    finally:
        chromium.close()


@pytest.fixture
def open_tab(browser: Browser) -> Iterator[Callable[..., Tab]]:
    tabs: list[Tab] = []

    def new(path: Path, **options: Any) -> Tab:
        tabs.append(Tab(browser, **options))
        return tabs[-1].open(path)

    yield new
    for tab in tabs:
        tab.close()
