"""A small client for a headless Chromium, by the DevTools protocol over two pipes. It needs no driver and no
port.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

ARGUMENTS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--window-size=1400,900",
    "--remote-debugging-pipe",
)  # fmt: skip


class Browser:
    """A browser with one page. `errors` has the exceptions and error messages of the page, `requests` the
    URLs that it requested.
    """

    def __init__(self, profile: Path) -> None:
        assert CHROMIUM is not None
        read, self._out = os.pipe()
        self._in, write = os.pipe()

        def descriptors() -> None:  # the browser reads from descriptor 3 and writes to 4
            theirs = os.dup(read), os.dup(write)
            os.dup2(theirs[0], 3)
            os.dup2(theirs[1], 4)

        self.process = subprocess.Popen(
            [CHROMIUM, *ARGUMENTS, f"--user-data-dir={profile}", "about:blank"],
            preexec_fn=descriptors, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(read)
        os.close(write)
        self.errors: list[str] = []
        self.requests: list[str] = []
        self._number, self._rest, self._session = 0, b"", ""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while (found := self._message()).get("id") != self._number:
            self._event(found)
        if "error" in found:
            raise RuntimeError(f"{method}: {found['error']}")
        return found["result"]

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            more = os.read(self._in, 1 << 20)
            if not more:
                raise RuntimeError("the browser has ended")
            self._rest += more
        first, _, self._rest = self._rest.partition(b"\0")
        return json.loads(first)

    def _event(self, event: dict[str, Any]) -> None:
        given = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            self.errors.append(str(given["exceptionDetails"]))
        elif event.get("method") == "Log.entryAdded" and given["entry"]["level"] == "error":
            self.errors.append(given["entry"]["text"])
        elif event.get("method") == "Network.requestWillBeSent":
            self.requests.append(given["request"]["url"])

    def open(self, path: Path, seconds: float = 60.0) -> int:
        """Opens a page of axla; returns the milliseconds until it was drawn, which the page itself
        measures.
        """
        self.call("Page.navigate", url=path.as_uri())
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with suppress(RuntimeError):  # the old page is being closed
                ready = self.run("document.documentElement?.dataset.ready")
                if ready and self.run("location.href") == path.as_uri():
                    return int(ready)
            time.sleep(0.02)
        raise AssertionError(f"{path} is not ready: {self.errors}")

    def run(self, script: str) -> Any:
        """The value of an expression in the page; a promise is awaited."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise AssertionError(f"{script}: {found['exceptionDetails']}")
        return found["result"].get("value")

    @contextmanager
    def frame(self) -> Iterator[None]:
        """Waits until the frame in the page is drawn. While the context is active, all methods act on the
        frame, which has no rights and a process of its own.
        """
        end = time.monotonic() + 60
        while not (
            found := [t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "iframe"]
        ):
            assert time.monotonic() < end, "the page has no frame"
        page = self._session
        self._session = self.call("Target.attachToTarget", targetId=found[0]["targetId"], flatten=True)[
            "sessionId"
        ]
        try:
            while not self.run("document.documentElement?.dataset.ready"):
                assert time.monotonic() < end, "the frame is not ready"
                time.sleep(0.02)
            yield
        finally:
            self._session = page

    def text(self, selector: str) -> str:
        return self.run(f"document.querySelector({json.dumps(selector)}).textContent")

    def texts(self, selector: str) -> list[str]:
        return self.run(f"[...document.querySelectorAll({json.dumps(selector)})].map((e) => e.textContent)")

    def values(self, selector: str, name: str) -> list[str]:
        """The attribute `name` of each element that matches a selector."""
        found = f"[...document.querySelectorAll({json.dumps(selector)})]"
        return self.run(f"{found}.map((e) => e.getAttribute({json.dumps(name)}))")

    def settle(self) -> None:
        """Waits until everything is drawn."""
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def count(self, selector: str) -> int:
        return self.run(f"document.querySelectorAll({json.dumps(selector)}).length")

    def click(self, selector: str, number: int = 0) -> None:
        """Clicks on element `number` of those that match a selector, by mouse events at its position."""
        place = self.run(
            f"(() => {{ const e = document.querySelectorAll({json.dumps(selector)})[{number}];"
            " e.scrollIntoView({block: 'nearest'}); const b = e.getBoundingClientRect();"
            " return [b.x + Math.min(b.width, 12) / 2, b.y + Math.min(b.height, 12) / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call(
                "Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1
            )

    def type(self, selector: str, text: str) -> None:
        """Replaces the text in a field by typing."""
        found = f"document.querySelector({json.dumps(selector)})"
        self.run(f"{found}.focus(); {found}.select()")
        self.call("Input.insertText", text=text)

    def slide(self, selector: str, value: int) -> None:
        """Moves a slider to a value."""
        self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.value = {value};"
            " e.dispatchEvent(new Event('input', {bubbles: true})); })()"
        )

    def picture(self, path: Path) -> Path:
        """Writes a screenshot to a file; returns its path."""
        self.settle()
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))
        return path

    def close(self) -> None:
        with suppress(RuntimeError, OSError):
            self._session = ""
            self.call("Browser.close")
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self._out)
        os.close(self._in)
