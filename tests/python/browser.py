"""A headless browser for tests of pages, controlled through the DevTools protocol over a pipe. Needs
only the standard library and an installed Chromium or Chrome.
"""
import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def find():
    """Return the path of a browser, or None. ANYACCEL_TEST_BROWSER overrides it."""
    return os.environ.get("ANYACCEL_TEST_BROWSER") or next((path for name in NAMES if (path := shutil.which(name))), None)


def _pipe():
    """Return a pipe (read, write) whose descriptors are not 3 or 4."""
    low = os.pipe()
    high = tuple(fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 20) for fd in low)
    for fd in low:
        os.close(fd)
    return high


class Browser:
    """A context manager for a browser with one empty tab."""
    def __init__(self, folder, width=1440, height=1000, dark=False):
        self.folder, self.size, self.dark = folder, (width, height), dark
        self.messages, self.requests = [], []  # console messages, exceptions and requested URLs
        self.number, self.buffer = 0, b""

    def __enter__(self):
        (child_in, self.out), (self.into, child_out) = _pipe(), _pipe()
        width, height = self.size
        command = [
            find(), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
            "--disable-background-networking", "--remote-debugging-pipe", f"--user-data-dir={self.folder / 'browser'}",
            f"--window-size={width},{height}", "about:blank"
        ]
        # Chromium reads commands from descriptor 3 and writes answers to descriptor 4.
        script = f'exec "$@" 3</proc/self/fd/{child_in} 4>/proc/self/fd/{child_out}'
        self.process = subprocess.Popen(["/bin/sh", "-c", script, "sh", *command], pass_fds=(child_in, child_out),
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        os.close(child_in)
        os.close(child_out)
        target = self.call("Target.getTargets")["targetInfos"]
        page = next(t["targetId"] for t in target if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.page(domain + ".enable")
        self.page("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.page(
            "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if self.dark else "light"},
                                                    {"name": "prefers-reduced-motion", "value": "reduce"}])
        return self

    def __exit__(self, *error):
        try:
            self.call("Browser.close")
        except (OSError, TimeoutError):
            pass
        os.close(self.out)
        os.close(self.into)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def call(self, method, session=None, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters, **({"sessionId": session} if session else {})}
        os.write(self.out, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + 60
        while True:
            answer = self._receive(end - time.monotonic())
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def page(self, method, **parameters):
        return self.call(method, self.session, **parameters)

    def _receive(self, seconds):
        while b"\0" not in self.buffer:
            if seconds <= 0 or not select.select([self.into], [], [], seconds)[0]:
                raise TimeoutError("the browser does not answer")
            data = os.read(self.into, 1 << 20)
            if not data:
                raise TimeoutError("the browser ended")
            self.buffer += data
        text, self.buffer = self.buffer.split(b"\0", 1)
        event = json.loads(text)
        method, parameters = event.get("method"), event.get("params", {})
        if method == "Runtime.consoleAPICalled":
            self.messages.append(" ".join(str(a.get("value", a.get("description"))) for a in parameters["args"]))
        elif method == "Runtime.exceptionThrown":
            self.messages.append(parameters["exceptionDetails"].get("exception", {}).get("description") or str(parameters))
        elif method == "Log.entryAdded":
            self.messages.append(parameters["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        return event

    def open(self, url):
        """Load a page of the profiler and wait until it is ready."""
        self.page("Page.navigate", url=url)
        self.wait("document.documentElement?.dataset.ready")

    def run(self, script):
        """Return the value of a JavaScript expression."""
        result = self.page("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{script}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait(self, script, seconds=30):
        """Wait until a JavaScript expression is true, and return it."""
        end = time.monotonic() + seconds
        while not (value := self.run(script)):
            if time.monotonic() > end:
                raise TimeoutError(f"still false: {script}")
            time.sleep(0.02)
        return value

    def frames(self, count=3):
        """Wait until the page has been drawn."""
        self.run(f"new Promise(done => {{ let n = {count}; const f = () => n-- ? requestAnimationFrame(f) : done(1); f(); }})")

    def key(self, key, shift=False):
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self.page("Input.dispatchKeyEvent", type=kind, key=key, modifiers=8 if shift else 0,
                      **(text if kind == "keyDown" else {}))
        self.frames()

    def type(self, text):
        self.page("Input.insertText", text=text)
        self.frames()

    def mouse(self, kind, x, y, **parameters):
        self.page("Input.dispatchMouseEvent", type=kind, x=x, y=y, **parameters)

    def click(self, x, y):
        self.drag(x, y, x, y)

    def drag(self, x0, y0, x1, y1):
        self.mouse("mouseMoved", x0, y0)
        self.mouse("mousePressed", x0, y0, button="left", buttons=1, clickCount=1)
        for step in (1, 2, 3) if (x0, y0) != (x1, y1) else ():
            self.mouse("mouseMoved", x0 + (x1 - x0) * step / 3, y0 + (y1 - y0) * step / 3, button="left", buttons=1)
        self.mouse("mouseReleased", x1, y1, button="left", clickCount=1)
        self.frames()

    def screenshot(self, path, clip=None):
        area = {"clip": {**clip, "scale": 1}, "captureBeyondViewport": True} if clip else {}
        path.write_bytes(base64.b64decode(self.page("Page.captureScreenshot", format="png", **area)["data"]))
