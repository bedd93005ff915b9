"""What every display shares: axes to draw on, a legend, colours, and labels that a font can show.

A display is a dataclass of the numbers it draws. Its class methods (`from_audit`,
`from_estimator`, `from_moments`) compute them and draw at once; `plot` draws them again, on other
axes if wanted. This is how scikit-learn's displays work, so users know them already.
"""

from __future__ import annotations

import contextlib
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any, Self

from fairpca._check import require
from fairpca.covariances.sources import CENTERS

# The reducers of every audit, in vermilion and blue of Okabe and Ito's palette and in a dark wine
# red. The page of the report uses the same hues. No group has any of these colours.
PCA_COLOUR = "#D55E00"
FAIR_COLOUR = "#0072B2"
SHRUNK_COLOUR = "#882255"
# Groups take what is left of Okabe and Ito's palette, without yellow, which cannot be seen on
# white, and then a brown and a violet. With simulated colour blindness (Machado, severity 1, all
# three kinds) the closest two differ by 16 in CIELAB, as in the original palette.
PALETTE = ("#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C510A", "#5D3A9B")

# Families with letters that matplotlib's own font lacks, used where they are installed. Without
# them a label in Chinese or Hindi would be a row of empty boxes, so it is spelled out instead.
_MORE_FAMILIES = (
    "Noto Sans CJK SC, Noto Sans CJK JP, WenQuanYi Zen Hei, PingFang SC, Hiragino Sans, "
    "Microsoft YaHei, Malgun Gothic, Noto Sans Devanagari, Noto Sans Thai, Noto Emoji, Symbola"
).split(", ")
# Characters of a label before it is cut: longer ones leave no room for the axes of a figure six
# inches wide.
_LONGEST = 40
# Entries of a legend in one column; a longer column is taller than the axes.
_LEGEND_COLUMN = 12


class Display:
    """The base class of all displays; `plot` sets `ax_` and `figure_` to where it has drawn."""

    # Width and height of a new figure in inches.
    _size: tuple[float, float] = (6, 4.2)

    def plot(self, ax: Any = None) -> Self:
        """Draw the numbers and return the display.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Default: a new figure.
        """
        with self._axes(ax, self._size) as axes:
            self._draw(axes)
        return self

    def _draw(self, axes: Any) -> None:
        """Draw on these axes; a display without it has a `plot` of its own."""

    @contextlib.contextmanager
    def _axes(self, ax: Any, size: tuple[float, float]) -> Iterator[Any]:
        """Set `figure_` and `ax_` and yield the axes; within it, every installed script is drawn.

        Without `ax` they are those of a new figure of this size.
        """
        pyplot = require("matplotlib.pyplot", extra="app", purpose="a plot")
        # A text takes its font when it is made, so everything is drawn within these settings.
        with pyplot.rc_context({"font.family": list(_fonts())}):
            if ax is None:
                _, ax = pyplot.subplots(layout="constrained", figsize=size)
            ax.spines[["top", "right"]].set_visible(False)
            self.figure_, self.ax_ = ax.figure, ax
            yield ax

    def _legend_beside(self, handles: Sequence[Any], title: str = "") -> None:
        """Put a legend to the right of the axes, where it cannot cover a point or a line."""
        columns = 1 if len(handles) <= _LEGEND_COLUMN else 2
        style = {"title": drawable(title), "ncols": columns, "fontsize": "small", "frameon": False}
        self.ax_.legend(handles=handles, loc="upper left", bbox_to_anchor=(1, 1), **style)


def center_of(estimator: Any) -> str:
    """Return the mean that the losses of an estimator are about, "global" or "group".

    Methods that take second moments about zero, or have no `center`, are drawn as "global".
    """
    center = getattr(estimator, "center", "global")
    return center if center in CENTERS else "global"


def group_colour(position: int) -> str:
    """Return the colour of the group at a position; it repeats after `len(PALETTE)` groups."""
    return PALETTE[position % len(PALETTE)]


def _fonts() -> dict[str, Any]:
    """Return matplotlib's fonts by family: the user's, then those with letters they lack."""
    pyplot = require("matplotlib.pyplot", extra="app", purpose="a plot")
    manager = require("matplotlib.font_manager", extra="app", purpose="a plot")
    installed = set(manager.get_font_names())
    more = (name for name in _MORE_FAMILIES if name in installed)
    return {
        family: manager.get_font(manager.findfont(manager.FontProperties(family=[family])))
        for family in (*pyplot.rcParams["font.family"], *more)
    }


def drawable(text: str) -> str:
    r"""Return a label that is drawn as it was written.

    A dollar sign is escaped, since matplotlib would set what is between two as a formula. A
    character no installed font has (colour emoji, mostly) is spelled out by its Unicode name
    between colons, so that two labels never come out alike. Of more than 40 characters the middle
    is left out: long labels often begin alike.
    """
    known = tuple(_fonts().values())
    shown = "".join(_drawable_char(char, known) for char in text)
    if len(shown) > _LONGEST:
        half = (_LONGEST - 1) // 2
        shown = f"{shown[: _LONGEST - 1 - half]}…{shown[-half:]}"
    return shown.replace("$", r"\$")


def _drawable_char(char: str, known: tuple[Any, ...]) -> str:
    """Return a character, what stands for it, or nothing where it has no shape of its own."""
    kind = unicodedata.category(char)
    if kind in ("Cc", "Zl", "Zp"):
        return " "
    if any(font.get_char_index(ord(char)) for font in known):
        return char
    if kind in ("Cf", "Mn", "Cs"):
        # Joiners and variation selectors only steer the glyphs beside them.
        return ""
    return f":{unicodedata.name(char, f'U+{ord(char):04X}').lower()}:"
