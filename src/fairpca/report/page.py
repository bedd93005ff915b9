"""Rendering the page: numbers from the audit, words from its verdict, nothing from outside.

Labels and names are data. Jinja2 escapes them in the markup, the script reads them from a block of
JSON in which every character that could end the block is escaped, and a content security policy
lets only the page's own script and style run and nothing be fetched.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

from fairpca._checks import require
from fairpca.auditing import verdict as words
from fairpca.auditing.findings import Audit, plain
from fairpca.moments.storage import atomic_write
from fairpca.report.views import SIDES, View, new_findings

# Classes of the style sheet by which the reducers of every audit are told apart.
_STYLES = {"PCA": "pca", "FairPCA": "fair", words.SHRUNK: "shrunk"}
# Groups in the table of what happens without them; the rest, which change less, are counted. A
# longer table would fill a printed page.
_MOST_LEFT_OUT = 12
# Names of features at the top of the page; the rest are counted there and named at its end.
_MOST_FEATURES = 30
# Entries of a list shown among the origins of the numbers; the rest are counted.
_LONGEST_LIST = 200


def render_page(audit: Audit, *, title: str | None = None) -> str:
    """Return an audit as one HTML document that asks for nothing from outside.

    Parameters
    ----------
    audit : Audit
        What `fairpca.audit` returned, or what was read from its JSON: the page is the same.
    title : str, optional
        Heading of the page. Default: what was audited.

    Examples
    --------
    >>> import fairpca
    >>> from fairpca.report import render_page
    >>> from sklearn.datasets import load_wine
    >>> X, kind = load_wine(return_X_y=True)
    >>> found = fairpca.audit(X / X.std(axis=0), kind, 2, n_bootstrap=0)
    >>> render_page(found, title="Three vineyards").count("<title>Three vineyards</title>")
    1
    """
    jinja2 = require("jinja2", extra="app", purpose="the audit page")
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    for name in ("number", "percent", "components"):
        environment.filters[name] = getattr(words, name)
    environment.filters["style"] = lambda name: _STYLES.get(name, "")
    template = environment.from_string(_resource("page.html.j2"))
    # The policy of the page names both by their hash, so they must be exactly what is sent.
    style, script = _resource("page.css"), _resource("page.js")
    sides = [side for side in SIDES if side == "hand" or audit.new_rows]
    views = {side: {str(r): View(audit, side, r) for r in audit.ranks} for side in sides}
    # Before any switch is touched, and without a script, the page is about what is said first.
    first = views[sides[0]][str(audit.n_components)]
    return str(
        template.render(
            title=title or _title(audit),
            audit=audit,
            side=first.side,
            text=first.texts(),
            table=first.table(),
            group_title=words.group_title(audit),
            why_not=None if audit.new_rows else words.why_no_new_rows(audit),
            asked=words.components(audit.n_components),
            about=words.about(audit),
            order=words.order(audit),
            basis=_basis(audit),
            score=words.percent if audit.scores.get("score") == "accuracy" else words.number,
            left_out=_left_out(audit),
            most_left_out=_MOST_LEFT_OUT,
            provenance=list(_flat(audit.provenance)),
            level=words.percent(float(audit.provenance.get("parameters", {}).get("level", 0.95))),
            style=_safe(style),
            script=_safe(script),
            style_hash=_csp_hash(style),
            script_hash=_csp_hash(script),
            data=_safe(
                embedded_json(
                    {
                        "audit": audit.to_dict(),
                        # The findings of new rows in the form of those in hand.
                        "new": plain(new_findings(audit)),
                        "words": {
                            side: {r: view.texts() for r, view in ranks.items()}
                            for side, ranks in views.items()
                        },
                        "rows": words.n_rows(audit),
                        "same": words.SAME,
                    }
                )
            ),
        )
    )


def write_page(audit: Audit, path: str | Path, *, title: str | None = None) -> None:
    """Write the page of an audit to a file.

    Parameters
    ----------
    audit : Audit
        What `fairpca.audit` returned.
    path : str or Path
        An existing file is replaced, in one step and only when the page is complete.
    title : str, optional
        As in `render_page`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import fairpca
    >>> from fairpca.report import write_page
    >>> from sklearn.datasets import load_wine
    >>> X, kind = load_wine(return_X_y=True)
    >>> found = fairpca.audit(X / X.std(axis=0), kind, 2, n_bootstrap=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_page(found, Path(folder) / "audit.html")
    """
    page = render_page(audit, title=title)
    with atomic_write(path, "w", encoding="utf-8") as file:
        file.write(page)


def embedded_json(value: Any) -> str:
    r"""Return JSON, of finite numbers, that cannot end the script element it stands in.

    Examples
    --------
    >>> from fairpca.report.page import embedded_json
    >>> print(embedded_json("</script>"))
    "\u003c/script\u003e"
    """
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    # json.dumps escapes everything outside ASCII; what is left can close or open markup.
    for char in "<>&":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def _resource(name: str) -> str:
    return (resources.files("fairpca.report") / name).read_text(encoding="utf-8")


def _safe(text: str) -> Any:
    """Return text of this package that the template must not escape."""
    return require("markupsafe", extra="app", purpose="the audit page").Markup(text)


def _csp_hash(text: str) -> str:
    """Return the hash by which a content security policy admits this script or style alone."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _title(audit: Audit) -> str:
    """Return the default heading, with the names of the files where they are known."""
    # The file of an audit may come from anywhere, so nothing about its origins is certain.
    source = audit.provenance.get("source", {})
    files = source.get("files") if isinstance(source, dict) else None
    names = [str(entry.get("name", "")) for entry in files or [] if isinstance(entry, dict)]
    what = ", ".join(words.isolated(name) for name in names[:3]) or "this table"
    return f"Whom does PCA of {what} serve?"


def _basis(audit: Audit) -> str:
    """Return on how many rows, groups and features the page is based, with the features' names."""
    source = audit.provenance.get("source", {})
    names = source.get("features") if isinstance(source, dict) else None
    count = audit.provenance.get("parameters", {}).get("features")
    text = f"Based on {words.n_rows(audit):,} rows in {len(audit.groups)} groups"
    if isinstance(names, list) and names:
        shown = ", ".join(words.isolated(str(name)) for name in names[:_MOST_FEATURES])
        more = len(names) - _MOST_FEATURES
        text += f". Features used ({len(names)}): {shown}{f' and {more} more' if more > 0 else ''}"
    elif count is not None:
        text += f" and {count} feature{'' if count == 1 else 's'}"
    return f"{text}."


def _left_out(audit: Audit) -> list[dict[str, Any]]:
    """Return one row per group: its loss with and without it in the fit, largest change first."""
    rows: dict[int, dict[str, Any]] = {}
    for entry in audit.left_out:
        row = rows.setdefault(entry.group, {"name": audit.groups[entry.group].text})
        row[entry.reducer] = entry
    complete = [row for row in rows.values() if "PCA" in row and "FairPCA" in row]
    return sorted(complete, key=lambda row: row["FairPCA"].loss_with - row["FairPCA"].loss_without)


def _flat(value: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield (name, text) pairs of nested data; names of inner entries follow the outer ones."""
    if isinstance(value, dict):
        for key, entry in value.items():
            yield from _flat(entry, f"{prefix} › {key}" if prefix else str(key))
    elif isinstance(value, list) and any(isinstance(entry, dict | list) for entry in value):
        for entry in value:
            yield from _flat(entry, prefix)
    elif isinstance(value, list):
        shown, more = ", ".join(map(str, value[:_LONGEST_LIST])), len(value) - _LONGEST_LIST
        yield prefix, shown if more <= 0 else f"{shown} and {more} more"
    else:
        yield prefix, "none" if value is None else str(value)
