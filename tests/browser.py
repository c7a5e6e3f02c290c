"""A headless Chromium for tests, driven over its DevTools pipe without further packages.

Starts the browser, opens files, runs JavaScript, presses keys and takes screenshots. Records the
errors of the page and its network requests. Does not know about the report.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--mute-audio",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-default-apps", "--disable-extensions", "--hide-scrollbars",
    "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
)  # fmt: skip
PATIENCE = 60.0  # seconds to wait for an answer


def find_browser() -> str | None:
    """Return the program in the variable CHROMIUM, else the first of NAMES that is installed."""
    named = os.environ.get("CHROMIUM")
    return named or next((found for name in NAMES if (found := shutil.which(name))), None)


class Page:
    """A browser tab."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._in, self._out = to_browser, from_browser
        self._number, self._rest = 0, b""
        self._session: str | None = None
        self.complaints: list[str] = []  # exceptions, errors and warnings in the console
        self.requests: list[str] = []  # URLs that the page requested
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command of the DevTools protocol and return its answer."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._in, data) :]
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def _next(self) -> dict[str, Any]:
        end = time.monotonic() + PATIENCE
        while b"\0" not in self._rest:
            if not select.select([self._out], [], [], max(0.0, end - time.monotonic()))[0]:
                raise TimeoutError("the browser does not answer")
            part = os.read(self._out, 1 << 20)
            if not part:
                raise RuntimeError("the browser ended")
            self._rest += part
        raw, self._rest = self._rest.split(b"\0", 1)
        message = json.loads(raw)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, method: str, found: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            details = found["exceptionDetails"]
            self.complaints.append(details.get("exception", {}).get("description", str(details)))
        elif method == "Runtime.consoleAPICalled" and found["type"] in ("error", "warning"):
            self.complaints.append(str([a.get("value") for a in found["args"]]))
        elif method == "Log.entryAdded" and found["entry"]["level"] in ("error", "warning"):
            self.complaints.append(found["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(found["request"]["url"])

    def size(self, width: int, height: int, *, dark: bool = False, calm: bool = False) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)  # fmt: skip
        features = [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce" if calm else "no-preference"},
        ]
        self.call("Emulation.setEmulatedMedia", features=features)

    def open(self, file: Path) -> None:
        self.complaints, self.requests = [], []
        self.call("Page.navigate", url=Path(file).resolve().as_uri())
        self.wait("document.readyState === 'complete'")

    def run(self, script: str) -> Any:
        """Return the value of an expression; promises are awaited."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True,
                          awaitPromise=True, userGesture=True)  # fmt: skip
        if "exceptionDetails" in found:
            details = found["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description", str(details)))
        return found["result"].get("value")

    def wait(self, condition: str, seconds: float = 20.0) -> None:
        end = time.monotonic() + seconds
        while not self.run(condition):
            if time.monotonic() > end:
                raise TimeoutError(f"never: {condition}")
            time.sleep(0.05)

    def press(self, key: str, code: int = 0, text: str = "") -> None:
        """Press and release a key."""
        event = {"key": key, "windowsVirtualKeyCode": code, "text": text}
        self.call("Input.dispatchKeyEvent", type="keyDown", **event)
        self.call("Input.dispatchKeyEvent", type="keyUp", **event)

    def write(self, text: str) -> None:
        self.call("Input.insertText", text=text)

    def picture(self, file: Path, whole: bool = True) -> None:
        found = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        Path(file).write_bytes(base64.b64decode(found["data"]))

    def pdf(self) -> bytes:
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])


@contextmanager
def browser(program: str) -> Iterator[Page]:
    """Start a browser with a new profile, and end it with all its processes."""
    in_read, in_write = os.pipe()
    out_read, out_write = os.pipe()
    with tempfile.TemporaryDirectory(prefix="browser", ignore_cleanup_errors=True) as profile:
        command = [program, *FLAGS, f"--user-data-dir={profile}", "about:blank"]

        def pipes() -> None:  # the browser reads descriptor 3 and writes to 4
            os.dup2(os.dup(in_read), 3)
            os.dup2(os.dup(out_write), 4)

        process = subprocess.Popen(
            command,
            preexec_fn=pipes,
            close_fds=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(in_read)
        os.close(out_write)
        try:
            yield Page(in_write, out_read)
        finally:
            os.close(in_write)  # closing the pipe ends the browser
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            os.close(out_read)
