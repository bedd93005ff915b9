"""The page: it says what the audit says, is data all through, and can be read anywhere."""

import re
import shutil
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pytest

from fairpca import audit
from fairpca.auditing import words
from fairpca.report import render_page, write_page

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "عربي وأكثر",
    "{{ 7 * 7 }} & co",
]


def table(sizes, seed=0):
    rng = np.random.default_rng(seed)
    X = np.vstack(
        [rng.normal(size=(m, 6)) * np.roll([3, 2, 1, 1, 1, 1], i) for i, m in enumerate(sizes)]
    )
    return X, sizes


@pytest.fixture(scope="module")
def found():
    """An audit in which another fit is better, by groups with names that must be escaped."""
    X, sizes = table((900, 200, 150, 12))
    result = audit(X, {"<b>site": np.repeat(HOSTILE, sizes)}, 2, ranks=[1, 2, 3])
    source = {
        "files": [{"name": "<i>t.csv", "sha256": "0" * 64}],
        "arguments": ["<i>t.csv", "-g", "x"],
    }
    return replace(result, provenance={**result.provenance, "source": source})


@pytest.fixture(scope="module")
def two():
    X, sizes = table((900, 200))
    return audit(X, {"site": np.repeat(["many", "some"], sizes)}, 1, ranks=[1])


class Seen(HTMLParser):
    """The tags of a page with their attributes, and its text."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.text += data


def sections(page):
    """Return the text of the page by its headings."""
    parts = re.split(r"<h2>(.*?)</h2>", page)
    return {title: Seen(body).text for title, body in zip(parts[1::2], parts[2::2], strict=True)}


class TestWhatItSays:
    def test_the_answer_stands_first_and_is_the_verdict_of_the_audit(self, found):
        page = Seen(render_page(found)).text
        verdict = [page.index(sentence) for sentence in words.sentences(found)]
        assert verdict[0] < verdict[-1] < page.index("What every group loses on new rows")
        headline = unescape(re.search(r"<h1>(.*?)</h1>", render_page(found), re.S)[1])
        assert found.advice.kind == "better"
        assert words.percent(found.advice.cut) in headline
        assert words.percent(found.advice.harm) in headline
        assert found.groups[found.at("PCA", on="new").worst].text in headline
        assert found.advice.python in page

    def test_every_kind_of_verdict_has_its_headline(self, two, monkeypatch):
        pca = two.at("PCA", on="new")
        for kind, said in (("as good", "Plain PCA is as good"), ("cannot tell", "do not show")):
            advice = replace(two.advice, kind=kind, reducer="PCA", most=0.004)
            monkeypatch.setattr(words, "advice", lambda _, advice=advice: advice)
            page = render_page(two)
            assert said in re.search(r"<h1>(.*?)</h1>", page, re.S)[1]
            assert "To fit" not in page
        nothing = replace(pca, loss=-np.abs(pca.loss))
        others = tuple(nothing if f is pca else f for f in two.findings)
        assert "PCA costs no group anything" in render_page(replace(two, findings=others))

    def test_cells_are_shares_of_variance_with_intervals_and_the_worst_is_marked(self, found):
        page = render_page(found)
        new = page[page.index("<h2>What every") : page.index("<h2>Who pays")]
        for fit in found.of("new", 2):
            share = words.percent(fit.loss[0] / fit.variance[0]).replace("-", "−")
            assert f"<b>{share}</b>" in new
        # One group under each of the four fits.
        marked = re.findall(r"<td class=\"(\w+) worst\">.*?<i>(.*?) per row", new, re.S)
        styles = ("pca", "balanced", "fair", "careful")
        expected = zip(
            styles, map(words.number, (f.worst_loss for f in found.of("new", 2))), strict=True
        )
        assert dict(marked) == dict(expected)
        assert len(marked) == 4

    def test_groups_with_few_rows_come_last_and_do_not_shorten_bars(self, found):
        part = sections(render_page(found))["What every group loses on new rows"]
        assert part.index("900 rows") < part.index("fewer than 30 rows") < part.index("12 rows")
        widths = [
            float(w)
            for w in re.findall(r'class="value" x="[\d.]+" width="([\d.]+)"', render_page(found))
        ]
        assert max(widths[:12]) > 40

    def test_who_pays_and_groups_that_were_not_there(self, found, two):
        parts = sections(render_page(found))
        fit = found.at("careful FairPCA", on="new")
        worst, _ = words.harmed(fit)
        share = words.percent(fit.change[worst] / fit.variance[worst]).replace("-", "−")
        assert share in parts["Who pays on new rows"]
        assert words.unseen_sentence(found) in parts["A group that was not there"]
        assert "AnchorPCA" in parts["A group that was not there"]
        # Of two groups nobody is left to compare with, and there is no empty section.
        assert "A group that was not there" not in render_page(two)
        assert all(text.strip() for text in sections(render_page(two)).values())

    def test_without_new_rows_everything_is_about_the_fit_and_says_so(self, found):
        page = render_page(audit(found.moments, n_components=2, ranks=[2]))
        assert "Nothing is known of new rows" in page
        assert "What every group loses on the rows of the fit" in page
        assert "on new rows</h2>" not in page
        assert (
            "95% interval" not in sections(page)["What every group loses on the rows of the fit"]
        )


class TestSafety:
    def test_every_text_is_escaped_and_nothing_is_fetched_or_run(self, found):
        seen = Seen(render_page(found))
        for text in (*HOSTILE, "<b>site", "<i>t.csv"):
            assert text in seen.text
        assert not {"script", "img", "i-frame", "link", "iframe", "object"} & {
            tag for tag, _ in seen.tags
        }
        for _, attributes in seen.tags:
            assert not {"src", "href", "onload", "onerror", "onclick"} & set(attributes)
        policy = next(a for _, a in seen.tags if a.get("http-equiv"))["content"]
        assert policy.startswith("default-src 'none'")


# What does not fit, and texts that can hardly be read: contrast as WCAG 2.1 defines it.
LOOK = """() => {
    const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
    const light = (c) => c.slice(0, 3).map((v) => v / 255)
        .map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
        .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
    const ink = (node, what) => rgb(getComputedStyle(node)[what]);
    const paper = (node) => {
        const c = node ? ink(node, 'backgroundColor') : [255, 255, 255];
        return c.length < 4 || c[3] > 0 ? c : paper(node.parentElement); };
    const nodes = [...document.querySelectorAll('main *')].filter((n) => n.checkVisibility()
        && [...n.childNodes].some((c) => c.nodeType === 3 && c.textContent.trim()));
    const weak = nodes.filter((n) => {
        const [a, b] = [ink(n, 'color'), paper(n)].map(light);
        return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) < 4.5; });
    const out = nodes.filter((n) => !n.closest('.scroll, .unseen')
        && n.getBoundingClientRect().right > innerWidth + 1);
    return { weak: weak.map((n) => n.outerHTML), out: out.map((n) => n.outerHTML),
        wide: document.documentElement.scrollWidth - innerWidth };
}"""


@pytest.mark.slow
def test_in_a_browser_it_fits_is_legible_explains_itself_and_prints(found, tmp_path):
    from playwright.sync_api import sync_playwright

    path = tmp_path / "page.html"
    write_page(found, path)
    with sync_playwright() as session:
        options = {"executable_path": shutil.which("chromium"), "args": ["--no-sandbox"]}
        browser = session.chromium.launch(**options)
        for width in (1280, 400):
            for scheme in ("light", "dark"):
                size = {"width": width, "height": 900}
                page = browser.new_page(viewport=size, color_scheme=scheme)
                heard, asked = [], []
                page.on("console", lambda message, heard=heard: heard.append(message.text))
                page.on("request", lambda request, asked=asked: asked.append(request.url))
                page.goto(path.as_uri())
                assert page.evaluate(LOOK) == {"weak": [], "out": [], "wide": 0}
                assert (heard, asked) == ([], [path.as_uri()])
                # The columns of the four fits stand side by side.
                heads = page.locator("table.cells").first.locator("thead .key")
                boxes = [heads.nth(i).bounding_box() for i in range(4)]
                places = [box["x"] for box in boxes]
                assert places == sorted(places)
                assert max(b["y"] for b in boxes) - min(b["y"] for b in boxes) < 30
                tip = "e => getComputedStyle(e, '::after').content"
                term = page.locator(".term", has_text="careful").last
                assert term.evaluate(tip) == "none"
                term.focus()
                assert "two brakes" in term.evaluate(tip)
                page.close()
        page = browser.new_page(color_scheme="dark")
        page.goto(path.as_uri())
        page.emulate_media(media="print", color_scheme="dark")
        assert page.evaluate(LOOK)["weak"] == []
        # On paper nothing can be opened, so everything is.
        for part in page.locator("details").all():
            assert part.locator("tr, dd").first.is_visible()
        assert page.pdf().startswith(b"%PDF")
        browser.close()
