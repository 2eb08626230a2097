"""Chromium, driven by Selenium, with an eye on its console and its requests."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

CHROMIUM, DRIVER = (shutil.which(name) for name in ("chromium", "chromedriver"))

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Parallel coordinates need WebGL, here in software.
    "--enable-unsafe-swiftshader",
)


class Browser:
    """A window with a report in it; `driver` is Selenium's."""

    def __init__(self, driver):
        self.driver = driver

    def show(self, page: Path, width: int, height: int, *, dark: bool = False, mobile: bool = False) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        # Selenium clicks where an element is, not where smooth scrolling will bring it.
        wishes = {"prefers-color-scheme": "dark" if dark else "light", "prefers-reduced-motion": "reduce"}
        features = [{"name": name, "value": value} for name, value in wishes.items()]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        self.logs()
        self.driver.get(page.as_uri())

    def run(self, script: str, *arguments):
        """What a script returns."""
        return self.driver.execute_script(script, *arguments)

    def draw(self, selector: str = ".plot") -> None:
        """Scrolls through the page until every figure that is selected is drawn."""
        from selenium.webdriver.support.ui import WebDriverWait

        drawn = (
            "const plot = [...document.querySelectorAll(arguments[0])].find((one) => !one.querySelector('.main-svg'));"
            "plot?.scrollIntoView({behavior: 'instant'}); return !plot;"
        )
        WebDriverWait(self.driver, 120, 0.1).until(lambda _: self.run(drawn, selector))

    def logs(self) -> list[str]:
        """Errors on the console since the last call."""
        return [
            entry["message"]
            for entry in self.driver.get_log("browser")
            if entry["level"] == "SEVERE" or "Content Security Policy" in entry["message"]
        ]

    def requests(self) -> set[str]:
        """Addresses asked for since the last call, but the browser's own pages."""
        messages = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        sent = [message["params"] for message in messages if message["method"] == "Network.requestWillBeSent"]
        return {item["request"]["url"] for item in sent if not item["documentURL"].startswith("chrome")}


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """A headless Chromium with a profile of its own; skips where it or Selenium is not installed."""
    if not (CHROMIUM and DRIVER):
        pytest.skip("needs Chromium: apt-get install chromium chromium-driver")
    pytest.importorskip("selenium", reason="needs Selenium: pip install 'convnet-search-workbench[browser]'")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    driver.set_page_load_timeout(120)
    try:
        yield Browser(driver)
    finally:
        driver.quit()
