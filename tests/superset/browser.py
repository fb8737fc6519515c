"""Chromium without a window, driven through Superset as a person would."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, Request, expect, sync_playwright

PATIENCE = 90_000
"""Milliseconds: a busy machine is slow, which is no fault."""
WORDS = (
    "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip


def chromium() -> str | None:
    """Where the browser is, if it is installed."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Traffic:
    """What the page has asked of Superset's interface, and has no answer to yet."""

    def __init__(self, page: Page) -> None:
        self._page, self._open = page, set[Request]()
        page.on("request", self._begin)
        for end in ("requestfinished", "requestfailed"):
            page.on(end, self._end)

    def _begin(self, request: Request) -> None:
        """A new page forgets what the old one asked: nobody reports that as finished."""
        if request.is_navigation_request():
            self._open.clear()
        elif "/api/" in request.url:
            self._open.add(request)

    def _end(self, request: Request) -> None:
        self._open.discard(request)

    def ended(self) -> None:
        """Wait until nothing was asked for a second: the page stands still."""
        quiet = 0
        for _ in range(PATIENCE // 100):
            self._page.wait_for_timeout(100)
            quiet = 0 if self._open else quiet + 1
            if quiet == 10:
                return
        raise AssertionError(f"{self._page.url} waits for {[request.url for request in self._open]}")


@contextmanager
def opened(address: str, profile: Path, name: str, password: str) -> Iterator[Page]:
    """A page of a fresh browser, logged in."""
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        playwright.selectors.set_test_id_attribute("data-test")
        context = playwright.chromium.launch_persistent_context(
            profile, executable_path=chromium(), headless=True, chromium_sandbox=False, args=list(WORDS),
            viewport={"width": 1280, "height": 900}, base_url=address, reduced_motion="reduce",
        )  # fmt: skip
        page = context.pages[0]
        page.set_default_timeout(PATIENCE)
        page.goto("/login/")
        page.fill("#username", name)
        page.fill("#password", password)
        page.click("button[type=submit]")
        page.wait_for_url("**/superset/welcome/**")
        yield page
        context.close()


def rest(page: Page, method: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """Superset's REST interface, with the session of the browser: what its own pages call."""
    token = page.request.get("/api/v1/security/csrf_token/").json()["result"]
    headers = {"X-CSRFToken": token, "Content-Type": "application/json", "Referer": page.url}
    answer = page.request.fetch(f"/api/v1/{path}", method=method, data=json.dumps(body), headers=headers)
    assert answer.ok, answer.text()
    found: dict[str, Any] = answer.json()
    return found


def seen(page: Page, *words: str) -> None:
    """All of these are on the page, and nothing that looks like a program's failure."""
    for each in words:
        expect(page.get_by_text(each).filter(visible=True).first).to_be_visible()
    assert not re.search(r"Traceback|psycopg2|File \"/|Unexpected error", page.inner_text("body"))
