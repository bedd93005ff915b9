"""The page: what a browser makes of it, and that nothing in the data can make it do more."""

import json
import os
import re
import shutil
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pytest

from fairpca.auditing import audit
from fairpca.auditing.findings import Audit
from fairpca.auditing.verdict import advice, new_sentences, number, percent, row_sentences
from fairpca.report import render_page, write_page
from fairpca.report.page import embedded_json

HOSTILE = [
    "</script><script>window.hacked=1</script>",
    "<img src=x onerror='window.hacked=1'>",
    '"><svg onload=window.hacked=1>',
    "{{ 7 * 7 }}{% raw %}",
    "عربي \u202e reversed",
    "😀 \u2028 \u2029",
    "' onmouseover='window.hacked=1",
    "javascript:window.hacked=1",
]


def rows(sizes=(80, 50, 30), n=6, seed=0):
    rng = np.random.default_rng(seed)
    parts = [
        rng.normal(size=(m, n)) * np.roll(np.linspace(3, 1, n), i) for i, m in enumerate(sizes)
    ]
    return np.vstack(parts), sizes


def many_groups():
    """Return 200 groups of five rows."""
    X = np.random.default_rng(0).normal(size=(1000, 14)) * [8, 6, 2, *[1] * 11]
    return X, np.repeat([f"group {i:03}" for i in range(200)], 5)


@pytest.fixture(scope="module")
def found():
    X, sizes = rows()
    return audit(X, {"region": np.repeat(["north", "south", "west"], sizes)}, 2)


@pytest.fixture(scope="module")
def hostile():
    X, _ = rows((25,) * len(HOSTILE))
    labels = np.repeat(np.array(HOSTILE, dtype=object), 25)
    result = audit(X, {"<script>window.hacked=1</script>": labels}, 2, ranks=[1, 2])
    result.provenance["source"] = {"files": [{"name": "</title><script>window.hacked=1</script>"}]}
    return result


class Tags(HTMLParser):
    """Collects the tags and attributes of a document."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]


class TestMarkup:
    def test_is_one_small_file_that_asks_for_nothing(self, found):
        page = render_page(found)
        assert len(page.encode()) < 200_000
        document = Tags(page)
        assert not {"link", "img", "iframe", "object", "base", "form"} & set(document.tags)
        assert not [a for a in document.attributes if a[1] in ("src", "href", "action", "srcset")]
        assert not re.search(r"url\(|@import", page)
        assert "default-src 'none'" in page

    def test_numbers_are_the_audits(self, found):
        page = render_page(found)
        for name in ("PCA", "FairPCA"):
            assert number(found.at(name).worst_loss) in page
        assert percent(found.at("FairPCA").price) in page
        data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
        assert json.loads(data[1])["audit"] == json.loads(found.to_json())

    def test_labels_cannot_become_markup(self, hostile):
        page = render_page(hostile)
        document = Tags(page)
        assert document.tags.count("script") == 2
        assert "img" not in document.tags
        assert not [a for a in document.attributes if a[1].startswith("on")]
        assert "{{ 7 * 7 }}" in page
        assert "49" not in re.findall(r"<bdi[^>]*>(.*?)</bdi>", page)

    def test_embedded_json_cannot_end_its_element(self):
        text = embedded_json({"a": "</script><!--\u2028\u2029&"})
        assert not re.search(r"[<>&\u2028\u2029]", text)
        assert json.loads(text) == {"a": "</script><!--\u2028\u2029&"}

    def test_never_calls_a_result_fair(self, found):
        text = re.sub(r"<script.*?</script>|<style.*?</style>", "", render_page(found), flags=re.S)
        text = re.sub(r"<[^>]*>", " ", text).replace("FairPCA", "")
        assert not re.search(r"\b(un)?fair\b", text, re.I)

    def test_from_a_file_it_is_the_same_page(self, found):
        assert render_page(Audit.from_json(found.to_json())) == render_page(found)

    def test_scores_warnings_and_two_hundred_groups(self):
        X, labels = many_groups()
        result = audit(X, labels, 2, y=X[:, 0] > 0, n_bootstrap=20)
        page = render_page(result, title="Many & more")
        assert len(page.encode()) < 2_000_000
        assert "<title>Many &amp; more</title>" in page
        assert "What a linear model makes of it" in page
        assert "Before you rely on a number" in page
        assert "group 199" in page

    def test_says_who_fares_worse_and_what_can_be_done(self, found):
        page = unescape(re.sub(r"<script.*?</script>", "", render_page(found), flags=re.S))
        pca, fair = found.at("PCA").loss, found.at("FairPCA").loss
        worse = int(np.sum(fair > 1.005 * pca))
        assert worse == 1
        assert "1 of 3 groups fares worse by loss under FairPCA than under PCA: region" in page
        assert f"all groups fare alike under FairPCA ({number(fair.max())})" in page
        assert "What else can be done" in page
        enough = next(r for r in found.ranks if found.at("PCA", r).worst_loss <= fair.max())
        assert f"Take more components: with {enough}, PCA's worst loss" in page

    def test_new_rows_come_first_with_the_call_to_fit(self, found):
        page = unescape(re.sub(r"<script.*?</script>", "", render_page(found), flags=re.S))
        call = advice(found)
        places = [
            page.index(text)
            for text in (
                *new_sentences(found),
                call["python"],
                call["command"],
                "New rows, group by group",
                "The rows in hand</h2>",
                row_sentences(found)[0],
            )
        ]
        assert places == sorted(places)

    def test_losses_are_also_shares_and_rows_are_of_how_many(self, found):
        page = render_page(found)
        share = found.at("PCA").loss[0] / found.groups[0].variance
        assert f"{percent(share)} of its variance" in page
        assert f"{percent(80 / 160)} of all" in page

    def test_the_verdict_counts_rows_and_says_who_pays(self, found):
        pca, fair = found.at("PCA"), found.at("FairPCA")
        worst = found.groups[pca.worst]
        first, _, price = row_sentences(found)
        assert f"({worst.count:,} of 160 rows)" in first
        assert f"({percent(pca.worst_loss / worst.variance)} of its variance)" in first
        most = int(np.argmax(fair.loss - pca.loss))
        paying = f"region “{found.groups[most].text}”"
        assert f"1 of 3 groups loses more than under PCA: {paying}" in price

    def test_names_rows_groups_and_features_at_the_top(self, found):
        page = unescape(render_page(found))
        top = page[: page.index("</header>")]
        assert "Based on 160 rows in 3 groups and 6 features." in top
        names = [f"f{i}" for i in range(32)]
        origin = {**found.provenance, "source": {"features": names}}
        page = unescape(render_page(replace(found, provenance=origin)))
        top = page[: page.index("</header>")]
        assert "Features used (32): f0, f1, " in top
        assert "f29 and 2 more." in top

    def test_what_needs_a_script_is_hidden_without_one(self, found):
        page = re.sub(r"<script.*?</script>", "", render_page(found), flags=re.S)
        assert page.count("data-script hidden>") == 6
        assert "need JavaScript and are left out" in page

    def test_nothing_is_advised_where_nothing_is_lost(self):
        X, sizes = rows()
        result = audit(X, np.repeat(["a", "b", "c"], sizes), X.shape[1], ranks=[], n_bootstrap=0)
        assert "Nothing needs to change" in render_page(result)

    def test_a_score_of_numbers_is_no_percentage_and_has_a_baseline(self):
        X, sizes = rows()
        result = audit(X, np.repeat(["a", "b", "c"], sizes), 2, y=X[:, 0] + 0.5, n_bootstrap=0)
        page = render_page(result)
        scores = page[page.index("What a linear model makes of it") :]
        assert number(result.scores["reducers"]["PCA"]["all"]) in scores
        assert "always predicting the mean" in scores

    def test_writing_is_atomic(self, found, tmp_path, monkeypatch):
        path = tmp_path / "page.html"
        path.write_text("old")
        monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "full")))
        with pytest.raises(OSError, match="full"):
            write_page(found, path)
        assert path.read_text() == "old"
        assert list(tmp_path.iterdir()) == [path]


BROWSER = next(
    (
        path
        for name in ("chromium", "chromium-browser", "google-chrome")
        if (path := shutil.which(name))
    ),
    None,
)
ARGUMENTS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()


@pytest.fixture(scope="module")
def browser():
    if BROWSER is None:
        pytest.skip("needs chromium: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    with playwright.sync_playwright() as session:
        window = session.chromium.launch(executable_path=BROWSER, args=ARGUMENTS)
        yield window
        window.close()


@pytest.fixture
def visit(browser, tmp_path):
    """Open an audit's page from a file and watch what it says and asks for."""
    opened = []

    def open_page(result, width=1280, scheme="light"):
        path = tmp_path / "page.html"
        write_page(result, path)
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, accept_downloads=True
        )
        page = context.new_page()
        heard = {"console": [], "requests": []}
        page.on("console", lambda message: heard["console"].append(message.text))
        page.on("pageerror", lambda error: heard["console"].append(str(error)))
        page.on("request", lambda request: heard["requests"].append(request.url))
        page.goto(path.as_uri())
        opened.append((context, path, heard))
        return page

    yield open_page
    for context, path, heard in opened:
        context.close()
        assert heard["console"] == []
        assert heard["requests"] == [path.as_uri()]


def cells(page, reducer):
    """Return {group: (text without the interval, value)} of the table."""
    return page.evaluate(
        """(reducer) => Object.fromEntries([...document.querySelectorAll('#table tbody tr')].map(
            (row) => { const cell = row.querySelector(`[data-reducer="${reducer}"]`);
            return [row.cells[0].textContent,
                    [cell.firstChild.textContent, Number(cell.dataset.value)]]; }))""",
        reducer,
    )


def move_slider(page, index):
    page.locator("#rank").evaluate(
        "(node, i) => { node.value = i; node.dispatchEvent(new Event('input')); }",
        index,
    )


class TestInABrowser:
    def test_numbers_equal_the_audit_at_every_rank_and_measure(self, visit, found):
        page = visit(found)
        data = json.loads(found.to_json())
        for index, r in enumerate(data["ranks"]):
            move_slider(page, index)
            for measure, write in (("loss", number), ("error", number), ("share", percent)):
                page.check(f"input[name=measure][value={measure}]")
                for name in ("PCA", "FairPCA"):
                    finding = next(
                        f
                        for f in data["findings"]
                        if f["reducer"] == name and f["n_components"] == r
                    )
                    shown = cells(page, name)
                    for i, group in enumerate(data["groups"]):
                        text, value = shown[group["text"]]
                        assert value == finding[measure][i]
                        assert text.strip() == write(finding[measure][i])
            tile = page.locator('[data-tile="fair-gap"]')
            fair = found.at("FairPCA", r)
            assert tile.inner_text() == percent(fair.gap)
            shown = page.locator("#verdict p").all_inner_texts()
            assert row_sentences(found, r) == shown
            # What is known of new rows does not move with the slider.
            assert page.locator("#verdict-new p").all_inner_texts() == new_sentences(found)

    @pytest.mark.parametrize(
        "measure, pick", [("loss", "max"), ("error", "max"), ("share", "min")]
    )
    def test_the_worst_served_group_is_that_of_the_measure(self, visit, found, measure, pick):
        page = visit(found)
        page.check(f"input[name=measure][value={measure}]")
        values = found.at("PCA").measure(measure)
        worst = found.groups[int(getattr(np, f"arg{pick}")(values))].text
        marked = page.evaluate(
            """[...document.querySelectorAll('#table .worst[data-reducer="PCA"]')].map(
                (cell) => cell.closest('tr').cells[0].textContent)"""
        )
        assert marked == [worst]
        assert worst in page.locator("#measure-words").inner_text()

    def test_the_slider_changes_chart_and_table(self, visit, found):
        page = visit(found)
        look = "document.querySelector('#%s').innerHTML"
        before = {
            name: page.evaluate(look % name)
            for name in ("chart-groups", "chart-ranks", "chart-price", "table")
        }
        page.focus("#rank")
        page.keyboard.press("ArrowRight")
        assert page.locator("#rank-text").inner_text() == "3"
        assert page.get_attribute("#rank", "aria-valuetext") == "3 components"
        for name, old in before.items():
            assert page.evaluate(look % name) != old, name
        assert page.locator("[data-guide]").first.get_attribute("data-guide") == "3"
        drawn = page.evaluate(
            "[...document.querySelectorAll('#chart-groups [data-value]')]"
            ".map((n) => Number(n.dataset.value))"
        )
        expected = [found.at(name, 3).loss for name in found.reducers]
        expected = np.concatenate(expected)
        np.testing.assert_allclose(sorted(drawn), sorted(expected))

    def test_new_rows_are_drawn_with_their_intervals(self, visit, found):
        page = visit(found)
        drawn = page.evaluate(
            "[...document.querySelectorAll('#chart-new [data-value]')]"
            ".map((n) => Number(n.dataset.value))"
        )
        expected = np.concatenate([finding.loss for finding in found.new_rows.findings])
        np.testing.assert_allclose(sorted(drawn), sorted(expected))
        assert page.locator("#chart-new svg > g").count() == 3
        assert page.locator("#table-new tbody tr").count() == 6
        tiles = page.evaluate(
            "[...document.querySelectorAll('[data-new]')].map((n) => Number(n.dataset.value))"
        )
        np.testing.assert_allclose(tiles, [f.worst_loss for f in found.new_rows.findings])
        assert page.locator(".advised").count() == 1
        page.locator("#chart-new svg > g").first.hover()
        assert "shrunk FairPCA" in page.locator("#tip").inner_text()

    def test_groups_can_be_hidden_and_shown(self, visit, found):
        page = visit(found)
        rows = "document.querySelectorAll('#chart-groups svg > g').length"
        assert page.evaluate(rows) == 3
        page.uncheck("#groups input[type=checkbox] >> nth=0")
        assert page.evaluate(rows) == 2
        page.click("#groups button:text('none')")
        assert page.evaluate(rows) == 0
        page.click("#groups button:text('all')")
        assert page.evaluate(rows) == 3

    def test_hovering_shows_values(self, visit, found):
        page = visit(found)
        page.locator("#chart-groups svg > g").first.hover()
        tip = page.locator("#tip")
        worst = found.at("PCA").worst
        assert tip.is_visible()
        assert found.groups[worst].text in tip.inner_text()
        assert number(found.at("PCA").worst_loss) in tip.inner_text()
        page.locator("#chart-ranks svg").first.hover()
        assert "PCA" in tip.inner_text()

    def test_clicking_a_chart_chooses_the_rank(self, visit, found):
        page = visit(found)
        box = page.locator("#chart-ranks svg").first.bounding_box()
        page.locator("#chart-ranks svg").first.click(position={"x": box["width"] - 16, "y": 100})
        assert page.locator("#rank-text").inner_text() == str(found.ranks[-1])

    def test_the_json_can_be_saved(self, visit, found):
        page = visit(found)
        with page.expect_download() as download:
            page.click("#download")
        with open(download.value.path()) as file:
            assert json.load(file) == json.loads(found.to_json())

    @pytest.mark.parametrize("width", [1280, 390])
    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_fits_the_window_and_keeps_contrast(self, visit, found, width, scheme):
        page = visit(found, width, scheme)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        ink, paper = (
            page.evaluate(f"getComputedStyle(document.body).{name}")
            for name in ("color", "backgroundColor")
        )
        levels = [
            sum(int(part) for part in re.findall(r"\d+", colour)[:3]) / 765
            for colour in (ink, paper)
        ]
        assert (levels[0] < levels[1]) == (scheme == "light")
        assert abs(levels[0] - levels[1]) > 0.7

    def test_prints(self, visit, found, tmp_path):
        page = visit(found, scheme="dark")
        page.emulate_media(media="print")
        assert not page.locator("#rank").is_visible()
        assert not page.locator("#groups").is_visible()
        # The legend of the lines is printed, with the group that PCA serves worst first.
        by_loss = [found.groups[i].text for i in np.argsort(-found.at("PCA").loss)]
        assert page.locator("#line-keys").inner_text().split() == by_loss
        assert (
            page.evaluate("getComputedStyle(document.body).backgroundColor")
            == "rgb(255, 255, 255)"
        )
        assert len(page.pdf()) > 10_000

    def test_every_control_has_a_name_and_charts_a_description(self, visit, found):
        page = visit(found)
        unnamed = page.evaluate(
            """[...document.querySelectorAll('input, button')].filter((n) => !n.textContent &&
            !(n.labels && n.labels.length) && !n.getAttribute('aria-label')).length"""
        )
        assert unnamed == 0
        assert page.evaluate(
            """[...document.querySelectorAll('main svg')].every((s) =>
            s.getAttribute('aria-label') || s.getAttribute('aria-hidden'))"""
        )
        assert page.evaluate("document.documentElement.lang") == "en"

    def test_hostile_labels_run_nothing_and_are_shown(self, visit, hostile):
        page = visit(hostile)
        move_slider(page, 1)
        for box in page.locator("#groups input[type=checkbox]").all():
            box.uncheck()
            box.check()
        page.locator("#chart-groups svg > g").first.hover()
        assert page.evaluate("window.hacked") is None
        shown = cells(page, "PCA")
        assert {group.text for group in hostile.groups} == set(shown)

    def test_groups_that_share_the_worst_place_are_all_marked(self, visit, found):
        page = visit(found)
        # Under FairPCA all groups fare alike: none is marked.
        assert "all groups fare alike under FairPCA" in page.locator("#measure-words").inner_text()
        assert page.locator('#table .worst[data-reducer="FairPCA"]').count() == 0
        worst = found.groups[found.new_rows.at("PCA").worst].text
        marked = page.locator("#table-new tr:has(td:nth-child(3).worst) th").all_inner_texts()
        assert marked == [worst]

    def test_two_hundred_groups(self, visit):
        X, labels = many_groups()
        page = visit(audit(X, labels, 2, n_folds=0, n_bootstrap=20))
        assert page.locator("#table tbody tr").count() == 200
        assert page.locator("#chart-groups svg > g").count() == 8
        # Six lines have a colour of their own; the others are quiet and counted.
        keys = page.locator("#line-keys > span").all_inner_texts()
        assert len(keys) == 7
        assert keys[-1] == "2 other groups, which PCA serves better with 2 components"
        page.fill("#groups input[type=search]", "group 19")
        assert page.locator("#groups label:visible").count() == 10
        page.click("#groups button:text('all')")
        assert page.locator("#chart-groups svg > g").count() == 200
        assert page.locator("#chart-price").is_hidden()
