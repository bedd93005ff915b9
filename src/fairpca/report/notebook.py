"""The short form of an audit for notebooks: the verdict and one table."""

from __future__ import annotations

from html import escape

from fairpca.auditing.findings import Audit
from fairpca.auditing.verdict import components, group_title, number, percent

_MOST_ROWS = 30


def audit_html(audit: Audit) -> str:
    """Return the verdict and a table of the groups at the rank asked about, as HTML."""
    shown = [name for name in audit.reducers if audit.has(name)]
    order = sorted(range(len(audit.groups)), key=lambda i: -audit.at("PCA").loss[i])
    heads = "".join(f"<th>{escape(name)} loss</th><th>{escape(name)} kept</th>" for name in shown)
    rows = "".join(_row(audit, shown, i) for i in order[:_MOST_ROWS])
    more = len(order) - _MOST_ROWS
    note = f"<p>{more} more groups: see <code>to_frame()</code>.</p>" if more > 0 else ""
    warnings = "".join(f"<li>{escape(text)}</li>" for text in audit.warnings)
    return (
        f"<p>{escape(audit.verdict())}</p>"
        f"<table><caption>{components(audit.n_components)}</caption><thead><tr>"
        f"<th>{escape(group_title(audit))}</th><th>rows</th>{heads}</tr></thead>"
        f"<tbody>{rows}</tbody></table>{note}" + (f"<ul>{warnings}</ul>" if warnings else "")
    )


def _row(audit: Audit, shown: list[str], i: int) -> str:
    group = audit.groups[i]
    cells = "".join(
        f"<td>{number(float(audit.at(name).loss[i]))}</td>"
        f"<td>{percent(float(audit.at(name).share[i]))}</td>"
        for name in shown
    )
    return f"<tr><td><bdi>{escape(group.text)}</bdi></td><td>{group.count:,}</td>{cells}</tr>"
