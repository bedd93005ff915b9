"""Displays: the numbers they hold and the artists they draw, not pixels."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

mpl.use("Agg")
import matplotlib.pyplot as plt
from sklearn.decomposition import PCA

from fairpca import FairPCA, plots
from fairpca.moments.group_moments import GroupMoments


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
def model(rows):
    return FairPCA(2).fit(rows[0], sensitive_features=rows[1])


def texts(display):
    """Return all texts of a figure, legends included."""
    display.figure_.canvas.draw()
    return [text.get_text() for text in display.figure_.findobj(mpl.text.Text)]


class Other(FairPCA):
    """A reducer of another name."""


def light(colour):
    """Return the relative luminance of a colour, as WCAG defines it."""
    parts = np.array(mpl.colors.to_rgb(colour))
    linear = np.where(parts <= 0.03928, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def test_every_candidate_can_be_seen_on_light_and_on_dark_paper():
    looks = plots.displays.looks(
        ["PCA", "balanced PCA", "FairPCA", "careful FairPCA", *map(str, range(6))]
    )
    assert len(set(looks)) == 10
    for colour, _ in looks[:4]:
        # WCAG 2.1: 3 for lines and marks.
        assert 1.05 / (light(colour) + 0.05) >= 3
        assert (light(colour) + 0.05) / 0.05 >= 3


@pytest.mark.parametrize("style", ["default", "dark_background"])
def test_no_text_or_line_has_the_colour_of_the_paper(rows, model, style):
    with plt.style.context(style):
        for cls in (plots.DualDisplay, plots.NumericalRangeDisplay):
            display = cls.from_estimator(model, rows[0], sensitive_features=rows[1])
            paper = display.ax_.get_facecolor()
            drawn = [*display.ax_.lines, *display.figure_.findobj(mpl.text.Text)]
            for artist in drawn:
                assert mpl.colors.to_rgba(artist.get_color()) != paper


class TestTwoGroups:
    def test_phi_peaks_at_the_value(self, rows, model):
        display = plots.DualDisplay.from_estimator(model, rows[0], sensitive_features=rows[1])
        t, phi = display.line_.get_data()
        assert phi.max() == pytest.approx(model.group_losses_.max())
        assert display.value == pytest.approx(phi.max())
        assert t[np.argmax(phi)] == pytest.approx(display.t_best)

    @pytest.mark.parametrize("center", ["global", "group"])
    def test_the_range_holds_both_projections(self, rows, center):
        X, labels = rows[0] + 3.0 * (rows[1] == "first")[:, None], rows[1]
        model = FairPCA(2, center=center).fit(X, sensitive_features=labels)
        display = plots.NumericalRangeDisplay.from_estimator(model, X, sensitive_features=labels)
        np.testing.assert_allclose(display.points["FairPCA"], model.group_losses_)
        corners = display.range_.points
        for point in display.points.values():
            # In every direction some corner is at least as far out, up to the picture's accuracy.
            outer = (corners - point) @ np.array(
                [np.cos(display.range_.angles), np.sin(display.range_.angles)]
            )
            assert outer.max(axis=0).min() > -0.02 * np.ptp(corners, axis=0).max()
            assert max(point) <= display.ax_.get_xlim()[1]

    def test_moments_and_rows_draw_the_same(self, rows, model):
        moments = GroupMoments.from_array(*rows)
        figure, axes = plt.subplots()
        ours = plots.NumericalRangeDisplay.from_moments(moments, 2, ax=axes)
        theirs = plots.NumericalRangeDisplay.from_estimator(
            model, rows[0], sensitive_features=rows[1]
        )
        assert (ours.figure_, ours.ax_) == (figure, axes)
        for name, point in ours.points.items():
            np.testing.assert_allclose(theirs.points[name], point, rtol=1e-6)

    def test_other_reducers_are_named(self, rows):
        frame = pd.DataFrame(rows[0], columns=list("abcde"))
        fitted = Other(2, criterion="error").fit(frame, sensitive_features=rows[1])
        draw = plots.NumericalRangeDisplay.from_estimator
        assert "Other" in texts(draw(fitted, frame, sensitive_features=rows[1]))
        with pytest.raises(ValueError, match="column 1 of X is 'e'"):
            draw(fitted, frame[list("edcba")], sensitive_features=rows[1])

    def test_three_groups_are_refused(self, rows):
        labels = np.arange(len(rows[0])) % 3
        with pytest.raises(ValueError, match="there are 3"):
            plots.DualDisplay.from_moments(GroupMoments.from_array(rows[0], labels), 2)


class TestScatter:
    @pytest.mark.parametrize(
        ("r", "pairs"), [(1, [(0, None)]), (2, [(0, 1)]), (4, [(0, 1), (0, 2), (1, 2)])]
    )
    def test_every_pair_of_the_first_three_components_is_drawn(self, rows, r, pairs):
        X, labels = rows
        fitted = PCA(r).fit(X)
        draw = plots.ScatterDisplay.from_estimator
        display = draw(fitted, X, sensitive_features=labels)
        assert len(display.axes_) == len(pairs)
        Z = fitted.transform(X)
        for axes, (i, j) in zip(display.axes_, pairs, strict=True):
            for drawn, name in zip(axes.collections, ("first", "second"), strict=True):
                x, y = drawn.get_offsets().T
                np.testing.assert_allclose(np.sort(x), np.sort(Z[labels == name, i]))
                if j is not None:
                    np.testing.assert_allclose(np.sort(y), np.sort(Z[labels == name, j]))
        assert {"first", "second"} <= set(texts(display))

    def test_large_groups_are_thinned_and_given_axes_show_two_components(self, rows):
        _, axes = plt.subplots()
        display = plots.ScatterDisplay.from_estimator(
            PCA(3).fit(rows[0]), rows[0], sensitive_features=rows[1], max_points=10, ax=axes
        )
        assert display.points.shape == (20, 3)
        assert display.axes_ == [axes]


class TestLoadings:
    def test_heaviest_columns_first(self, model):
        display = plots.LoadingsDisplay.from_estimator(
            model, feature_names=["a", "b", "c", "$d", "e" * 99]
        )
        shown = display.image_.get_array()
        np.testing.assert_allclose(shown, model.components_[:, display.shown_].T)
        heaviest = np.abs(shown).max(axis=1)
        assert np.all(np.diff(heaviest) <= 1e-12)
        names = {text.get_text() for text in display.ax_.get_yticklabels()}
        # A dollar sign is drawn as one, and a long name is cut.
        assert {"a", "b", "c", r"\$d"} < names
        assert max(map(len, names)) == 40
        with pytest.raises(ValueError, match="feature_names has 2"):
            plots.LoadingsDisplay.from_estimator(model, feature_names=["a", "b"])

    def test_of_many_columns_the_heaviest_twenty(self):
        X = np.random.default_rng(0).normal(size=(60, 30)) * np.arange(1, 31)
        frame = pd.DataFrame(X, columns=[f"column {j}" for j in range(30)])
        display = plots.LoadingsDisplay.from_estimator(PCA(8).fit(frame))
        assert display.image_.get_array().shape == (20, 6)
        assert any("10 lighter columns" in text for text in texts(display))
        assert any(text.startswith("column ") for text in texts(display))
