"""What every picture shares: colours, axes, and labels that a font can show."""

from __future__ import annotations

import contextlib
import functools
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Any

from fairpca._checks import require

#: Okabe and Ito's palette without yellow, which a white page swallows.
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000")
PCA_COLOUR = "#D55E00"
FAIR_COLOUR = "#0072B2"
#: What the axis of a measure is called.
AXIS = {"loss": "loss per row", "error": "mean squared error", "share": "share of variance kept"}
LINES = ("-", "--", ":", "-.")

# Families with letters that matplotlib's own font lacks, used where they are installed.
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
_LONGEST = 40


def pyplot() -> Any:
    """Return matplotlib.pyplot, or say what to install."""
    return require("matplotlib.pyplot", extra="app", purpose="a plot")


def axes(ax: Any = None, **size: Any) -> tuple[Any, Any]:
    """Return (figure, axes): those given, or new ones with a tight layout."""
    if ax is not None:
        return ax.figure, ax
    return pyplot().subplots(layout="constrained", **size)  # type: ignore[no-any-return]


def reducer_colour(name: str, position: int) -> str:
    """PCA and FairPCA always look the same; the others follow the palette."""
    if name == "PCA":
        return PCA_COLOUR
    if name.startswith("FairPCA"):
        return FAIR_COLOUR
    return PALETTE[(position + 2) % len(PALETTE)]


def line_style(position: int) -> dict[str, Any]:
    """Colour and dash of the position-th line: distinct for 28 lines."""
    dash = LINES[(position // len(PALETTE)) % len(LINES)]
    return {"color": PALETTE[position % len(PALETTE)], "linestyle": dash}


@contextlib.contextmanager
def drawing() -> Iterator[None]:
    """Within it, text is set with every installed family that has letters the default lacks."""
    matplotlib = require("matplotlib", extra="app", purpose="a plot")
    with matplotlib.rc_context({"font.family": list(_families())}):
        yield


def _families() -> tuple[str, ...]:
    matplotlib = require("matplotlib", extra="app", purpose="a plot")
    base = tuple(matplotlib.rcParams["font.family"])
    return base + tuple(name for name in _installed_extras() if name not in base)


@functools.cache
def _installed_extras() -> tuple[str, ...]:
    manager = require("matplotlib.font_manager", extra="app", purpose="a plot")
    installed = {font.name for font in manager.fontManager.ttflist}
    return tuple(name for name in _MORE_FAMILIES if name in installed)


@functools.cache
def _fonts(families: tuple[str, ...]) -> tuple[Any, ...]:
    manager = require("matplotlib.font_manager", extra="app", purpose="a plot")
    return tuple(
        manager.get_font(manager.findfont(manager.FontProperties(family=[family])))
        for family in families
    )


def drawable(text: str) -> str:
    """Return a label that is drawn as it was written.

    A dollar sign stays a dollar sign. A character no installed font has (colour emoji, mostly) is
    spelled out by its Unicode name between colons, so that two labels never come out alike.
    """
    fonts = _fonts(_families())
    shown = "".join(_drawable_char(char, fonts) for char in text)
    if len(shown) > _LONGEST:
        shown = shown[: _LONGEST - 1] + "…"
    return shown.replace("$", r"\$")


def drawable_all(texts: Iterable[str]) -> list[str]:
    """Return every label as it is drawn."""
    return [drawable(text) for text in texts]


def _drawable_char(char: str, fonts: tuple[Any, ...]) -> str:
    kind = unicodedata.category(char)
    if kind in ("Cc", "Zl", "Zp"):
        return " "
    if any(font.get_char_index(ord(char)) for font in fonts):
        return char
    if kind in ("Cf", "Mn", "Cs"):
        # Joiners and variation selectors only steer the glyphs beside them.
        return ""
    return f":{unicodedata.name(char, f'U+{ord(char):04X}').lower()}:"
