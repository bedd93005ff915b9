"""Mathematics as MathML, which browsers draw themselves.

Sphinx's own way loads a program from another computer while the page is read. Here formulas are
translated when the site is built, so the pages need no network and no script for them. Not every
machine has a font for mathematics, without which indices hardly leave the line; the pages bring
STIX Two Math along, as the package ziamath has it.
"""

from __future__ import annotations

import re
from html import unescape
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unicodedata import lookup

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.errors import ExtensionError
from sphinx.util import logging

_LOGGER = logging.getLogger(__name__)
# Operators whose limits stand below and above them in a formula of its own line.
_LIMITS = re.compile(r"\\(min|max|sum|sup|inf|prod|bigcup|bigcap|argmin|argmax)(?=\s*[_^])")
# Names that latex2mathml does not know, in words it does.
_SAME = {
    "{aligned}": "{align*}",
    r"\argmin": r"\operatorname{argmin}",
    r"\argmax": r"\operatorname{argmax}",
}
# Below a root: browsers hang its sign from the top of what it covers, too low for a small letter.
_STRUT = '<mspace width="0" height="0.75em" />'


def mathml(formula: str, *, display: bool) -> str:
    """Return a formula as MathML.

    Raises
    ------
    ValueError
        Where a part of it was not understood. The translator would print such a part as it is.
    """
    if display:
        formula = _LIMITS.sub(r"\\\1\\limits", formula)
        if r"\\" in formula and r"\begin" not in formula:
            formula = rf"\begin{{align*}}{formula}\end{{align*}}"
    for name, known in _SAME.items():
        formula = formula.replace(name, known)
    found = convert(formula, display="block" if display else "inline")
    left = re.search(r">\s*(\\[A-Za-z]+|&)\s*<", found)
    if left:
        raise ValueError(f"{left[1]} was not understood")
    found = found.replace("<msqrt>", f"<msqrt>{_STRUT}")
    return re.sub(r"<mi([^>]*)>([^<]+)</mi>", _as_meant, found)


def _as_meant(name: re.Match[str]) -> str:
    """Return what latex2mathml calls a name as browsers draw it right.

    They give no room to a relation or a function that is called a name, and draw an upright or
    slanted letter where a script one is asked for.
    """
    sign = unescape(name[2])
    if "script" in name[1]:
        try:
            letter = lookup(f"SCRIPT CAPITAL {sign}")
        except KeyError:
            letter = lookup(f"MATHEMATICAL SCRIPT CAPITAL {sign}")
        return f"<mi>{letter}</mi>"
    if sign in ("cos", "sin", "log", "exp"):
        return f'<mo lspace="0.167em" rspace="0.167em">{sign}</mo>'
    return name[0] if sign.isalpha() else f'<mo stretchy="false">{name[2]}</mo>'


def _write(translator: Any, node: nodes.Element, *, display: bool) -> None:
    try:
        text = mathml(node.astext(), display=display)
    except Exception as error:
        _LOGGER.warning("formula %r: %s", node.astext(), error, location=node)
        text = translator.encode(node.astext())
    if display:
        number = f'<span class="eqno">({node["number"]})</span>' if node.get("number") else ""
        target = f' id="{node["ids"][0]}"' if node["ids"] else ""
        text = f'<div class="math"{target}>{number}{text}</div>\n'
    translator.body.append(text)
    raise nodes.SkipNode


def _inline(translator: Any, node: nodes.Element) -> None:
    _write(translator, node, display=False)


def _block(translator: Any, node: nodes.Element) -> None:
    _write(translator, node, display=True)


def _add_font(app: Any, config: Any) -> None:
    """Let Sphinx copy the font to where ``site.css`` looks for it."""
    package = find_spec("ziamath")
    if package is None or package.origin is None:
        raise ExtensionError('formulas need the font of ziamath: run pip install ".[docs]"')
    font = Path(package.origin).with_name("fonts") / "STIXTwoMath-Regular.ttf"
    config.html_static_path.append(str(font))


def setup(app: Any) -> dict[str, bool]:
    """Offer the translation as ``html_math_renderer = "mathml"``."""
    app.connect("config-inited", _add_font)
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
