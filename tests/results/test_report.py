"""The report's page: its structure, that nothing in it is code or an address, that it holds what the study says."""

from __future__ import annotations

import importlib
import itertools
import json
import re
from html.parser import HTMLParser

import pytest

from workbench.results import report
from workbench.results.plots import PLOTS
from workbench.study import open_study
from workbench.testing import synthetic_study

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
VOID = {"meta", "link", "input", "img", "br"}


class Page(HTMLParser):
    """Elements in order, each as (name, attributes, text)."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements = []
        self._open = []
        self.feed(text)
        assert self._open == [], "every element is closed"

    def handle_starttag(self, tag, attrs):
        element = [tag, dict(attrs), ""]
        self.elements.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_endtag(self, tag):
        assert self._open[-1][0] == tag
        self._open.pop()

    def handle_data(self, data):
        for element in self._open:
            element[2] += data

    def all(self, *names):
        return [element for element in self.elements if element[0] in names]

    def data(self):
        (found,) = [text for tag, attrs, text in self.all("script") if attrs.get("id") == "data"]
        return json.loads(found)


@pytest.fixture(autouse=True)
def _small_forests(monkeypatch):
    monkeypatch.setattr(importlib.import_module("workbench.results.plots.forest"), "TREES", 12)


@pytest.fixture(scope="module")
def synthetic(tmp_path_factory):
    return synthetic_study(tmp_path_factory.mktemp("studies") / "synthetic", trials=60, epochs=4, seed=3)


@pytest.fixture(scope="module")
def evil(write_study, tmp_path_factory):
    """A study in which every text that users and plugins give is an attack."""
    trials = [
        {"values": {"m/kind": EVIL, f"m/{EVIL}": 1}, "scores": [[0.5]]},
        {"values": {"m/kind": "good", f"m/{EVIL}": 2}, "scores": [[0.6, 0.7]]},
        {"values": {"m/kind": "good", f"m/{EVIL}": 3}, "scores": [], "status": "failed", "error": EVIL},
    ]
    plugin = {"name": EVIL, "file": EVIL, "distribution": EVIL, "sha256": EVIL}
    session = ("session", {"at": EVIL, "host": EVIL, "device": EVIL, "versions": {EVIL: EVIL}, "plugins": [plugin]})
    finished = ("finished", {"at": "2026-01-02T03:04:09+00:00", "reason": EVIL})
    path = tmp_path_factory.mktemp("studies") / "<script>alert(3)<!--"
    return write_study(path, trials, extra=[session, finished], summary=EVIL)


@pytest.fixture(scope="module")
def page(synthetic, evil):
    return Page(report.render_report([synthetic, evil]))


def test_the_page_is_well_formed_and_says_what_it_is(synthetic):
    text = report.render_report([synthetic])
    page = Page(text)
    assert text.startswith("<!doctype html>")
    assert page.all("html")[0][1]["lang"] == "en"
    assert page.all("title")[0][2] == "Report: synthetic"
    assert [element[2] for element in page.all("h1")] == ["synthetic"]


def test_headings_and_references_are_in_order(page):
    levels = [int(tag[1]) for tag, _, _ in page.all("h1", "h2", "h3", "h4")]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    ids = [attrs["id"] for _, attrs, _ in page.elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    for _, attrs, _ in page.elements:
        for name in ("aria-labelledby", "aria-describedby"):
            assert set(attrs.get(name, "").split()) <= set(ids)
        if attrs.get("href", "").startswith("#"):
            assert attrs["href"][1:] in ids
    assert page.all("a")[0][1] == {"class": "skip", "href": "#main"}


def test_tables_and_figures_have_names(page):
    assert len(page.all("table")) == len(page.all("caption"))
    assert all(attrs.get("scope") in ("row", "col") for _, attrs, _ in page.all("th"))
    assert all(attrs["type"] == "button" for _, attrs, _ in page.all("button"))
    plots = [attrs for _, attrs, _ in page.elements if attrs.get("class") == "plot"]
    assert all(attrs["role"] == "img" and attrs["aria-describedby"] for attrs in plots)
    assert len(page.all("figcaption")) == len(page.all("figure")) == len(plots)
    assert {attrs["id"] for attrs in plots} == set(page.data()["figures"])
    assert {f"plot-0-{name}" for name in PLOTS} | {"plot-compared"} <= set(page.data()["figures"])


def test_no_text_becomes_code(page, evil):
    kinds = [attrs for _, attrs, _ in page.all("script")]
    assert kinds == [{"type": "application/json", "id": "data"}, {}, {}]
    assert page.all("img") == []
    assert not [name for _, attrs, _ in page.elements for name in attrs if name.startswith("on")]
    # And all of it is still there to read.
    assert [element[2] for element in page.all("title")] == ["Report: synthetic, <script>alert(3)<!--"]
    assert sum(EVIL in text for tag, _, text in page.all("td", "th", "pre", "p")) > 8
    errors = [column for column in page.data()["boards"][1]["columns"] if column["key"] == "error"]
    assert errors[0]["texts"] == [EVIL]


def test_no_text_becomes_html_in_a_figure(page):
    figures = json.dumps({key: value for key, value in page.data()["figures"].items() if key.startswith("plot-1")})
    assert "&lt;/script&gt;" in figures
    assert "<img" not in figures
    assert "<script" not in figures


def test_nothing_is_fetched(page):
    policies = [attrs["content"] for _, attrs, _ in page.all("meta") if "http-equiv" in attrs]
    (policy,) = policies
    assert policy.startswith("default-src 'none'; ")
    assert not re.search(r"https?:|\*|ws:", policy)
    for _, attrs, _ in page.elements:
        assert not {"src", "srcset", "action", "formaction", "data", "poster"} & set(attrs)
        assert attrs.get("href", "#").startswith("#") or attrs["href"] == "data:,"
    (style,) = page.all("style")
    assert not re.search(r"@import|url\(", style[2])
    own = page.all("script")[-1][2]
    assert not re.search(r"https?://|fetch\(|XMLHttpRequest|import\(|innerHTML|eval\(", own)


def test_the_leaderboard_is_the_studys(page, synthetic):
    board = page.data()["boards"][0]
    columns = {column["key"]: column for column in board["columns"]}
    expected = synthetic.leaderboard(all_statuses=True)
    assert board["total"] == board["rows"] == len(expected) == 60
    assert columns["trial_id"]["values"] == expected["trial_id"].to_list()
    assert columns["score"]["values"][:5] == pytest.approx(expected["score"].head().to_list(), rel=1e-6)
    ranks = expected["rank"]
    assert columns["rank"]["values"] == [
        None if missing else int(rank) for rank, missing in zip(ranks, ranks.isna(), strict=True)
    ]
    texts = [columns["status"]["texts"][code] for code in columns["status"]["values"]]
    assert texts == expected["status"].to_list()
    varied = {name for name in expected if name.startswith("hp.") and expected[name].nunique() > 1}
    assert {key for key in columns if key.startswith("hp.")} == varied
    assert set(board["styles"]) == set(expected["trial_id"].head(10))


def test_the_summary_has_what_the_study_says(page, synthetic):
    text = " ".join(" ".join(part[2] for part in page.all("main")).split())
    best = synthetic.leaderboard().iloc[0]
    facts = synthetic.history.space["facts"]
    assert f"{best['score']:.4f}" in text
    assert f"Best trial: {best['trial_id']}" in text
    assert "Target 0.8" in text
    assert facts["fingerprint"] in text
    for library, version in synthetic.history.sessions[-1]["versions"].items():
        assert f"{library} {version}" in text
    assert json.dumps(synthetic.definition, indent=2) in [element[2] for element in page.all("pre")]


def test_scores_that_cannot_be_compared_are_called_so(page, synthetic, tmp_path):
    warnings = [text for _, attrs, text in page.all("p") if attrs.get("class") == "warning"]
    assert any("different data" in text and "cannot be compared" in text for text in warnings)
    other = synthetic_study(tmp_path / "other", trials=3, epochs=2, seed=8)
    alike = Page(report.render_report([synthetic, other]))
    assert not [text for _, attrs, text in alike.all("p") if "cannot be compared" in text]


def test_the_same_studies_give_the_same_bytes(synthetic, tmp_path):
    for name in ("one", "two"):
        report.write_report([open_study(synthetic.path)], tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "two"], "no file is left beside it"
    assert (tmp_path / "one").stat().st_size < 5.5e6


def test_more_trials_than_a_page_holds_are_left_out_and_counted(synthetic, monkeypatch):
    monkeypatch.setattr(report, "MAX_ROWS", 20)
    page = Page(report.render_report([synthetic]))
    board = page.data()["boards"][0]
    assert (board["rows"], board["total"]) == (20, 60)
    assert all(len(column["values"]) == 20 for column in board["columns"])
    assert "The page holds the first 20 of 60 trials." in page.all("main")[0][2]


def test_a_study_without_trials_has_a_page(write_study, tmp_path):
    page = Page(report.render_report([write_study(tmp_path / "empty", [])]))
    assert page.data()["figures"] == {}
    assert "No trial has completed yet." in page.all("main")[0][2]
    assert page.data()["boards"][0]["rows"] == 0
