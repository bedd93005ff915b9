"""Displays: the data they hold and the artists they draw, not pixels."""

import itertools
import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

mpl.use("Agg")
import matplotlib.pyplot as plt
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA

from fairpca import FairPCA, plots
from fairpca.auditing import audit
from fairpca.auditing.findings import Audit
from fairpca.methods import NullSpaceFairPCA
from fairpca.metrics import group_losses
from fairpca.plots import (
    DualDisplay,
    GroupLossDisplay,
    LoadingsDisplay,
    NumericalRangeDisplay,
    RankCurveDisplay,
    ScatterDisplay,
    TradeoffDisplay,
)
from fairpca.plots.display import FAIR_COLOUR, PALETTE, PCA_COLOUR, drawable

from tables import TABLES, credit_codes

HOSTILE = [
    "$x_1^{2$",
    "<b>bold</b>",
    "عربي وأكثر",
    "עברית",
    "😀 🦊",
    "a\nb\tc\0",
    "x" * 500,
    "",
]


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = np.vstack(
        [rng.normal(size=(80, 5)) * [3, 2, 1, 1, 1], rng.normal(size=(50, 5)) * [1, 1, 3, 2, 1]]
    )
    return X, np.repeat(["first", "second"], [80, 50])


@pytest.fixture(scope="module")
def found(rows):
    return audit(*rows, 2)


@pytest.fixture(scope="module")
def model(rows):
    return FairPCA(2).fit(rows[0], sensitive_features=rows[1])


class TestGroupLoss:
    def test_bars_are_the_losses(self, found):
        display = GroupLossDisplay.from_audit(found)
        order = np.argsort(-found.at("PCA").loss)
        for bars, name in zip(display.bars_, found.reducers, strict=True):
            widths = [bar.get_width() for bar in bars]
            np.testing.assert_allclose(widths, found.at(name).loss[order])
        labels = [text.get_text() for text in display.ax_.get_yticklabels()]
        assert labels == [found.groups[i].text for i in order]
        assert display.bars_[0][0].get_facecolor() != display.bars_[1][0].get_facecolor()
        display.figure_.canvas.draw()

    def test_intervals_are_drawn_where_there_are_some(self, found, rows):
        display = GroupLossDisplay.from_audit(found, measure="share")
        assert display.bars_[0].errorbar is not None
        bare = audit(*rows, 2, n_bootstrap=0)
        assert GroupLossDisplay.from_audit(bare).bars_[0].errorbar is None
        # They end where the interval ends, also where it does not hold the value.
        ends = np.array([[[0.2, 0.4], [0.0, 0.9]]])
        names = {"groups": ["a", "b"], "reducers": ["PCA"], "n_components": 1}
        display = GroupLossDisplay(np.array([[0.5, 0.5]]), intervals=ends, **names).plot()
        (whiskers,) = display.bars_[0].errorbar.lines[2]
        drawn = [segment[:, 0] for segment in whiskers.get_segments()]
        np.testing.assert_allclose(drawn, ends[0])

    def test_from_estimator_shows_the_groups_of_the_fit(self, rows):
        X, labels = rows
        columns = {"of": [None, *labels[1:]], "half": ["left", "right"] * 65}
        model = FairPCA(2, group_by="marginal", unlabelled="ignore", shrinkage="auto")
        model.fit(X, sensitive_features=columns)
        display = GroupLossDisplay.from_estimator(model, X, sensitive_features=columns)
        shown = sorted(display.values[1])
        np.testing.assert_allclose(shown, sorted(model.group_losses_))

    def test_from_estimator_sets_it_beside_pca(self, rows, model):
        X, labels = rows
        figure, ax = plt.subplots()
        display = GroupLossDisplay.from_estimator(model, X, sensitive_features=labels, ax=ax)
        assert display.ax_ is ax
        assert display.figure_ is figure
        expected = group_losses(model, X, sensitive_features=labels)
        np.testing.assert_allclose(np.sort(display.values[1]), np.sort(expected))
        assert [text.get_text() for text in ax.get_legend().get_texts()] == ["PCA", "FairPCA"]

    @pytest.mark.parametrize("center", ["global", "group"])
    def test_losses_are_about_the_mean_of_the_estimator(self, rows, center):
        X, labels = rows[0] + 3.0 * (rows[1] == "first")[:, None], rows[1]
        model = FairPCA(2, center=center).fit(X, sensitive_features=labels)
        display = GroupLossDisplay.from_estimator(model, X, sensitive_features=labels)
        np.testing.assert_allclose(np.sort(display.values[1]), np.sort(model.group_losses_))
        phi = DualDisplay.from_audit(audit(X, labels, 2, center=center, n_bootstrap=0))
        assert phi.value == pytest.approx(model.group_losses_.max())

    def test_many_groups_are_cut_to_the_worst(self):
        rng = np.random.default_rng(0)
        X, labels = rng.normal(size=(400, 9)), np.repeat(np.arange(20), 20)
        found = audit(X, labels, 1, ranks=[1], n_folds=0, leave_one_out=False)
        display = GroupLossDisplay.from_audit(found, max_groups=5)
        assert display.values.shape == (len(found.reducers), 5)
        assert np.all(np.diff(display.values[0]) <= 0)
        assert display.ax_.get_ylabel() == "group (5 worst of 20)"

    @pytest.mark.parametrize("display", [GroupLossDisplay, RankCurveDisplay, TradeoffDisplay])
    def test_says_that_the_rows_are_those_in_hand(self, found, display):
        ax = display.from_audit(found).ax_
        assert "the rows in hand" in f"{ax.get_xlabel()} {ax.get_ylabel()} {ax.get_title()}"

    def test_reducers_of_any_number_and_name_are_told_apart(self, rows):
        X, labels = rows
        fitted = FairPCA(2, criterion="relative").fit(X, sensitive_features=labels)
        more = {f"FairPCA, centre {i}": FairPCA(2, center="group") for i in range(4)}
        options = {"ranks": [2], "n_folds": 0, "n_bootstrap": 0}
        found = audit(X, labels, 2, reducers={"FairPCA": fitted, **more}, **options)
        display = GroupLossDisplay.from_audit(found)
        assert len({bars[0].get_facecolor() for bars in display.bars_}) == len(found.reducers)
        display.figure_.canvas.draw()
        legend = display.ax_.get_legend()
        shown = [text.get_text() for text in legend.get_texts()]
        assert len(set(shown)) == len(found.reducers)
        # Neither the legend nor the axes leave the figure.
        box = display.figure_.bbox
        for part in (legend.get_window_extent(), display.ax_.get_tightbbox()):
            assert part.x0 >= box.x0 - 1
            assert part.x1 <= box.x1 + 1
        lines = RankCurveDisplay.from_audit(found, reducers=["FairPCA", "FairPCA (given)"])
        names = [text.get_text() for text in lines.ax_.get_legend().get_texts()]
        assert len(set(names)) == len(names)

    def test_unknown_measure(self, found):
        with pytest.raises(ValueError, match="measure='nothing'"):
            GroupLossDisplay.from_audit(found, measure="nothing")


class TestRanks:
    @pytest.mark.parametrize("measure", ["loss", "error", "share"])
    def test_lines_are_the_measure_over_ranks(self, found, measure):
        display = RankCurveDisplay.from_audit(found, measure=measure)
        order = np.argsort(-found.at("PCA").loss)
        for j, name in enumerate(("PCA", "FairPCA")):
            for i, group in enumerate(order):
                x, y = display.lines_[j][i].get_data()
                np.testing.assert_array_equal(x, found.ranks)
                expected = [found.at(name, r).measure(measure)[group] for r in found.ranks]
                np.testing.assert_allclose(y, expected)
        # A group keeps its colour in every picture and under every method.
        for i, group in enumerate(order):
            colours = {display.lines_[j][i].get_color() for j in range(2)}
            assert colours == {PALETTE[group]}

    def test_from_estimator_fits_clones(self, rows, model):
        X, labels = rows
        display = RankCurveDisplay.from_estimator(
            model, X, sensitive_features=labels, ranks=[1, 2, 3]
        )
        np.testing.assert_array_equal(display.ranks, [1, 2, 3])
        fitted = FairPCA(3).fit(X, sensitive_features=labels)
        np.testing.assert_allclose(display.values[1, 2].max(), fitted.group_losses_.max())
        assert model.n_components_ == 2

    def test_tradeoff(self, found, rows, model):
        display = TradeoffDisplay.from_audit(found)
        points = display.points_.get_offsets()
        np.testing.assert_allclose(
            points,
            [
                [100 * found.at("FairPCA", r).price, 100 * found.at("FairPCA", r).cut]
                for r in display.ranks
            ],
        )
        again = TradeoffDisplay.from_estimator(
            model, rows[0], sensitive_features=rows[1], ranks=list(found.ranks)
        )
        np.testing.assert_allclose(again.cut, display.cut, atol=1e-8)

    def test_numbers_of_a_dense_tradeoff_do_not_overlap(self):
        """Forty points within a finger's breadth, each with its number, were one black spot."""
        price = np.linspace(0.001, 0.04, 40) ** 2
        display = TradeoffDisplay(np.arange(1, 41), price, price).plot()
        display.figure_.canvas.draw()
        boxes = [text.get_window_extent() for text in display.ax_.texts]
        assert len(boxes) > 5
        assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))

    def test_ten_groups_show_seven_in_distinct_colours_and_say_so(self):
        rng = np.random.default_rng(0)
        scales = rng.uniform(1, 3, size=(10, 4))
        X, labels = rng.normal(size=(300, 4)) * scales[np.arange(300) % 10], np.arange(300) % 10
        found = audit(
            X, {"region": labels}, 1, ranks=[1], n_folds=0, n_bootstrap=0, leave_one_out=False
        )
        display = RankCurveDisplay.from_audit(found)
        assert len({line.get_color() for line in display.lines_[1]}) == 7
        title = display.ax_.get_legend().get_title().get_text()
        assert title == "region (7 worst of 10)"

    def test_no_group_has_the_colour_of_a_reducer(self):
        assert not {FAIR_COLOUR, PCA_COLOUR} & set(PALETTE)


class TestTwoGroups:
    def test_phi_peaks_at_the_value(self, found):
        display = DualDisplay.from_audit(found)
        t, phi = display.line_.get_data()
        assert phi.max() == pytest.approx(found.at("FairPCA").worst_loss)
        assert t[np.argmax(phi)] == pytest.approx(display.t_best)
        assert np.all(np.diff(phi, 2)[np.abs(np.diff(t, 2)) < 1e-12] <= 1e-9)

    def test_the_range_holds_both_projections(self, found, rows, model):
        display = NumericalRangeDisplay.from_audit(found)
        outline = display.outline_.get_path()
        for name in ("PCA", "FairPCA"):
            x, y = display.points_[name].get_data()
            point = np.array([x[0], y[0]])
            np.testing.assert_allclose(point, found.at(name).loss, atol=1e-9)
            centre = outline.vertices.mean(axis=0)
            assert outline.contains_point(point + 1e-2 * (centre - point))
        again = NumericalRangeDisplay.from_estimator(model, rows[0], sensitive_features=rows[1])
        np.testing.assert_allclose(again.points["FairPCA"], display.points["FairPCA"], rtol=1e-6)

    def test_columns_in_another_order_are_refused(self, rows):
        frame = pd.DataFrame(rows[0], columns=list("abcde"))
        fitted = PCA(2).fit(frame)
        with pytest.raises(ValueError, match="column 1 of X is 'e'"):
            NumericalRangeDisplay.from_estimator(
                fitted, frame[list("edcba")], sensitive_features=rows[1]
            )

    def test_from_estimator(self, rows, model):
        display = DualDisplay.from_estimator(model, rows[0], sensitive_features=rows[1])
        assert display.value == pytest.approx(model.group_losses_.max())

    def test_other_numbers_of_groups_and_files_are_refused(self, found):
        rng = np.random.default_rng(0)
        three = audit(rng.normal(size=(90, 3)), np.arange(90) % 3, 1)
        with pytest.raises(ValueError, match="there are 3"):
            DualDisplay.from_audit(three)
        read = Audit.from_json(found.to_json())
        for display in (DualDisplay, NumericalRangeDisplay, LoadingsDisplay):
            with pytest.raises(ValueError, match="read from a file"):
                display.from_audit(read)
        with pytest.raises(ValueError, match="read from a file"):
            ScatterDisplay.from_audit(read, np.eye(5), sensitive_features=list("aabbb"))


class TestScatter:
    def test_points_are_the_projected_rows(self, rows, model):
        X, labels = rows
        display = ScatterDisplay.from_estimator(model, X, sensitive_features=labels)
        for i, name in enumerate(("first", "second")):
            expected = model.transform(X)[labels == name]
            np.testing.assert_allclose(display.points_[i].get_offsets(), expected)
        texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
        assert texts == ["first", "second"]
        # Beside the axes: it covers no point.
        display.figure_.canvas.draw()
        legend = display.ax_.get_legend().get_window_extent()
        assert legend.x0 >= display.ax_.get_window_extent().x1

    def test_from_audit_projects_alike(self, rows, model, found):
        X, labels = rows
        ours = ScatterDisplay.from_audit(found, X, sensitive_features=labels)
        theirs = ScatterDisplay.from_estimator(model, X, sensitive_features=labels)
        np.testing.assert_allclose(np.abs(ours.points), np.abs(theirs.points), atol=1e-6)

    def test_large_groups_are_thinned_and_one_component_is_spread(self, rows):
        X, labels = rows
        one = PCA(1).fit(X)
        display = ScatterDisplay.from_estimator(one, X, sensitive_features=labels, max_points=10)
        assert display.points.shape == (20, 2)
        assert set(display.points[:, 0]) <= set(one.transform(X)[:, 0])


class TestLoadings:
    def test_heaviest_columns_first(self, model):
        names = list("abcde")
        display = LoadingsDisplay.from_estimator(model, feature_names=names)
        shown = display.image_.get_array()
        np.testing.assert_allclose(shown, model.components_[:, display.shown_].T)
        heaviest = np.abs(model.components_).max(axis=0)
        assert np.all(np.diff(heaviest[display.shown_]) <= 1e-12)
        labels = [text.get_text() for text in display.ax_.get_yticklabels()]
        assert labels == [names[i] for i in display.shown_]

    def test_from_audit_is_the_estimators(self, found, model):
        display = LoadingsDisplay.from_audit(found)
        np.testing.assert_allclose(
            np.abs(display.components), np.abs(model.components_), atol=1e-6
        )
        with pytest.raises(ValueError, match="feature_names has 2"):
            LoadingsDisplay.from_audit(found, feature_names=["a", "b"])

    def test_names_come_from_a_frame(self, rows, found):
        pandas = pytest.importorskip("pandas")
        frame = pandas.DataFrame(rows[0], columns=list("abcde"))
        assert LoadingsDisplay.from_audit(found, frame).feature_names == list("abcde")
        fitted = PCA(2).fit(rows[0])
        assert LoadingsDisplay.from_estimator(fitted, frame).feature_names == list("abcde")
        # An audit of a frame remembers them, and so does its page.
        for table in (frame, pl.from_pandas(frame), pa.Table.from_pandas(frame)):
            named = audit(table, rows[1], 2, ranks=[2], n_bootstrap=0, n_folds=0)
            assert LoadingsDisplay.from_audit(named).feature_names == list("abcde")
        assert "Features used (5): a, b, c, d, e." in named.to_html()
        assert LoadingsDisplay.from_estimator(fitted, rows[0]).feature_names[0] == "x0"

    def test_pixels(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(40, 12))
        model = FairPCA(2).fit(X, sensitive_features=np.arange(40) % 2)
        display = LoadingsDisplay.from_estimator(model, image_shape=(3, 4), component=1)
        np.testing.assert_allclose(display.image_.get_array(), model.components_[1].reshape(3, 4))


class TestLabels:
    def test_are_drawn_as_written_without_warnings(self):
        rng = np.random.default_rng(0)
        k = len(HOSTILE)
        X, labels = rng.normal(size=(20 * k, 3)), np.repeat(np.array(HOSTILE, dtype=object), 20)
        found = audit(X, {"$\\frac{": labels}, 1, ranks=[1, 2], n_folds=0, n_bootstrap=20)
        for display in (
            GroupLossDisplay.from_audit(found),
            RankCurveDisplay.from_audit(found),
            ScatterDisplay.from_audit(found, X, sensitive_features=labels),
            LoadingsDisplay.from_audit(found, feature_names=["$a$", "😀", "ج"]),
        ):
            display.figure_.canvas.draw()

    def test_what_a_font_lacks_is_spelled_out(self):
        assert drawable("50$ and 60$") == r"50\$ and 60\$"
        assert drawable("🦊") == ":fox face:"
        assert drawable("🦊") != drawable("🦝")
        assert drawable("a\nb") == "a b"
        assert len(drawable("y" * 500)) == 40
        assert drawable("y" * 50 + "1") != drawable("y" * 50 + "2")
        assert drawable("عربي") == "عربي"


@pytest.mark.parametrize("name, r", [("BM", 4), ("DCC", 5)])
def test_real_tables(name, r):
    X, labels = TABLES[name]()
    found = audit(X, labels, r, n_folds=0, n_bootstrap=20, leave_one_out=False)
    for display in (
        GroupLossDisplay.from_audit(found),
        RankCurveDisplay.from_audit(found),
        TradeoffDisplay.from_audit(found),
        DualDisplay.from_audit(found),
        NumericalRangeDisplay.from_audit(found),
        ScatterDisplay.from_audit(found, X, sensitive_features=labels, max_points=100),
        LoadingsDisplay.from_audit(found),
    ):
        display.figure_.canvas.draw()


def test_faces_as_pictures():
    X, labels = TABLES["LFW"]()
    model = FairPCA(3).fit(X[:600], sensitive_features=labels[:600])
    display = LoadingsDisplay.from_estimator(model, image_shape=(49, 36))
    assert display.image_.get_array().shape == (49, 36)
    display.figure_.canvas.draw()


def test_seven_groups():
    X, education, _ = credit_codes()
    found = audit(X, education, 5, ranks=[2, 5], n_folds=0, n_bootstrap=20, leave_one_out=False)
    display = RankCurveDisplay.from_audit(found)
    assert len({line.get_color() for line in display.lines_[0]}) == 7


def test_a_missing_matplotlib_names_the_line_that_installs_it():
    code = (
        "import sys; sys.modules['matplotlib'] = sys.modules['matplotlib.pyplot'] = None\n"
        "import numpy as np\n"
        "from fairpca.auditing import audit\n"
        "from fairpca.plots import GroupLossDisplay\n"
        "X = np.random.default_rng(0).normal(size=(40, 3))\n"
        "found = audit(X, ['a', 'b'] * 20, 1, n_folds=0, n_bootstrap=0)\n"
        "try: GroupLossDisplay.from_audit(found)\n"
        "except ImportError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert 'pip install ".[app]"' in done.stdout, done.stderr


def test_a_name_that_no_reducer_has_is_refused():
    X, y = load_wine(return_X_y=True)
    found = audit(X, y, 2, ranks=[1, 2], n_bootstrap=0, n_folds=0)
    draws = [
        lambda: plots.TradeoffDisplay.from_audit(found, reducer="fairpca"),
        lambda: plots.RankCurveDisplay.from_audit(found, reducers=["PCA", "fairpca"]),
        lambda: plots.GroupLossDisplay.from_audit(found, reducers=["fairpca"]),
        lambda: plots.LoadingsDisplay.from_audit(found, reducer="fairpca"),
    ]
    for draw in draws:
        with pytest.raises(
            ValueError, match="reducer='fairpca' is not known; choose one of 'PCA'"
        ):
            draw()


def test_rows_about_another_mean_are_told():
    X = np.random.default_rng(0).normal(size=(120, 4)) * [3, 2, 1, 1]
    labels = np.arange(120) % 3
    model = FairPCA(2).fit(X, sensitive_features=labels)
    with pytest.warns(UserWarning, match="subtracts another mean"):
        plots.GroupLossDisplay.from_estimator(model, X + 3, sensitive_features=labels)


def test_a_kernel_has_no_place_in_pictures_of_columns():
    X, y = load_wine(return_X_y=True)
    model = NullSpaceFairPCA(2, kernel="linear").fit(X, sensitive_features=y == 0)
    for display in (plots.GroupLossDisplay, plots.NumericalRangeDisplay):
        with pytest.raises(ValueError, match="reducer with a kernel"):
            display.from_estimator(model, X, sensitive_features=y == 0)
