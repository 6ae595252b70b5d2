"""A headless Chromium, driven by the DevTools protocol over a pipe: what a user of the status page sees and does."""

import base64
import json
import os
import select
import shutil
import subprocess
import time

PATIENCE_SECONDS = 60
NAMES = ("chromium", "chromium-browser", "google-chrome")


def find_browser():
    """The browser's program, or None."""
    named = os.environ.get("HARMONAIZE_BROWSER")
    return named or next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One tab. `complaints` gathers what the console says, violations of the page's policy among them, and `requests`
    the addresses that were asked for."""

    def __init__(self, program, folder, width=1440, height=1000):
        to_browser, self.writer = os.pipe()
        self.reader, from_browser = os.pipe()
        # A test as root has no other user to be, and root's browser has no sandbox.
        root = ["--no-sandbox"] if os.getuid() == 0 else []
        words = [program, "--headless=new", "--remote-debugging-pipe", f"--user-data-dir={folder}", "--disable-gpu",
                 "--no-first-run", "--disable-dev-shm-usage", "--disable-background-networking", "--hide-scrollbars",
                 "--disable-extensions", f"--window-size={width},{height}", *root, "about:blank"]

        def place():
            # The protocol's descriptors are 3 and 4; copies, in case one of these is in the place of the other.
            reading, writing = os.dup(to_browser), os.dup(from_browser)
            high_reading, high_writing = os.dup2(reading, 103), os.dup2(writing, 104)
            os.dup2(high_reading, 3)
            os.dup2(high_writing, 4)

        self.said = open(f"{folder}.log", "wb")
        self.process = subprocess.Popen(words, preexec_fn=place, close_fds=False, stdin=subprocess.DEVNULL,
                                        stdout=self.said, stderr=self.said)
        os.close(to_browser)
        os.close(from_browser)
        self.rest = b""
        self.number = 0
        self.complaints = []
        self.requests = []
        self.instead = None
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Accessibility"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def close(self):
        try:
            self.session = None
            self.call("Browser.close")
        except (AssertionError, OSError):
            self.process.kill()
        self.process.wait(PATIENCE_SECONDS)
        os.close(self.writer)
        os.close(self.reader)
        self.said.close()

    def send(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.writer, json.dumps(message).encode() + b"\0")
        return self.number

    def call(self, method, **parameters):
        number = self.send(method, **parameters)
        while True:
            answer = self.next(time.monotonic() + PATIENCE_SECONDS)
            if answer is None:
                raise AssertionError(f"the browser does not answer {method}")
            if answer.get("id") == number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return answer["result"]

    def next(self, deadline):
        """The next message, or None at the deadline. What it tells of the page is noted."""
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.reader], [], [], max(0, deadline - time.monotonic()))
            if not ready:
                return None
            some = os.read(self.reader, 1 << 16)
            if not some:
                raise AssertionError("the browser has ended")
            self.rest += some
        text, self.rest = self.rest.split(b"\0", 1)
        message = json.loads(text)
        self.note(message)
        return message

    def note(self, message):
        parameters = message.get("params", {})
        if message.get("method") == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif message.get("method") == "Fetch.requestPaused":
            self.send("Fetch.fulfillRequest", requestId=parameters["requestId"], responseCode=200,
                      responseHeaders=[{"name": "Content-Type", "value": "application/json"}],
                      body=base64.b64encode(json.dumps(self.instead).encode()).decode())
        elif message.get("method") == "Log.entryAdded":
            self.complaints.append(f"{parameters['entry']['level']}: {parameters['entry']['text']}")
        elif message.get("method") == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.complaints.append(f"exception: {details.get('exception', {}).get('description', details['text'])[:400]}")
        elif message.get("method") == "Runtime.consoleAPICalled":
            said = [one.get("description") or one.get("value") for one in parameters["args"]]
            self.complaints.append(f"{parameters['type']}: {str(said)[:400]}")

    def listen(self, seconds):
        deadline = time.monotonic() + seconds
        while self.next(deadline) is not None:
            pass

    def answer_instead(self, path, document):
        """Has requests for a path answered with a document, as a daemon would that knows more."""
        self.instead = document
        self.call("Fetch.enable", patterns=[{"urlPattern": f"*{path}"}])

    def answer_no_more(self):
        self.call("Fetch.disable")

    def open(self, url):
        self.call("Page.navigate", url=url)

    def value(self, expression):
        """What a JavaScript expression comes to."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise AssertionError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def eventually(self, what, expression, seconds=PATIENCE_SECONDS):
        deadline = time.monotonic() + seconds
        while True:
            found = self.value(expression)
            if found:
                return found
            if time.monotonic() > deadline:
                shown = self.value("document.body.innerText")
                raise AssertionError(f"in {seconds} s it did not come about that {what}; the page shows:\n{shown}\n"
                                     f"and the console says {self.complaints}")
            self.listen(0.1)

    def text_of(self, selector):
        return self.value(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")

    def press(self, key, code=None, modifiers=0, text=None):
        for kind in ("keyDown", "keyUp"):
            event = {"type": kind, "key": key, "code": code or key, "modifiers": modifiers}
            number = {"Tab": 9, "Enter": 13, " ": 32}.get(key)
            if number:
                event["windowsVirtualKeyCode"] = number
            if kind == "keyDown" and (text or key == "Enter"):
                event["text"] = text or "\r"
            self.call("Input.dispatchKeyEvent", **event)

    def scheme(self, name):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def picture(self, path, height):
        """Writes what the page shows down to this height, as WebP."""
        width = self.value("document.documentElement.clientWidth")
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        shot = self.call("Page.captureScreenshot", format="webp", quality=75, clip=clip,
                         captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))
