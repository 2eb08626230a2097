"""The report in a real browser: no errors, no requests, usable by mouse and keyboard, on a phone and in the dark."""

from __future__ import annotations

import importlib

import pytest

from workbench.results.report import write_report
from workbench.testing import synthetic_study

pytestmark = pytest.mark.browser

DESKTOP, PHONE = (1440, 900), (375, 812)
TRIALS = 130
GROUND = "return document.querySelector('#plot-0-pareto .main-svg').style.background"


@pytest.fixture(scope="module")
def studies(tmp_path_factory):
    folder = tmp_path_factory.mktemp("studies")
    return [
        synthetic_study(folder / "one", trials=TRIALS, epochs=4, seed=3),
        synthetic_study(folder / "<img src=x onerror=alert(1)>", trials=30, epochs=9, seed=4, hyperband=True),
    ]


@pytest.fixture(scope="module")
def page(studies, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(importlib.import_module("workbench.results.plots.forest"), "TREES", 12)
        write_report(studies, path)
    return path


@pytest.fixture
def desktop(browser, page):
    browser.show(page, *DESKTOP)
    return browser


def find(browser, selector):
    from selenium.webdriver.common.by import By

    return browser.driver.find_element(By.CSS_SELECTOR, selector)


def wait(browser, script, value):
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(browser.driver, 20, 0.05).until(lambda _: browser.run(script) == value, f"{script} is {value!r}")


def column(browser, place):
    """The texts of a column (from 1) of the first leaderboard."""
    script = (
        "return [...document.querySelectorAll(`#board-0 tbody tr > :nth-child(${arguments[0]})`)].map(c => c.innerText)"
    )
    return browser.run(script, place)


def empty(browser):
    """Empties the filter by keys, as Selenium's `clear` sends no input event."""
    from selenium.webdriver.common.keys import Keys

    for keys in ((Keys.CONTROL, "a"), (Keys.DELETE,)):
        find(browser, "#board-0 .filter").send_keys(*keys)


def told(browser):
    return find(browser, "#board-0 .told").text


@pytest.mark.parametrize(("size", "dark"), [(DESKTOP, False), (DESKTOP, True), (PHONE, False), (PHONE, True)])
def test_it_is_drawn_without_errors_or_requests(browser, page, size, dark):
    browser.requests()
    browser.show(page, *size, dark=dark, mobile=size is PHONE)
    browser.draw()
    assert browser.logs() == []
    assert {url for url in browser.requests() if not url.startswith("data:")} == {page.as_uri()}
    assert browser.run("return document.querySelectorAll('.plot .traces, .plot .trace, .plot canvas').length") > 20
    assert browser.run("return document.documentElement.scrollWidth") <= size[0]
    assert browser.run("return getComputedStyle(document.body).backgroundColor") == (
        "rgb(15, 18, 22)" if dark else "rgb(244, 245, 247)"
    )
    assert browser.run(GROUND) == ("rgb(23, 27, 33)" if dark else "rgb(255, 255, 255)")


def test_a_heading_sorts_by_mouse_and_says_so(desktop, studies):
    scores = studies[0].trials()["score"].dropna()
    heading = find(desktop, "#board-0 th:nth-child(4)")
    assert heading.text.startswith("score")
    heading.find_element("tag name", "button").click()
    assert heading.get_attribute("aria-sort") == "descending"
    assert column(desktop, 4)[0] == f"{scores.max():.4f}"
    heading.find_element("tag name", "button").click()
    assert heading.get_attribute("aria-sort") == "ascending"
    shown = column(desktop, 4)
    assert shown == [f"{score:.4f}" for score in sorted(scores)[:50]]
    assert told(desktop) == f"Rows 1 to 50 of {TRIALS}, by score, ascending"


def test_the_keyboard_reaches_filter_headings_and_pages(desktop):
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.keys import Keys

    def press(*keys):
        ActionChains(desktop.driver).send_keys(*keys).perform()

    press(Keys.TAB)
    assert desktop.run("return document.activeElement.className") == "skip"
    press(Keys.ENTER)
    wait(desktop, "return location.hash", "#main")
    desktop.run("document.querySelector('#board-0 .filter').focus()")
    press("STATUS=Failed")
    wait(desktop, "return document.querySelectorAll('#board-0 tbody tr').length < 50", True)
    assert set(column(desktop, 3)) == {"failed"}
    assert told(desktop).endswith(f", of {TRIALS} in all")
    empty(desktop)
    wait(desktop, "return document.querySelectorAll('#board-0 tbody tr').length", 50)
    # Filter, status, the table's box, then the first heading.
    press(Keys.TAB, Keys.TAB, Keys.TAB)
    assert desktop.run("return document.activeElement.innerText") == "rank"
    assert desktop.run("return getComputedStyle(document.activeElement).outlineStyle") == "solid"
    press(Keys.ENTER, Keys.SPACE)
    assert find(desktop, "#board-0 th").get_attribute("aria-sort") == "descending"
    find(desktop, "#board-0 .next").send_keys(Keys.ENTER)
    assert told(desktop) == f"Rows 51 to 100 of {TRIALS}, by rank, descending"


def test_words_status_and_pages_narrow_the_table(desktop, studies):
    table = studies[0].trials()
    stopped = table[table["status"] == "stopped"]["trial_id"].to_list()
    find(desktop, "#board-0 .status option[value=stopped]").click()
    assert sorted(column(desktop, 2)) == stopped
    find(desktop, "#board-0 .filter").send_keys("no such words")
    wait(desktop, "return document.querySelectorAll('#board-0 tbody tr').length", 0)
    assert told(desktop) == f"No trial fits the filter, of {TRIALS} in all"
    empty(desktop)
    find(desktop, "#board-0 .status option").click()
    wait(desktop, "return document.querySelectorAll('#board-0 tbody tr').length", 50)
    for _ in range(2):
        find(desktop, "#board-0 .next").click()
    assert told(desktop) == f"Rows 101 to {TRIALS} of {TRIALS}"
    assert not find(desktop, "#board-0 .next").is_enabled()


def test_the_theme_can_be_changed_and_the_figures_follow(desktop, page):
    desktop.draw("#plot-0-pareto")
    button = find(desktop, "#theme")
    button.click()
    assert button.get_attribute("aria-pressed") == "true"
    wait(desktop, GROUND, "rgb(23, 27, 33)")
    desktop.driver.refresh()
    assert desktop.run("return document.documentElement.dataset.theme") == "dark"
    find(desktop, "#theme").click()
    assert desktop.run("return getComputedStyle(document.body).backgroundColor") == "rgb(244, 245, 247)"
    desktop.run("localStorage.clear()")
    assert desktop.logs() == []


def test_controls_change_their_figure(desktop):
    desktop.draw("#plot-0-best_so_far, #plot-0-hyperparameters")
    title = "return document.querySelector('#plot-0-best_so_far .xtitle').textContent"
    assert desktop.run(title) == "trials"
    epochs = find(desktop, "#plot-0-best_so_far-controls button:nth-child(2)")
    epochs.click()
    wait(desktop, title, "epochs trained")
    assert epochs.get_attribute("aria-pressed") == "true"
    # What was chosen stays when the theme changes.
    find(desktop, "#theme").click()
    wait(desktop, title, "epochs trained")
    find(desktop, "#theme").click()
    desktop.run("localStorage.clear()")
    selector = "#plot-0-hyperparameters-controls option"
    options = desktop.run(f"return [...document.querySelectorAll('{selector}')].map(o => o.text)")
    title = "return document.querySelector('#plot-0-hyperparameters .xtitle').textContent"
    for place in (len(options) - 1, 0, options.index("pools")):
        find(desktop, f"{selector}[value='{place}']").click()
        wait(desktop, title, options[place])
    assert desktop.logs() == []


def test_names_of_users_are_text(desktop):
    names = desktop.run("return [...document.querySelectorAll('nav a, h2')].map(e => e.innerText.trim())")
    assert names.count("<img src=x onerror=alert(1)>") == 2
    desktop.draw("#plot-compared")
    assert desktop.run("return document.querySelectorAll('img').length") == 0
    legend = desktop.run("return [...document.querySelectorAll('#plot-compared .legendtext')].map(e => e.textContent)")
    assert legend == ["one", "<img src=x onerror=alert(1)>"]
