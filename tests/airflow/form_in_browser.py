"""Fills in the form of a DAG in Chromium and presses its button; run by Airflow's Python.

    python form_in_browser.py ADDRESS TOKEN DAG FIELD VALUE FOLDER

Prints as JSON: the words with which it was refused (none: it was taken), the address afterwards.
The folder, a new one, gets the browser's profile and a picture of the end, form.png.
"""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

PATIENCE_SECONDS = 120.0
SUBMIT = "document.querySelector('[data-testid=trigger-dag-submit]')"
ALERT = "document.querySelector('[role=dialog] [data-testid=error-alert]')"


class Page:
    """A page of a browser, by the DevTools protocol."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._number = 0

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol; events that come meanwhile are passed over."""
        self._number += 1
        request = {"id": self._number, "method": method, "params": parameters}
        self._connection.send(json.dumps(request))
        while True:
            answer = json.loads(self._connection.recv(PATIENCE_SECONDS))
            if answer.get("id") == self._number:
                return dict(answer["result"])

    def value(self, expression: str) -> Any:
        """Evaluate JavaScript."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait_for(self, expression: str) -> Any:
        """Evaluate it until it is something; gives that."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not (value := self.value(expression)):
            assert time.monotonic() < deadline, f"never {expression}"
            time.sleep(0.2)
        return value

    def press(self, expression: str) -> None:
        """Click in the middle of an element."""
        middle = f"""(() => {{ const element = {expression};
            element.scrollIntoView({{block: "center"}});
            const box = element.getBoundingClientRect();
            return [box.x + box.width / 2, box.y + box.height / 2]; }})()"""
        before = None
        while (place := self.value(middle)) != before:  # it may be on its way yet
            before = place
            time.sleep(0.3)
        x, y = place
        for kind in ("mousePressed", "mouseReleased"):
            where = {"x": x, "y": y, "button": "left", "clickCount": 1}
            self.call("Input.dispatchMouseEvent", type=kind, **where)

    def write(self, expression: str, text: str) -> None:
        """Type into a field, in place of what is there."""
        self.value(f"(() => {{ const field = {expression}; field.focus(); field.select(); }})()")
        self.call("Input.insertText", text=text)


def fill_in(page: Page, address: str, token: str, dag: str, field: str, value: str) -> Any:
    """Do it."""
    page.call("Network.setCookie", name="_token", value=token, url=address)
    page.call("Page.navigate", url=f"{address}/dags/{dag}")
    page.wait_for("!!document.querySelector('[data-testid=trigger-dag-button]')")
    page.press("document.querySelector('[data-testid=trigger-dag-button]')")
    entry = f"document.getElementById('element_{field}')"
    page.wait_for(f"!!{entry}")
    page.write(entry, value)
    page.wait_for(f"!{SUBMIT}.disabled")
    page.press(SUBMIT)
    # It closes, or says what is wrong.
    page.wait_for(f"!{SUBMIT} || !!{ALERT}")
    said = page.value(f"{ALERT} ? ({ALERT}.scrollIntoView(), {ALERT}.innerText) : null")
    return {"refused": said, "address": page.value("location.href")}


def main(address: str, token: str, dag: str, field: str, value: str, folder: str) -> None:
    """Start the browser, do it, and say what came out."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    assert browser, "no Chromium: install it, as in `apt-get install chromium`"
    profile = Path(folder) / "profile"
    options = ("--headless", "--no-sandbox", "--disable-gpu", "--window-size=1300,1400")
    quiet = ("--disable-background-networking", "--disable-component-update", "--disable-sync")
    told = ("--remote-debugging-port=0", f"--user-data-dir={profile}", "about:blank")
    process = subprocess.Popen(
        [browser, *options, *quiet, *told], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        with connect(page_of(profile), max_size=None) as connection:
            page = Page(connection)
            try:
                print(json.dumps(fill_in(page, address, token, dag, field, value)))
            finally:
                shot = page.call("Page.captureScreenshot")["data"]
                (Path(folder) / "form.png").write_bytes(base64.b64decode(shot))
    finally:
        process.terminate()
        process.wait(30)


def page_of(profile: Path) -> str:
    """The address at which the browser's only page is spoken to."""
    port = profile / "DevToolsActivePort"
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        if port.is_file() and (lines := port.read_text().split()):
            with urllib.request.urlopen(f"http://127.0.0.1:{lines[0]}/json") as answer:
                pages = [each for each in json.load(answer) if each["type"] == "page"]
            if pages:
                return str(pages[0]["webSocketDebuggerUrl"])
        time.sleep(0.1)
    raise AssertionError("the browser does not answer")


if __name__ == "__main__":
    main(*sys.argv[1:])
