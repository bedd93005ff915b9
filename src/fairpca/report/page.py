"""Rendering the page: numbers from the audit, words from its verdict, nothing from outside.

Labels and names are data. Jinja2 escapes them in the markup, the script reads them from a block of
JSON in which every character that could end the block is escaped, and a content security policy
lets only the page's own script and style run and nothing be fetched.
"""

from __future__ import annotations

import base64
import hashlib
import json
from importlib import resources
from pathlib import Path
from typing import Any

from fairpca._checks import require
from fairpca.auditing.findings import Audit
from fairpca.auditing.verdict import (
    components,
    group_title,
    isolated,
    named,
    number,
    percent,
    proof,
    sentences,
)
from fairpca.moments.storage import atomic_write

# Left-out groups shown before the rest is folded away.
_MOST_LEFT_OUT = 12


def render_page(audit: Audit, *, title: str | None = None) -> str:
    """Return an audit as one HTML document that needs no network.

    Parameters
    ----------
    audit : Audit
    title : str, optional
        Default: what was audited and by which groups.
    """
    jinja2 = require("jinja2", extra="app", purpose="the audit page")
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters |= {"number": number, "percent": percent, "components": components}
    template = environment.from_string(_resource("page.html.j2"))
    style, script = _resource("page.css"), _resource("page.js")
    return str(
        template.render(
            title=title or _title(audit),
            audit=audit,
            group_title=group_title(audit),
            pca=audit.at("PCA"),
            fair=audit.at("FairPCA"),
            verdict=sentences(audit),
            proof=proof(audit.at("FairPCA")),
            order=sorted(range(len(audit.groups)), key=lambda i: -audit.at("PCA").loss[i]),
            shown=[name for name in audit.reducers if audit.has(name)],
            left_out=_left_out(audit),
            most_left_out=_MOST_LEFT_OUT,
            provenance=list(_flat(audit.provenance)),
            level=percent(float(audit.provenance.get("parameters", {}).get("level", 0.95))),
            style=_safe(jinja2, style),
            script=_safe(jinja2, script),
            style_hash=_csp_hash(style),
            script_hash=_csp_hash(script),
            data=_safe(jinja2, embedded_json({"audit": audit.to_dict(), "words": _words(audit)})),
        )
    )


def write_page(audit: Audit, path: str | Path, *, title: str | None = None) -> None:
    """Write the page atomically; an existing file is replaced."""
    page = render_page(audit, title=title)
    with atomic_write(path, "w", encoding="utf-8") as file:
        file.write(page)


def embedded_json(value: Any) -> str:
    """Return JSON that cannot end the script element it stands in."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    # json.dumps escapes everything outside ASCII; what is left can close or open markup.
    for char in "<>&":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def _resource(name: str) -> str:
    return (resources.files("fairpca.report") / name).read_text(encoding="utf-8")


def _safe(jinja2: Any, text: str) -> Any:
    return require("markupsafe", extra="app", purpose="the audit page").Markup(text)


def _csp_hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _title(audit: Audit) -> str:
    source = audit.provenance.get("source", {})
    files = source.get("files") if isinstance(source, dict) else None
    names = [str(entry.get("name", "")) for entry in files or [] if isinstance(entry, dict)]
    what = ", ".join(isolated(name) for name in names[:3]) or "this table"
    return f"Whom does PCA of {what} serve?"


def _words(audit: Audit) -> dict[str, dict[str, Any]]:
    """Return the sentences for every number of components, so that the script writes none."""
    return {
        str(r): {
            "components": components(r),
            "verdict": sentences(audit, r),
            "proof": proof(audit.at("FairPCA", r)),
        }
        for r in audit.ranks
    }


def _left_out(audit: Audit) -> list[dict[str, Any]]:
    """Return one row per group: its loss with and without it in the fit, largest change first."""
    rows: dict[int, dict[str, Any]] = {}
    for entry in audit.left_out:
        row = rows.setdefault(
            entry.group,
            {"name": audit.groups[entry.group].text, "title": named(audit, entry.group)},
        )
        row[entry.reducer] = entry
    complete = [row for row in rows.values() if "PCA" in row and "FairPCA" in row]
    return sorted(complete, key=lambda row: row["FairPCA"].loss_with - row["FairPCA"].loss_without)


def _flat(value: Any, prefix: str = "") -> Any:
    """Yield (name, text) pairs of nested data."""
    if isinstance(value, dict):
        for key, entry in value.items():
            yield from _flat(entry, f"{prefix} › {key}" if prefix else str(key))
    elif isinstance(value, list) and any(isinstance(entry, dict | list) for entry in value):
        for entry in value:
            yield from _flat(entry, prefix)
    elif isinstance(value, list):
        shown = ", ".join(str(entry) for entry in value[:40])
        yield prefix, shown if len(value) <= 40 else f"{shown} and {len(value) - 40} more"
    else:
        yield prefix, "none" if value is None else str(value)
