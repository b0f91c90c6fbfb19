"""A headless Chromium, driven by its DevTools protocol over a pipe."""

import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
DEADLINE = 60  # seconds


def find_browser():
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """One browser with one tab. What went wrong in the tab is in `problems`, what it asked for in `requests`."""

    def __init__(self, path):
        self.profile = tempfile.TemporaryDirectory(prefix="sluice-browser-", ignore_cleanup_errors=True)
        to_child, self.out = os.pipe()
        self.back, from_child = os.pipe()
        for fd in (to_child, from_child):
            os.set_inheritable(fd, True)

        def take_pipes():
            # The browser reads from 3 and writes to 4; first out of the way of each other.
            high = [os.dup2(fd, 50 + i) for i, fd in enumerate((to_child, from_child))]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self.process = subprocess.Popen(
            [path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
             "--no-first-run", "--disable-background-networking", "--remote-debugging-pipe",
             f"--user-data-dir={self.profile.name}", "about:blank"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=False, preexec_fn=take_pipes)
        os.close(to_child)
        os.close(from_child)
        self.buffer, self.next, self.answers, self.session = b"", 0, {}, None
        self.problems, self.requests, self.loaded = [], [], 0
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.out)
        os.close(self.back)
        self.profile.cleanup()

    def call(self, method, **params):
        self.next += 1
        message = {"id": self.next, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        number = self.next
        self.wait_for(lambda: number in self.answers, method)
        answer = self.answers.pop(number)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def wait_for(self, condition, what):
        end = time.monotonic() + DEADLINE
        while not condition():
            if not select.select([self.back], [], [], max(0, end - time.monotonic()))[0]:
                raise TimeoutError(f"the browser did not answer to {what}")
            got = os.read(self.back, 1 << 20)
            if not got:
                raise RuntimeError(f"the browser ended at {what}")
            *messages, self.buffer = (self.buffer + got).split(b"\0")
            for message in messages:
                self.take(json.loads(message))

    def take(self, message):
        if "id" in message:
            self.answers[message["id"]] = message
            return
        method, params = message["method"], message.get("params", {})
        if method == "Page.loadEventFired":
            self.loaded += 1
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method in ("Runtime.exceptionThrown", "Page.javascriptDialogOpening"):
            self.problems.append(json.dumps(params)[:500])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.problems.append(json.dumps(params)[:500])
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.problems.append(json.dumps(params["entry"])[:500])

    def open(self, url):
        before = self.loaded
        self.call("Page.navigate", url=url)
        self.wait_for(lambda: self.loaded > before, url)

    def run(self, script):
        """What a script in the page comes to, as JSON."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def look(self, width, dark=False, media="screen"):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", media=media,
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
