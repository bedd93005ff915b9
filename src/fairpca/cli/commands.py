"""What the commands do, between files and the public functions.

`load` is what `audit`, `fit` and `compare` start with: tables to numbers and groups, in memory, or
counted in batches where the files are larger than a gigabyte.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fairpca._arrays import AnyArray, FloatArray
from fairpca._check import did_you_mean, listed, require
from fairpca.cli import output
from fairpca.io.stream import count_prepared
from fairpca.io.tables import Columns, Layout, Roles, as_list, numbers, open_files, prepare
from fairpca.moments.group_moments import GroupMoments

# Files of more bytes than this are counted in batches.
_LARGE = 1_000_000_000
# Folds that say what new rows get, where the rows are not at hand.
_FOLDS = 5
# A column with more levels is hardly one of groups.
_MOST_LEVELS = 20


@dataclass(frozen=True)
class Asked:
    """The options about tables that several commands have; the layout is that of `layout`."""

    tables: Sequence[Path]
    sensitive_features: Sequence[str]
    drop: Sequence[str] | None
    missing: str | None
    sample_weight: str | None
    block: str | None
    raw: bool
    layout: tuple[str | None, str, int | None, str | None]


@dataclass(frozen=True)
class Loaded:
    """Prepared rows with groups, weights and blocks, or moments that have all of that."""

    X: FloatArray | GroupMoments | list[GroupMoments]
    groups: dict[str, AnyArray] | None
    weight: FloatArray | None
    blocks: AnyArray | None
    steps: tuple[tuple[str, Any], ...]
    notes: tuple[str, ...]


def load(asked: Asked, n_folds: int = 0) -> Loaded:
    """Read tables, choose the roles of columns, prepare them, and say on stderr what was done."""
    files = open_files(asked.tables, Layout(*asked.layout))
    roles = Roles.choose(
        files.names,
        sensitive_features=asked.sensitive_features,
        drop=asked.drop,
        sample_weight=asked.sample_weight,
        blocks=asked.block,
    )
    missing, standardize = asked.missing or "error", not asked.raw
    if sum(path.stat().st_size for path in files.paths) > _LARGE:
        with output.progress("counting rows"):
            moments, steps, said = count_prepared(
                files, roles, missing=missing, standardize=standardize, n_folds=n_folds
            )
        found = Loaded(moments, None, None, None, steps, said)
    else:
        with output.progress(f"reading {listed([path.name for path in files.paths], show=str)}"):
            frame = roles.counting(files.frame(roles.texts, roles.columns))
            drops = missing == "drop"
            groups = roles.groups(frame, unlabelled="ignore" if drops else "error")
            frame = frame.iloc[np.flatnonzero(groups.codes >= 0)]
            weight = roles.weights(frame)
            made = prepare(
                frame,
                roles.features,
                missing=missing,
                standardize=standardize,
                sample_weight=weight,
            )
        kept = np.flatnonzero(made.kept)
        notes = [f"{len(made.X):,} rows", *made.notes, *_together(frame, roles, asked)]
        found = Loaded(
            made.X,
            {name: labels[kept] for name, labels in roles.label_values(frame).items()},
            None if weight is None else weight[kept],
            None if asked.block is None else frame[asked.block].to_numpy()[kept],
            made.steps,
            tuple(notes),
        )
    output.note(
        f"read {listed([p.name for p in files.paths], show=str)}: {'; '.join(found.notes)}"
    )
    return found


def _together(frame: Any, roles: Roles, asked: Asked) -> list[str]:
    """Say which column looks as if its rows belonged together, where none was named."""
    from fairpca.auditing import block_columns

    others = [name for name in frame.columns if name in roles.features]
    names = [] if asked.block else block_columns(frame[others])
    return [f"rows may belong together by {listed(names)} (audit --block)"] if names else []


def _rank(text: str) -> int | float:
    """Return a number of components, or a share of variance."""
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        raise ValueError(
            f"--n-components {text!r}: pass a number such as 5, or a share such as 0.9."
        ) from None


def _ranks(text: str | None) -> list[int] | None:
    """Return the numbers in a list such as 1-10,15."""
    if text is None:
        return None
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if not (first.strip().isdigit() and (last or first).strip().isdigit()):
            raise ValueError(f"--ranks {text!r}: pass numbers and ranges such as 1-10,15.")
        found += range(int(first), int(last or first) + 1)
    return sorted(set(found))


def inspect(tables: Sequence[Path], layout: tuple[Any, ...]) -> None:
    """Show the columns of a table, and what they look like."""
    frame = open_files(tables, Layout(*layout)).frame()
    rows, labels = [], []
    odd: list[str] = []
    for name in frame.columns:
        known = frame[name].dropna()
        levels = known.value_counts()
        if 1 < len(levels) <= min(_MOST_LEVELS, len(known) // 2):
            labels.append(str(name))
            shown = [f"{_text(level)} ({count:,})" for level, count in levels.iloc[:3].items()]
            values = ", ".join(shown) + (", ..." if len(levels) > 3 else "")
        elif known.dtype.kind in "iuf" and len(known):
            values = f"{known.min():.6g} to {known.max():.6g}"
        else:
            values = "" if not len(known) else str(known.iloc[0])[:30]
        try:
            left = Columns.of(frame[[name]], [name])
            use = "text" if left.levels else "number"
            numbers(frame, left.numbers)
        except ValueError as error:
            # "no column is left as a feature: 'x' (constant)." or what is wrong with a cell.
            use, wrong = str(error).rpartition(" (")[2].removesuffix(")."), str(error)
            if not wrong.startswith("no column is left"):
                use, odd = "see below", [*odd, wrong]
        count = len(frame) - len(known)
        rows.append([str(name), use, values, f"{len(levels):,}", f"{count:,}"])
    output.show(f"{len(frame):,} rows, {len(frame.columns):,} columns\n")
    output.table(["column", "use", "values", "distinct", "missing"], rows, words=3)
    for wrong in odd:
        output.sentence(wrong)
    output.sentence(f"Likely groups (-g): {', '.join(labels) or 'none'}.")


def _text(level: Any) -> str:
    """Return a cell as it was written: numbers of text files are read as 2.0."""
    return f"{level:.6g}" if isinstance(level, float) else str(level)


def audit(
    asked: Asked, n_components: str, model: Path | None, ranks: str | None, target: Path | None
) -> None:
    """Print the verdict, or write the page, of an audit of a table or of a stored model."""
    from fairpca.auditing import audit as run_audit
    from fairpca.auditing import words

    if model is not None:
        _audit_model(asked, model, target)
        return
    r, looked_at = _rank(n_components), _ranks(ranks)
    data = load(asked, _FOLDS)
    with output.progress("auditing"):
        found = run_audit(
            data.X, data.groups, r, ranks=looked_at, sample_weight=data.weight, blocks=data.blocks
        )
    arguments = [*map(str, asked.tables)]
    for name in ("sensitive_features", "drop", "missing", "sample_weight"):
        option = "-g" if name == "sensitive_features" else f"--{name.replace('_', '-')}"
        arguments += [part for value in as_list(getattr(asked, name)) for part in (option, value)]
    # What rows belong to is no feature of the fit either.
    arguments += ["--drop", asked.block] if asked.block else []
    arguments += ["--raw"] * asked.raw
    source = {
        "files": [{"name": path.name} for path in asked.tables],
        "arguments": arguments,
        "preparation": list(data.notes),
    }
    found = replace(found, provenance={**found.provenance, "source": source})
    if target is not None:
        _write(found, target)
    output.sentence(found.verdict())
    if target is None:
        for part in words.tables(found):
            output.show(f"\n{part.title}\n")
            output.table(part.columns, [*part.rows, *part.totals])
        output.sentence(words.proof(found))
        for text in found.warnings:
            output.note(f"note: {text}")
    if found.advice.command:
        output.show(f"\nTo fit it:\n  {found.advice.command}\n  {found.advice.python}")


def _write(found: Any, target: Path) -> None:
    """Write an audit as its file's ending says."""
    import json

    ending = target.suffix.lower()
    if ending == ".html":
        content = found.to_html()
    elif ending == ".json":
        content = json.dumps(found.to_dict(), indent=1)
    else:
        content = output.csv_text(found.to_frame())
    output.write(target, content)


def _audit_model(asked: Asked, path: Path, target: Path | None) -> None:
    """Measure a stored model on the rows of a table."""
    from fairpca.auditing import audit_model
    from fairpca.auditing.words import number
    from fairpca.persistence import load_model

    saved = load_model(path)
    files = open_files(asked.tables, Layout(*asked.layout))
    roles = Roles.choose(files.names, sensitive_features=asked.sensitive_features)
    columns, missing = _stored_columns(saved, path, asked.missing)
    frame = files.frame(
        [*roles.texts, *columns.levels],
        _read_columns(columns, [column for column, _ in roles.labels.values()], files),
    )
    rows, kept = columns.take(frame, missing)
    labels = {name: values[kept] for name, values in roles.label_values(frame).items()}
    X = saved.model[:-1].transform(rows)
    found = audit_model(saved.model[-1], np.asarray(X), labels)
    if target is not None:
        _write(found, target)
    output.sentence(found.verdict())
    if target is None:
        shown = zip(found.groups, found.loss, found.error, strict=True)
        lines = [[g.text, f"{g.count:,}", number(loss), number(e)] for g, loss, e in shown]
        output.table([" x ".join(found.group_columns), "rows", "loss", "error"], lines)


def fit(
    asked: Asked,
    n_components: str,
    settings: dict[str, Any],
    separate: bool,
    target: Path,
) -> None:
    """Fit a model, store it, and print what every group gets."""
    from sklearn.pipeline import Pipeline

    from fairpca.persistence import save_model

    model = _new_model(_rank(n_components), settings, separate)
    if asked.tables[0].suffix == ".bed":
        _fit_genotypes(asked, model, separate, target)
        return
    data = load(asked, _FOLDS if settings["shrinkage"] == "auto" else 0)
    with output.progress("fitting"):
        if not isinstance(data.X, np.ndarray):
            model.fit_moments(data.X)
        elif separate:
            model.fit(data.X, *_one_column(data.groups), sample_weight=data.weight)
        else:
            model.fit(data.X, sensitive_features=data.groups, sample_weight=data.weight)
    notes = {"missing": asked.missing or "error", "preparation": "; ".join(data.notes)}
    save_model(target, Pipeline([*data.steps, ("reducer", model)]), notes=notes)
    output.note(f"wrote {target}")
    if separate:
        labels = _one_column(data.groups)
        _show_separation(model, (data.X, labels[0]) if labels else None)
    else:
        _show_fit(model)


def _one_column(groups: dict[str, AnyArray] | None) -> list[AnyArray]:
    """Return the labels of the only group column."""
    labels = list((groups or {}).values())
    if len(labels) > 1:
        raise ValueError("--separate takes one group column; join several into one first.")
    return labels


def _new_model(r: int | float, settings: dict[str, Any], separate: bool) -> Any:
    """Return what is to be fitted."""
    shrinkage = settings["shrinkage"]
    if shrinkage is not None and shrinkage != "auto":
        try:
            settings = {**settings, "shrinkage": float(shrinkage)}
        except ValueError:
            raise ValueError(f"--shrinkage {shrinkage!r}: pass auto, or 0 to 1.") from None
    if separate:
        if settings != {"criterion": "loss", "shrinkage": None, "max_harm": None}:
            raise ValueError("--separate has no --criterion, --shrinkage or --max-harm.")
        from fairpca import MaxMinDistanceAnalysis

        if isinstance(r, float):
            raise ValueError(f"--separate --n-components {r}: pass a number such as 5.")
        return MaxMinDistanceAnalysis(r)
    from fairpca.estimator import FairPCA

    return FairPCA(r, **settings)


def _show_fit(model: Any) -> None:
    """Print what every group gets, and what the proof is about."""
    from fairpca.auditing.words import components, label_texts, number
    from fairpca.criteria import CRITERIA

    texts = label_texts(model.groups_, model.group_names_, "intersection")
    columns = {"loss": model.group_losses_, "error": model.group_errors_}
    about = model.criterion
    name = f"{about}, shrunk" if np.any(model.shrinkage_) else about
    columns.setdefault(name, model.group_values_)
    output.show(f"FairPCA with {components(model.n_components_)}, rows in hand\n")
    rows = zip(texts, model.group_counts_, *columns.values(), strict=True)
    lines = [[text, f"{count:,}", *map(number, values)] for text, count, *values in rows]
    output.table([" x ".join(model.group_names_), "rows", *columns], lines)
    meaning = f", {CRITERIA[about].meaning}" * bool(CRITERIA[about].meaning)
    output.sentence(
        f'The proof is about the column "{name}" of the rows in hand{meaning}: '
        f"{model.certificate_}."
    )


def _show_separation(model: Any, rows: tuple[Any, AnyArray] | None) -> None:
    """Print how far every group stays from its neighbour, and who of it is recognised."""
    from fairpca.auditing.words import components, percent

    shares = model.pair_shares_ + 2 * np.eye(len(model.classes_))
    near = shares.argmin(axis=1)
    columns = {
        "rows": [f"{count:,}" for count in model.class_count_],
        "closest": [str(model.classes_[j]) for j in near],
        "of its distance kept": [percent(share) for share in shares.min(axis=1)],
    }
    if rows is not None:
        with output.progress("measuring rows that are left out"):
            new = model.new_rows(*rows)
        columns["recognised when left out"] = [percent(share) for share in new.recognised]
    output.show(f"Groups kept apart by {components(model.n_components_)}, rows in hand\n")
    lines = [list(line) for line in zip(map(str, model.classes_), *columns.values(), strict=True)]
    output.table(["group", *columns], lines)
    output.sentence(f"Largest lost share of a distance: {model.certificate_}.")


def _fit_genotypes(asked: Asked, model: Any, separate: bool, target: Path) -> None:
    """Fit to a PLINK file set and a file of populations; write what PLINK reads, too."""
    from fairpca import genetics
    from fairpca.persistence import save_model

    if len(asked.tables) > 1 or asked.drop or asked.missing or asked.sample_weight:
        raise ValueError("one .bed file is fitted, without --drop, --missing, --sample-weight.")
    kind = "center" if asked.raw else "patterson"
    with output.progress("reading genotypes"):
        genotypes = genetics.read_plink(asked.tables[0])
        populations = genetics.read_populations(asked.sensitive_features[0], genotypes.samples)
        rows = genetics.standardize(genotypes, kind)
    with output.progress("fitting"):
        if separate:
            model.fit(rows, populations)
        else:
            model.fit(rows, sensitive_features=populations)
    known = {"snps": genotypes.snps, "alleles": genotypes.alleles, "frequencies": rows.frequencies}
    save_model(target, model, notes={"kind": kind, **known})
    eigenvec, loadings = (target.with_suffix(end) for end in (".eigenvec", ".loadings"))
    _write_eigenvec(eigenvec, genotypes, _scores(model, rows))
    genetics.write_loadings(loadings, rows, model.components_)
    output.note(
        f"wrote {target}, {eigenvec}, {loadings} and {loadings}.afreq; PLINK projects new people: "
        f"plink2 --bfile NEW --read-freq {loadings}.afreq --score {loadings} 1 2 header-read "
        f"center cols=+scoresums,-scoreavgs --score-col-nums 3-{2 + model.n_components_} --out NEW"
    )
    if separate:
        _show_separation(model, (rows, populations))
    else:
        _show_fit(model)


def _scores(model: Any, rows: Any) -> FloatArray:
    """Return the components of standardised genotypes."""
    return np.asarray(rows @ model.components_.T - model.mean_ @ model.components_.T)


def _write_eigenvec(path: Path, genotypes: Any, scores: FloatArray) -> None:
    """Write scores as PLINK does."""
    from fairpca.genetics import write_eigenvec

    write_eigenvec(path, genotypes.samples, scores, families=genotypes.families)


def _stored_columns(saved: Any, path: Path, missing: str | None) -> tuple[Columns, str]:
    """Return the columns of a stored model, and what to do with gaps in them."""
    if "missing" not in saved.notes:
        raise ValueError(f"{path} does not say how columns become features; use it from Python.")
    columns, filled = Columns.stored(saved.model)
    known = saved.notes["missing"]
    if missing not in (None, known, "error", "drop") or (filled != "error" and missing == "error"):
        raise ValueError(f"--missing {missing}: {path} was fitted with --missing {known}.")
    return columns, missing or known


def _read_columns(columns: Columns, others: Sequence[str], files: Any) -> list[str]:
    """Return the columns to read; those that are lacking are named later on."""
    wanted = dict.fromkeys([*columns.numbers, *columns.levels, *others])
    return [name for name in wanted if name in files.names]


def transform(
    tables: Sequence[Path],
    path: Path,
    keep: Sequence[str],
    missing: str | None,
    target: Path | None,
    eigenvec: Path | None,
    layout: tuple[Any, ...],
) -> None:
    """Write the components of rows, as a stored model has them."""
    from fairpca.persistence import load_model

    saved = load_model(path)
    if tables[0].suffix == ".bed":
        if len(tables) > 1 or keep or missing:
            raise ValueError("one .bed file is projected, without --keep and --missing.")
        _transform_genotypes(tables[0], saved, target, eigenvec)
        return
    pandas = require("pandas", extra="app", purpose="fairpca transform")
    columns, how = _stored_columns(saved, path, missing)
    files = open_files(tables, Layout(*layout))
    for name in keep:
        if name not in files.names:
            raise ValueError(f"--keep {name}: no such column.{did_you_mean(name, files.names)}")
    texts = [name for name in (*keep, *columns.levels) if name not in columns.numbers]
    with output.progress("projecting"):
        frame = files.frame(texts, _read_columns(columns, keep, files))
        rows, kept = columns.take(frame, how)
        scores = saved.model.set_output(transform="default").transform(rows)
    names = saved.model[-1].get_feature_names_out()
    found = pandas.DataFrame(np.asarray(scores), columns=names)
    for name in reversed(list(keep)):
        found.insert(0, name, frame[name][kept].to_numpy())
    if not kept.all():
        output.note(f"{int((~kept).sum()):,} row(s) with missing values dropped")
    _write_scores(found, target)


def _write_scores(found: Any, target: Path | None) -> None:
    """Write scores to stdout or to a file."""
    if target is None:
        output.show(output.csv_text(found).rstrip("\n"))
        return
    import io

    ending, data = target.suffix.lower(), io.BytesIO()
    if ending == ".npy":
        np.save(data, found.to_numpy(dtype=np.float64))
    elif ending == ".parquet":
        found.to_parquet(data, index=False)
    else:
        data.write(output.csv_text(found).encode())
    output.write(target, data.getvalue())


def _transform_genotypes(
    bed: Path, saved: Any, target: Path | None, eigenvec: Path | None
) -> None:
    """Write the components of people, standardised as those of the fit."""
    from fairpca import genetics

    pandas = require("pandas", extra="app", purpose="fairpca transform")
    if "snps" not in saved.notes:
        raise ValueError("the model was fitted to a table, not to genotypes.")
    genotypes = genetics.read_plink(bed)
    for name in ("snps", "alleles"):
        if not np.array_equal(getattr(genotypes, name), saved.notes[name]):
            raise ValueError(f"{bed} has other {name} than the fit; extract the same, in order.")
    kind, frequencies = saved.notes["kind"], saved.notes["frequencies"]
    scores = _scores(saved.model, genetics.standardize(genotypes, kind, frequencies=frequencies))
    if eigenvec is not None:
        _write_eigenvec(eigenvec, genotypes, scores)
        output.note(f"wrote {eigenvec}")
    if eigenvec is None or target is not None:
        found = pandas.DataFrame(scores, columns=saved.model.get_feature_names_out())
        found.insert(0, "IID", genotypes.samples)
        _write_scores(found, target)


def compare(asked: Asked, n_components: str, methods: Sequence[str], target: Path | None) -> None:
    """Print the published methods side by side, or write their table."""
    import fairpca
    from fairpca.comparison import default_estimators

    r = _rank(n_components)
    if isinstance(r, float):
        raise ValueError("--n-components: methods are compared with a number such as 5.")
    known = default_estimators(r)
    for name in methods:
        if name not in known:
            raise ValueError(
                f"--method {name} is not known.{did_you_mean(name, known)} Choose among "
                f"{', '.join(sorted(known))}."
            )
    data = load(asked)
    chosen = {name: known[name] for name in methods or known}
    if not isinstance(data.X, np.ndarray):
        raise ValueError("compare needs rows in memory, and these files are larger than 1 GB.")
    with output.progress(f"fitting {len(chosen)} methods"):
        # Without groups it raises the error that is shown.
        found = fairpca.compare(data.X, data.groups, chosen)  # type: ignore[arg-type]
    if target is None:
        output.show(str(found))
    elif target.suffix.lower() == ".json":
        output.write(target, found.to_json())
    else:
        output.write(target, output.csv_text(found.to_frame().reset_index(names="method")))
