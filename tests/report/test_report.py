"""The page: what a browser makes of it, and that nothing in the data can make it do more."""

import json
import os
import re
import shutil
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from importlib import resources

import numpy as np
import pytest

from fairpca.auditing import audit
from fairpca.auditing.findings import Audit
from fairpca.auditing.verdict import (
    advice,
    new_sentences,
    number,
    percent,
    row_sentences,
    why_no_new_rows,
    worst_places,
)
from fairpca.report import render_page, write_page

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
            assert f">{number(found.new_rows.at(name).worst_loss)}</dd>" in page
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

    def test_embedded_json_cannot_end_its_element(self, found):
        name = "</script><!--\u2028\u2029&"
        page = render_page(replace(found, provenance={"name": name}))
        (text,) = re.findall(r'<script type="application/json" id="data">(.*)</script>', page)
        assert not re.search(r"[<>&\u2028\u2029]", text)
        assert json.loads(text)["audit"]["provenance"] == {"name": name}

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

    def test_says_what_to_do(self, found):
        page = unescape(re.sub(r"<script.*?</script>", "", render_page(found), flags=re.S))
        assert found.new_rows.advised.reducer == "PCA"
        assert "Keep plain PCA: on new rows no other fit makes the worst loss smaller" in page
        fair = found.at("FairPCA").worst_loss
        enough = next(r for r in found.ranks if found.at("PCA", r).worst_loss <= fair)
        # Where PCA does as well, there is nothing that more components would make up for.
        assert "Or keep PCA with" not in page
        better = replace(found.new_rows.at("FairPCA"), gain_low=0.1)
        new = replace(found.new_rows, findings=(found.new_rows.findings[0], better))
        page = render_page(replace(found, new_rows=new))
        losses = [number(new.at(name).worst_loss) for name in ("FairPCA", "PCA")]
        assert "on new rows its worst loss is {} in place of PCA&#39;s {},".format(*losses) in page
        assert f"Or keep PCA with {enough} components: on the rows in hand its worst loss" in page

    def test_overlapping_groups_are_explained(self):
        X, sizes = rows((80, 50))
        columns = {"sex": np.repeat(["f", "m"], sizes), "city": np.arange(130) % 2}
        result = audit(X, columns, 2, ranks=[2], n_bootstrap=0, group_by="marginal")
        assert "130 rows in 4 groups (they overlap: a row is in one group of each" in render_page(
            result
        )

    def test_groups_of_few_rows_are_to_be_collected_or_merged(self):
        X, sizes = rows((80, 50, 3))
        result = audit(X, np.repeat(["a", "b", "few"], sizes), 2, ranks=[2], n_bootstrap=0)
        page = render_page(result)
        assert "or merge them with groups they belong with: “few”." in page

    def test_new_rows_come_first_with_the_call_to_fit(self, found):
        page = unescape(re.sub(r"<script.*?</script>", "", render_page(found), flags=re.S))
        call = advice(found)
        places = [
            page.index(text)
            for text in (
                *new_sentences(found),
                call["python"],
                call["command"],
                "Group by group: <span",
            )
        ]
        assert places == sorted(places)
        # One state at a time: without a script nothing of the rows in hand stands beside it.
        assert row_sentences(found)[0] not in page
        assert 'data-needs="hand asked" data-script hidden>' in page

    @pytest.mark.parametrize("options", [{"center": "group"}, {"n_folds": 0}])
    def test_without_new_rows_it_says_why_and_shows_the_rows_in_hand(self, options):
        X, sizes = rows()
        result = audit(X, np.repeat(["a", "b", "c"], sizes), 2, n_bootstrap=0, **options)
        page = unescape(re.sub(r"<script.*?</script>", "", render_page(result), flags=re.S))
        assert f"fitted to. {why_no_new_rows(result)}</p>" in page
        assert 'value="new" disabled' in page
        assert all(sentence in page for sentence in row_sentences(result))

    def test_losses_are_also_shares_and_rows_are_of_how_many(self, found):
        page = render_page(found)
        share = found.new_rows.at("PCA").loss[0] / found.groups[0].variance
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
        top = page[: page.index("What to do")]
        assert "Based on 160 rows in 3 groups and 6 features." in top
        names = [f"f{i}" for i in range(32)]
        origin = {**found.provenance, "source": {"features": names}}
        page = unescape(render_page(replace(found, provenance=origin)))
        top = page[: page.index("What to do")]
        assert "Features used (32): f0, f1, " in top
        assert "f29 and 2 more." in top

    def test_what_needs_a_script_is_hidden_without_one(self, found):
        page = re.sub(r"<script.*?</script>", "", render_page(found), flags=re.S)
        assert page.count("data-script hidden>") == 5
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

    def test_colours_have_contrast_in_light_in_dark_and_on_paper(self):
        css = (resources.files("fairpca.report") / "page.css").read_text()
        roots = [
            dict(re.findall(r"--([\w-]+): (#\w+)", part)) for part in css.split(":root {")[1:]
        ]

        def light(text):
            digits = text[1:] if len(text) == 7 else "".join(2 * c for c in text[1:])
            parts = np.array([int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)])
            linear = np.where(parts <= 0.03928, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
            return float(linear @ [0.2126, 0.7152, 0.0722])

        assert len(roots) == 3
        for root in ({**roots[0], **later} for later in ({}, *roots[1:])):
            # WCAG 2.1 AA: 4.5 for text, 3 for lines and marks.
            texts = [(a, b, 4.5) for a in ("ink", "soft") for b in ("paper", "panel")]
            texts += [(a, "panel", 4.5) for a in ("pca", "fair", "shrunk")]
            for ink, paper, least in [*texts, *((f"g{i}", "paper", 3.0) for i in range(6))]:
                low, high = sorted(light(root[name]) for name in (ink, paper))
                assert (high + 0.05) / (low + 0.05) >= least, (ink, paper)

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


# All that changes with the switches, read in one go: a page is asked rarely, since that is slow.
LOOK = """() => {
    const all = (what, from = document) => [...from.querySelectorAll(what)];
    const text = (node) => node.textContent.trim();
    const cells = {};
    all('#table tbody td[data-reducer]').forEach((cell) => {
        const of = cells[cell.dataset.reducer] ??= {};
        of[text(cell.closest('tr').cells[0])] = {
            text: [...cell.childNodes].filter((n) => n.nodeType === 3).map(text).join(''),
            value: Number(cell.dataset.value),
            worst: cell.classList.contains('worst'), small: all('small', cell).map(text) };
    });
    const tiles = {};
    all('#tiles > div').forEach((tile) => {
        tiles[tile.children[1].dataset.tile] = [...tile.children].slice(1).map(text); });
    return { cells, tiles, verdict: all('#verdict p').map(text), advice: text(all('#advice')[0]),
        drawn: all('#chart-groups [data-value]').map((n) => Number(n.dataset.value)),
        state: text(all('[data-text=state]')[0]),
        visible: all('[id]').filter((n) => n.checkVisibility()).map((n) => n.id) };
}"""


def look(page):
    return page.evaluate(LOOK)


def marked(page, reducer):
    """Return the groups marked as served worst by a reducer."""
    return [group for group, cell in look(page)["cells"][reducer].items() if cell["worst"]]


def move_slider(page, index):
    page.locator("#rank").evaluate(
        "(node, i) => { node.value = i; node.dispatchEvent(new Event('input')); }",
        index,
    )


def on_side(result, side, name, r, measure):
    """Return one measure of every group on one side of the switch; None where not known."""
    if side == "hand":
        return result.at(name, r).measure(measure)
    if r != result.n_components:
        return None
    new = result.new_rows.at(name)
    variance = np.array([group.variance for group in result.groups])
    return 1 - new.error / variance if measure == "share" else getattr(new, measure)


class TestInABrowser:
    @pytest.mark.parametrize("side", ["hand", "new"])
    def test_everything_follows_rows_rank_and_measure(self, visit, found, side):
        page = visit(found)
        page.check(f"input[name=side][value={side}]")
        for index, r in enumerate(found.ranks):
            move_slider(page, index)
            for measure, write in (("loss", number), ("error", number), ("share", percent)):
                # A click as a program makes it; those of a mouse and of keys are tested below.
                page.evaluate(f"document.querySelector('[value={measure}]').click()")
                seen = look(page)
                curves = {"chart-ranks", "chart-price", "proof"} & set(seen["visible"])
                assert len(curves) == (3 if side == "hand" else 0)
                if on_side(found, side, "PCA", r, measure) is None:
                    (only,) = seen["verdict"]
                    assert only.startswith(f"With {r} component")
                    assert "nothing is known of new rows" in only
                    assert "2 components only" in seen["advice"]
                    # No number of another position is left on the page.
                    assert not {"table", "chart-groups", "tiles", "call"} & set(seen["visible"])
                    continue
                values = {n: on_side(found, side, n, r, measure) for n in found.reducers}
                sign = -1 if measure == "share" else 1
                for name, ours in values.items():
                    shown = seen["cells"][name]
                    places = worst_places(ours, sign)
                    tied = places if len(places) < len(ours) else []
                    for i, group in enumerate(found.groups):
                        assert shown[group.text]["value"] == pytest.approx(ours[i], rel=1e-12)
                        assert shown[group.text]["text"] == write(float(ours[i]))
                        assert shown[group.text]["worst"] == (i in tied)
                    text, note = seen["tiles"][name]
                    assert text == write(float(sign * np.max(sign * ours)))
                    assert all(f"“{found.groups[i].text}”" in note for i in tied)
                every = np.concatenate(list(values.values()))
                np.testing.assert_allclose(sorted(seen["drawn"]), sorted(every))
                worst = found.groups[int(np.argmax(sign * values["PCA"]))].text
                assert worst in seen["verdict"][0]
                if measure == "loss":
                    said = row_sentences(found, r) if side == "hand" else new_sentences(found)
                    assert seen["verdict"] == said
                rows = "new rows" if side == "new" else "the rows in hand"
                assert seen["state"] == f"{rows}, {r} component{'' if r == 1 else 's'}"

    @pytest.mark.parametrize("options", [{}, {"n_folds": 0}, {"lost": False}])
    def test_the_page_is_the_same_with_and_without_a_script(self, visit, options):
        options = dict(options)
        lost = options.pop("lost", True)
        X, sizes = rows((80, 50, 3))
        labels = {"region": np.repeat(["north", "south", "west"], sizes)}
        result = audit(X, labels, 2, ranks=[2], n_bootstrap=20, **options)
        if not lost:
            # Every loss on new rows is below zero: nobody is served worst.
            known = (
                replace(f, loss=f.loss - 100, worst_loss=-1.0) for f in result.new_rows.findings
            )
            result = replace(result, new_rows=replace(result.new_rows, findings=tuple(known)))
        page = visit(result)
        assert (page.locator("#table .worst").count() > 0) == lost
        plain = page.context.browser.new_context(java_script_enabled=False).new_page()
        plain.goto(page.url)
        ours, theirs = look(page), look(plain)
        foot = "document.querySelector('#table tfoot').textContent.trim()"
        head = "document.querySelector('#table thead').textContent.trim()"
        assert [page.evaluate(p) for p in (head, foot)] == [
            plain.evaluate(p) for p in (head, foot)
        ]
        plain.context.close()
        assert not {"chart-groups", "rank", "groups"} & set(theirs["visible"])
        for name in ("cells", "tiles", "verdict", "advice", "state"):
            assert list(ours[name]) == list(theirs[name])
            assert ours[name] == theirs[name]

    def test_who_pays_and_who_gains_is_marked(self, visit, found):
        page = visit(found)
        page.check("input[name=side][value=hand]")
        pca, fair = found.at("PCA").loss, found.at("FairPCA").loss
        shown = look(page)["cells"]["FairPCA"]
        for i, group in enumerate(found.groups):
            small = shown[group.text]["small"]
            assert ("↑ pays" in small) == bool(fair[i] > 1.005 * pca[i])
            assert ("↓ gains" in small) == bool(fair[i] < pca[i] / 1.005)
        page.check("input[name=measure][value=share]")
        assert "↓ pays" in page.locator("#table").inner_text()

    def test_the_slider_changes_charts(self, visit, found):
        page = visit(found)
        page.check("input[name=side][value=hand]")
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

    def test_new_rows_are_drawn_with_their_intervals(self, visit, found):
        page = visit(found)
        assert page.locator("#chart-groups line[opacity]").count() == 3 * len(found.reducers)
        assert page.locator("#bars").inner_text() == "Bars: 95% interval."
        assert page.locator(".advised").count() == 1
        page.locator("#chart-groups svg > g").first.hover()
        assert "shrunk FairPCA" in page.locator("#tip").inner_text()
        page.check("input[name=measure][value=error]")
        assert page.locator("#chart-groups line[opacity]").count() == 0
        assert page.locator("#bars").inner_text() == "No interval is known for these numbers."

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

    def test_keys_alone_reach_every_switch(self, visit, found):
        page = visit(found)
        focus = """() => { const node = document.activeElement, style = getComputedStyle(node);
            return [node.name || node.id, style.outlineStyle, parseFloat(style.outlineWidth)]; }"""
        for name, expected in (
            ("side", "the rows in hand, 2 components"),
            ("measure", "by error"),
            ("rank", "the rows in hand, 3 components"),
        ):
            page.keyboard.press("Tab")
            page.keyboard.press("ArrowRight")
            assert page.evaluate(focus) == [name, "solid", 3]
            state = look(page)
            assert expected in " ".join([state["state"], *state["verdict"]])

    def test_hovering_shows_values(self, visit, found):
        page = visit(found)
        page.locator("#chart-groups svg > g").first.hover()
        tip = page.locator("#tip")
        pca = found.new_rows.at("PCA")
        assert tip.is_visible()
        assert found.groups[pca.worst].text in tip.inner_text()
        assert number(pca.worst_loss) in tip.inner_text()
        page.check("input[name=side][value=hand]")
        page.locator("#chart-ranks svg").first.hover()
        assert "PCA" in tip.inner_text()

    def test_clicking_a_chart_chooses_the_rank(self, visit, found):
        page = visit(found)
        page.check("input[name=side][value=hand]")
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

    def test_tables_of_short_names_fit_a_phone(self, visit):
        X, sizes = rows((4000, 2500, 1200))
        labels = {"education": np.repeat([1, 2, 3], sizes)}
        page = visit(audit(X, labels, 2, ranks=[2], n_bootstrap=0), 390)
        for side in ("new", "hand"):
            page.check(f"input[name=side][value={side}]")
            wider = """[...document.querySelectorAll('.scroll')].filter(
                (e) => e.scrollWidth > e.clientWidth).map((e) => e.ariaLabel)"""
            assert page.evaluate(wider) == []

    def test_long_names_wrap(self, visit):
        X, sizes = rows((80, 50))
        options = {"ranks": [2], "n_bootstrap": 0}
        page = visit(audit(X, np.repeat(["w" * 120, "v" * 120], sizes), 2, **options), 390)
        for side in ("new", "hand"):
            page.check(f"input[name=side][value={side}]")
            assert page.locator("#tiles").inner_text().count("“") > 0
            assert page.evaluate("document.documentElement.scrollWidth") <= 390

    def test_prints(self, visit, found, tmp_path):
        page = visit(found, scheme="dark")
        page.emulate_media(media="print")
        # What is not known in this position is not printed.
        assert not page.locator("#h-ranks").is_visible()
        assert page.locator("#keys").inner_text().split("\n") == list(found.reducers)
        page.emulate_media(media="screen")
        page.check("input[name=side][value=hand]")
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
        # A long table has its head on every page and its totals once.
        parts = "['thead', 'tfoot'].map((n) => getComputedStyle($(n)).display)".replace(
            "$", "document.querySelector.bind(document)"
        )
        assert page.evaluate(parts) == ["table-header-group", "table-row-group"]
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
        shown = look(page)["cells"]["PCA"]
        assert {group.text.strip() for group in hostile.groups} == set(shown)

    def test_groups_that_share_the_worst_place_are_all_named_and_marked(self, visit, found):
        page = visit(found)
        page.check("input[name=side][value=hand]")
        # Under FairPCA all groups fare alike: none is marked.
        assert "(every group alike)" in page.locator("#verdict").inner_text()
        assert marked(page, "FairPCA") == []
        # Two columns hold all of one group, and five others are one and the same.
        rng = np.random.default_rng(0)
        one, other = rng.normal(size=(400, 4)) * [9, 9, 0, 0], rng.normal(size=(20, 4))
        labels = np.repeat(["site 0", *(f"site {i}" for i in range(1, 6))], [400, *[20] * 5])
        result = audit(np.vstack([one, *[other] * 5]), labels, 2, ranks=[2], n_bootstrap=0)
        page = visit(result)
        page.check("input[name=side][value=hand]")
        page.check("input[name=measure][value=error]")
        assert marked(page, "PCA") == [f"site {i}" for i in range(1, 6)]
        said = "groups “site 1”, “site 2”, “site 3” and 2 more are served worst under PCA"
        assert said in page.locator("#verdict").inner_text()
        assert "“site 3” and 2 more" in page.locator("#tiles").inner_text()

    def test_of_many_lines_six_have_a_colour(self, visit):
        X, _ = rows((20,) * 14)
        labels = np.repeat([f"group {i:02}" for i in range(14)], 20)
        options = {"n_folds": 0, "n_bootstrap": 0, "leave_one_out": False}
        page = visit(audit(X, labels, 2, ranks=[1, 2], **options))
        # Whatever is chosen, the group served worst by it is drawn first, until somebody chooses.
        for measure, pick in (("error", max), ("share", min), ("loss", max)):
            page.check(f"input[name=measure][value={measure}]")
            found = {name: cell["value"] for name, cell in look(page)["cells"]["PCA"].items()}
            worst = pick(found, key=found.get)
            drawn = page.locator("#chart-groups text.strong")
            assert drawn.text_content() == worst
            assert page.get_by_role("checkbox", name=worst).is_checked()
        # The others are quiet and counted.
        keys = page.locator("#line-keys > span").all_inner_texts()
        assert len(keys) == 7
        assert keys[-1] == "2 other groups, which PCA serves better with 2 components"

    def test_two_hundred_groups(self, visit):
        X, labels = many_groups()
        page = visit(audit(X, labels, 2, n_folds=0, n_bootstrap=20))
        assert page.locator("#table tbody tr").count() == 200
        assert page.locator("#chart-groups svg > g").count() == 8
        page.fill("#groups input[type=search]", "group 19")
        assert page.locator("#groups label:visible").count() == 10
        page.click("#groups button:text('all')")
        assert page.locator("#chart-groups svg > g").count() == 200
        assert page.locator("#chart-price").is_hidden()
