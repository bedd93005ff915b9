"""Colours of reducers and groups, and labels that a font can show."""

from __future__ import annotations

import functools
import unicodedata
from typing import Any

from fairpca._checks import require

# The two reducers of every audit, in vermilion and blue of Okabe and Ito's palette. The page of
# the report uses the same hues. No group has either colour.
PCA_COLOUR = "#D55E00"
FAIR_COLOUR = "#0072B2"
# Groups take what is left of Okabe and Ito's palette, without yellow, which cannot be seen on
# white, and then a brown and a violet. With simulated colour blindness (Machado, severity 1, all
# three kinds) the closest two differ by 16 in CIELAB, as in the original palette.
PALETTE = ("#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C510A", "#5D3A9B")
# Markers of groups in a scatter plot. Ten do not divide seven, so the pair of colour and marker
# repeats only after seventy groups.
MARKERS = "os^DvPX*<>"
# What the axis of a measure is called.
AXIS = {"loss": "loss per row", "error": "mean squared error", "share": "share of variance kept"}

# Families with letters that matplotlib's own font lacks, used where they are installed. Without
# them a label in Chinese or Hindi would be a row of empty boxes, so it is spelled out instead.
_MORE_FAMILIES = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "WenQuanYi Zen Hei",
    "PingFang SC",
    "Hiragino Sans",
    "Microsoft YaHei",
    "Malgun Gothic",
    "Noto Sans Devanagari",
    "Noto Sans Thai",
    "Noto Emoji",
    "Symbola",
)
# Characters of a label before it is cut: longer ones leave no room for the axes of a figure six
# inches wide.
_LONGEST = 40


def reducer_colour(name: str, position: int) -> str:
    """Return the colour of a reducer: PCA and FairPCA have their own, others follow the palette.

    Parameters
    ----------
    name : str
        As the audit calls it.
    position : int
        Place among the reducers of the picture.
    """
    if name == "PCA":
        return PCA_COLOUR
    return FAIR_COLOUR if name.startswith("FairPCA") else group_colour(position)


def group_colour(position: int) -> str:
    """Return the colour of the group at a position; it repeats after `len(PALETTE)` groups."""
    return PALETTE[position % len(PALETTE)]


def fonts() -> dict[str, Any]:
    """Return matplotlib's fonts by family: the user's, then those with letters they lack."""
    matplotlib = require("matplotlib", extra="app", purpose="a plot")
    return _fonts(tuple(matplotlib.rcParams["font.family"]))


@functools.cache
def _fonts(base: tuple[str, ...]) -> dict[str, Any]:
    """Return the fonts of these families and of all in `_MORE_FAMILIES` that are installed."""
    manager = require("matplotlib.font_manager", extra="app", purpose="a plot")
    installed = {font.name for font in manager.fontManager.ttflist}
    more = (name for name in _MORE_FAMILIES if name in installed)
    return {
        family: manager.get_font(manager.findfont(manager.FontProperties(family=[family])))
        for family in (*base, *more)
    }


def drawable(text: str) -> str:
    r"""Return a label that is drawn as it was written.

    A dollar sign stays a dollar sign. A character no installed font has (colour emoji, mostly) is
    spelled out by its Unicode name between colons, so that two labels never come out alike. Labels
    of more than 40 characters are cut.

    Parameters
    ----------
    text : str
        Any text, such as a group label or the name of a column.

    Returns
    -------
    str
        With dollar signs escaped, since matplotlib would set what is between two as a formula.

    Examples
    --------
    >>> from fairpca.plots.style import drawable
    >>> print(drawable("under 50$"))
    under 50\$
    """
    known = tuple(fonts().values())
    shown = "".join(_drawable_char(char, known) for char in text)
    if len(shown) > _LONGEST:
        shown = shown[: _LONGEST - 1] + "…"
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
