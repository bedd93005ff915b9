"""The page of an audit: what it says in every position of its switches, and its markup.

Labels and names are data. Jinja2 escapes them in the markup, the script reads them from a block of
JSON in which every character that could end the block is escaped, and a content security policy
lets only the page's own script and style run and nothing be fetched.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from fairpca._check import require
from fairpca.auditing import verdict as words
from fairpca.auditing.findings import Audit, plain
from fairpca.moments.storage import atomic_write

# Classes of the style sheet by which the reducers of every audit are told apart.
_STYLES = {"PCA": "pca", "FairPCA": "fair", words.SHRUNK: "shrunk"}
# Groups in the table of what happens without them; the rest, which change less, are counted. A
# longer table would fill a printed page.
_MOST_LEFT_OUT = 12
# Names of features at the top of the page; the rest are counted there and named at its end.
_MOST_FEATURES = 30
# Entries of a list shown among the origins of the numbers; the rest are counted.
_LONGEST_LIST = 200
# The two sides of the switch, as sentences call them; the first that is known is shown first.
_SIDES = {"new": "new rows", "hand": "the rows in hand"}
# What a measure is called in a sentence, what a value is written with, and which change is for the
# worse: towards larger (1) or smaller (-1) values.
_MEASURES = {
    "loss": ("loss", words.number, 1),
    "error": ("error", words.number, 1),
    "share": ("variance kept", words.percent, -1),
}
# What a measure is, as the page says above its table.
_MEANINGS = {
    "loss": "Loss: what a group gives up per row compared with a projection made for it alone. "
    "Zero is best; on new rows it can be below zero, and then nothing is lost.",
    "error": "Error: mean squared distance between a group's rows and what is rebuilt of them. "
    "Lower is better.",
    "share": "Variance kept: the share of a group's variance that the components hold. "
    "Higher is better.",
}


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
    if not isinstance(audit, Audit):
        raise ValueError(
            f"audit is a {type(audit).__name__}; pass what fairpca.audit(X, labels) returns."
        )
    jinja2 = require("jinja2", extra="app", purpose="the audit page")
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    # How `tojson` writes the data: finite numbers only, in the order of the dictionaries.
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    environment.filters["style"] = lambda name: _STYLES.get(name, "")
    template = environment.from_string(_resource("page.html.j2"))
    # The policy of the page names both by their hash, so they must be exactly what is sent.
    style, script = _resource("page.css"), _resource("page.js")
    sides = [side for side in _SIDES if side == "hand" or audit.new_rows]
    views = {side: {str(r): View(audit, side, r) for r in audit.ranks} for side in sides}
    # Before any switch is touched, and without a script, the page is about what is said first.
    first = views[sides[0]][str(audit.n_components)]
    return str(
        template.render(
            title=title or _title(audit),
            audit=audit,
            words=words,
            meaning=_MEANINGS["loss"],
            side=first.side,
            text=first.texts(),
            seen=first.seen,
            why_not=None if audit.new_rows else words.why_no_new_rows(audit),
            basis=_basis(audit),
            score=words.percent if audit.scores.get("score") == "accuracy" else words.number,
            left_out=_left_out(audit),
            most_left_out=_MOST_LEFT_OUT,
            provenance=list(_flat(audit.provenance)),
            style=style,
            script=script,
            style_hash=_csp_hash(style),
            script_hash=_csp_hash(script),
            data={
                "audit": audit.to_dict(),
                # The findings of new rows in the form of those in hand.
                "new": plain([vars(finding) for finding in _new_findings(audit)]),
                "words": {
                    side: {r: view.texts() for r, view in ranks.items()}
                    for side, ranks in views.items()
                },
                "measures": {name: [_MEASURES[name][0], _MEANINGS[name]] for name in _MEASURES},
                "rows": words.n_rows(audit),
            },
        )
    )


def write_page(audit: Audit, path: str | Path, *, title: str | None = None) -> str:
    """Write the page of an audit to a file, and return it.

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
    ...     page = write_page(found, Path(folder) / "audit.html")
    """
    page = render_page(audit, title=title)
    with atomic_write(path, "w", encoding="utf-8") as file:
        file.write(page)
    return page


def _resource(name: str) -> str:
    return (resources.files("fairpca.report") / name).read_text(encoding="utf-8")


def _csp_hash(text: str) -> str:
    """Return the hash by which a content security policy admits this script or style alone."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _title(audit: Audit) -> str:
    """Return the default heading, with the names of the files where they are known."""
    files = words.told(audit, "source", "files") or []
    names = [str(entry.get("name", "")) for entry in files if isinstance(entry, dict)]
    what = ", ".join(words.isolated(name) for name in names[:3]) or "this table"
    return f"Whom does PCA of {what} serve?"


def _basis(audit: Audit) -> str:
    """Return on how many rows, groups and features the page is based, with the features' names."""
    names, count = (words.told(audit, part, "features") for part in ("source", "parameters"))
    text = f"Based on {words.n_rows(audit):,} rows in {len(audit.groups)} groups"
    if audit.group_by == "marginal" and len(audit.group_columns) > 1:
        text += " (they overlap: a row is in one group of each column)"
    if isinstance(names, list) and names:
        shown = words.listed([words.isolated(str(name)) for name in names], _MOST_FEATURES)
        text += f". Features used ({len(names)}): {shown}"
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
        yield prefix, words.listed([str(entry) for entry in value], _LONGEST_LIST)
    else:
        yield prefix, "none" if value is None else str(value)


def _new_findings(audit: Audit) -> list[SimpleNamespace]:
    """Return what is known of new rows by the names of a `Finding`; NaN of a group not checked.

    The share kept is one minus the error over the variance of the group, which is that of the rows
    left out: each was left out once.
    """
    variance = np.array([group.variance for group in audit.groups])
    # A group without variance loses none, as on the rows in hand.
    share = np.divide(1.0, variance, out=np.zeros_like(variance), where=variance > 0)
    return [
        SimpleNamespace(
            reducer=f.reducer,
            n_components=audit.n_components,
            loss=f.loss,
            error=f.error,
            share=1.0 - f.error * share,
            intervals={"loss": np.stack([f.low, f.high], axis=1)},
            total_error=f.total_error,
            gap=f.gap,
        )
        for f in (audit.new_rows.findings if audit.new_rows else ())
    ]


class View:
    """The page with one of the `_SIDES` and one of the ranks of an audit.

    Here a number is looked up and a sentence made. The same view fills the page before a script
    has run and is the data from which the script fills it afterwards, so that no position of a
    switch shows a sentence of another.
    """

    def __init__(self, audit: Audit, side: str, n_components: int) -> None:
        self.audit, self.side, self.n_components = audit, side, n_components
        found: Any = _new_findings(audit) if side == "new" else audit.findings
        self.seen: dict[str, Any] = {f.reducer: f for f in found if f.n_components == n_components}

    def texts(self) -> dict[str, Any]:
        """Return all sentences by name; those that change with the measure under its name.

        They are the verdict, one tile a reducer, which groups a reducer serves worst, how each
        fares against PCA, and the lines about all groups at the end of the table. Where nothing is
        known the verdict says so, and there is nothing else.
        """
        asked = words.components(self.audit.n_components)
        here = words.components(self.n_components)
        found: dict[str, Any] = {
            "components": here,
            "state": f"{_SIDES[self.side]}, {here}",
            "proof": words.proof(self.audit.at("FairPCA", self.n_components)),
            "advice": " ".join(self._advice()),
            "call": None,
        }
        if self.audit.new_rows and self.n_components == self.audit.n_components:
            found["call"] = words.advice(self.audit)
        missing = (
            f"With {here} nothing is known of new rows: they were checked with {asked} only. "
            f"Choose {asked}, or the rows in hand."
        )
        for measure in _MEASURES:
            found[measure] = {
                "verdict": self._verdict(measure) if self.seen else [missing],
                "tiles": [self._tile(name, measure) for name in self.seen],
                "worst": {name: self._marked(name, measure) for name in self.seen},
                "changes": {name: self._changes(name, measure) for name in self.seen},
                "totals": self._totals(measure),
            }
        return found

    def _verdict(self, measure: str) -> list[str]:
        """Return the verdict by one measure.

        By another measure than the loss these are two sentences. The first names the group served
        worst under PCA and under what is set against it, or those that share that place; the
        second says how many groups fare worse under the latter, and which of them by most.
        """
        audit, r = self.audit, self.n_components
        if measure == "loss":
            in_hand = self.side == "hand"
            return words.row_sentences(audit, r) if in_hand else words.new_sentences(audit)
        noun, write, sign = _MEASURES[measure]
        # PCA is set against what new rows advise, or else against FairPCA. A file may know less.
        other = "FairPCA" if "FairPCA" in self.seen else "PCA"
        if self.side == "new" and audit.new_rows and audit.new_rows.advised.reducer != "PCA":
            other = audit.new_rows.advised.reducer
        served = [
            f"{self._who(name, measure)} under {name} ({write(self._worst(name, measure))})"
            for name in ("PCA", other)
        ]
        if self._marked("PCA", measure) == self._marked(other, measure):
            # The same groups need no second mention.
            served[1] = f"under {other} ({write(self._worst(other, measure))})"
        where = f"On {_SIDES[self.side]}, with {words.components(r)}"
        if other == "PCA":
            return [f"{where}, by {noun}: {served[0]}."]
        text = f"{where}, by {noun}: {' and '.join(served)}."
        worse = np.flatnonzero(np.array(self._changes(other, measure)) > 0)
        compared = f"by {noun} under {other} than under PCA"
        if not len(worse):
            return [text, f"No group fares worse {compared}."]
        before, after = (getattr(self.seen[name], measure) for name in ("PCA", other))
        most = int(worse[np.argmax(sign * (after - before)[worse])])
        several = len(worse) > 1
        return [
            text,
            f"{len(worse)} of {len(audit.groups)} groups {'fare' if several else 'fares'} worse "
            f"{compared}{', most of all' if several else ':'} {words.named(audit, most)} "
            f"({write(float(before[most]))} → {write(float(after[most]))}).",
        ]

    def _worst(self, name: str, measure: str) -> float:
        """Return the worst value of any group."""
        values, sign = getattr(self.seen[name], measure), _MEASURES[measure][2]
        return float(values[np.nanargmax(sign * values)])

    def _marked(self, name: str, measure: str) -> list[int]:
        """Return the groups a reducer serves worst; none where all fare alike or none loses."""
        values = getattr(self.seen[name], measure)
        if measure == "loss" and self._worst(name, measure) <= 0:
            return []
        tied = words.worst_places(values, _MEASURES[measure][2])
        return tied if len(tied) < np.isfinite(values).sum() else []

    def _who(self, name: str, measure: str) -> str:
        """Return who is served worst, with a verb."""
        marked = self._marked(name, measure)
        if not marked:
            return "all groups fare alike"
        who = words.named_all(self.audit, marked)
        if len(marked) > 1:
            return f"{who} are served worst"
        return f"{who} ({words.rows_of(self.audit, marked[0])}) is served worst"

    def _changes(self, name: str, measure: str) -> list[int]:
        """Return for every group whether it fares worse than under PCA (1), better (-1) or alike.

        A loss on new rows can be near zero or below, and is no base for a share: there the error
        decides, as it does in the verdict.
        """
        measure = "error" if self.side == "new" else measure
        before, after = (getattr(self.seen[n], measure) for n in ("PCA", name))
        sign = _MEASURES[measure][2]
        pays, gains = words.worse(before, after, sign), words.worse(before, after, -sign)
        return [int(p) - int(g) for p, g in zip(pays, gains, strict=True)]

    def _tile(self, name: str, measure: str) -> dict[str, Any]:
        """Return a reducer's worst value: title, text, value, note, and whether it is advised."""
        noun, write, sign = _MEASURES[measure]
        worst, marked, new = self._worst(name, measure), self._marked(name, measure), None
        notes = [words.named_all(self.audit, marked) if marked else "all groups alike"]
        if self.side == "new" and measure == "loss":
            new = self.audit.new_rows
        if measure == "loss" and worst <= 0:
            notes = ["no group loses anything" if new is None else words.nobody_loses(new)]
        advised = new is not None and name == new.advised.reducer
        if new is not None:
            f = new.at(name)
            ends = f"{words.number(f.worst_low)} to {words.number(f.worst_high)}"
            notes.append(f"95% interval of the worst loss, whichever group has it: {ends}")
            if advised:
                notes.append(
                    "advised" if name != "PCA" else "advised: nothing is better beyond noise"
                )
            elif name != "PCA":
                than = "better than" if f.beyond_noise else "worse than" if f.gain_high < 0 else ""
                notes.append(f"{than} PCA beyond noise" if than else "within noise of PCA")
        elif name != "PCA" and measure != "share":
            before = self._worst("PCA", measure)
            change = worst / before - 1 if before > 0 else 0.0
            moves = f"{words.percent(abs(change))} {'smaller' if change < 0 else 'larger'} than"
            notes.append(f"{moves if abs(change) >= words.SAME else 'the same as'} under PCA")
        return {
            "reducer": name,
            "title": f"{name}: {'least' if sign < 0 else 'worst'} {noun}",
            "text": write(worst),
            "value": worst,
            "note": " · ".join(notes),
            "advised": advised,
        }

    def _totals(self, measure: str) -> list[list[str]]:
        """Return the lines about all groups: a title, and a text for every reducer."""
        if not self.seen:
            return []
        seen = [self.seen.get(name) for name in self.audit.reducers]
        gaps = ["gap", *("–" if f is None else words.percent(f.gap) for f in seen)]
        errors = ["–" if f is None else words.number(f.total_error) for f in seen]
        return [*([gaps] if measure == "loss" else []), ["total error", *errors]]

    def _advice(self) -> Iterator[str]:
        """Yield what a reader can do: what to fit, more components, more rows, fewer groups."""
        audit, r, new = self.audit, self.n_components, self.audit.new_rows
        pca, fair = audit.at("PCA", r), audit.at("FairPCA", r)
        if pca.worst_loss <= pca.certificate.resolution:
            yield "Nothing needs to change: PCA costs no group anything."
            return
        if new is None:
            yield "The rows in hand alone do not tell what to fit."
        elif r != audit.n_components:
            asked = words.components(audit.n_components)
            yield (
                f"What to fit with {words.components(r)} is not known: new rows were checked with "
                f"{asked} only. Run the audit again with {words.components(r)}."
            )
        elif new.advised.reducer == "PCA":
            yield (
                "Keep plain PCA: on new rows no other fit makes the worst loss smaller beyond "
                "noise."
            )
        else:
            fit, base = new.advised, words.number(new.at("PCA").worst_loss)
            yield (
                f"Fit {fit.reducer}: on new rows its worst loss is {words.number(fit.worst_loss)} "
                f"in place of PCA's {base}, a difference beyond noise."
            )
        # More components serve every group better, and cost storage instead of error. Where
        # nothing else than PCA is advised, nothing has to be made up for.
        advised = new is not None and r == audit.n_components and new.advised.reducer != "PCA"
        larger = (audit.at("PCA", rank) for rank in audit.ranks if rank > r)
        enough = next((f for f in larger if f.worst_loss <= fair.worst_loss), None)
        if advised and enough is not None:
            yield (
                f"Or keep PCA with {enough.n_components} components: on the rows in hand its "
                f"worst loss is then {words.number(enough.worst_loss)}, against "
                f"{words.number(fair.worst_loss)} of FairPCA with {r}."
            )
        few = [i for i, g in enumerate(audit.groups) if g.small or (new and i in new.unchecked)]
        if few:
            names = words.listed([words.quoted(audit.groups[i]) for i in few])
            yield (
                f"Collect more rows of groups with few of them, or merge them with groups they "
                f"belong with: {names}."
            )
