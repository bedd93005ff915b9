"""`fairpca demo`: PCA beside FairPCA on data that comes with scikit-learn.

It needs no file and no network, and is the first thing most people run. It is a module of its own
so that `auditing` holds nothing but the audit of a person's own table.
"""

from __future__ import annotations

import timeit
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from fairpca.cli import output
from fairpca.cli.auditing import audit_lines
from fairpca.cli.options import FileOptions, option

if TYPE_CHECKING:
    from fairpca.auditing.findings import Audit

# Where the picture goes unless asked otherwise.
_PICTURE = Path("fairpca-demo.png")
# Components: with six, PCA treats the two groups of the diabetes data most unequally (the gap is
# 74%; with one to eight it lies between 29% and 74%).
_RANK = 6
# Fits that are timed. The fastest counts: the machine was busy with something else in the others.
_REPEATS = 7


@dataclass(frozen=True, kw_only=True)
class DemoOptions(FileOptions):
    """What `demo` takes.

    Attributes
    ----------
    output : Path
        Where the picture goes (.png, .svg or .pdf).
    """

    examples: ClassVar[str] = """\
  fairpca demo
  fairpca demo -o losses.svg"""
    endings: ClassVar[tuple[str, ...]] = (".png", ".svg", ".pdf")

    output: Annotated[Path, option("FILE", "-o", "--output")] = _PICTURE


def demo(options: DemoOptions) -> None:
    """Show PCA beside FairPCA on the diabetes data of scikit-learn, and draw the losses.

    The 442 patients are grouped by sex; nine measurements are reduced to six components.
    """
    from fairpca._checks import require
    from fairpca.moments.storage import atomic_write
    from fairpca.plots import GroupLossDisplay

    # A second demo may replace the picture of the first, and no other file.
    again = options.output == _PICTURE and _PICTURE.is_file()
    output.check_output(replace(options, force=options.force or again))
    # No window and no display needed: the figure only goes to a file.
    figures = require("matplotlib.figure", extra="app", purpose="the demo's picture")
    with output.progress("measuring and drawing"):
        found, columns, seconds = _measure()
        figure = figures.Figure(figsize=(7, 3.5), layout="constrained")
        GroupLossDisplay.from_audit(found, ax=figure.subplots())
        with atomic_write(options.output) as file:
            figure.savefig(file, format=options.output.suffix.lower().lstrip("."), dpi=120)
    if options.json:
        picture = str(options.output)
        output.print_json({"picture": picture, "seconds": seconds, "audit": found.to_dict()})
        return
    times = ", ".join(f"{name} {1000 * time:.1f} ms" for name, time in seconds.items())
    about = "Diabetes data of scikit-learn: 442 patients, 9 measurements, grouped by sex."
    lines = [about, "", *audit_lines(found, columns), f"Time of a fit: {times}."]
    output.print_lines([*lines, f"Picture: {options.output}"])


def _measure() -> tuple[Audit, list[str], dict[str, float]]:
    """Return the audit by sex, the columns in it, and the seconds a fit of each method takes."""
    from sklearn.datasets import load_diabetes
    from sklearn.decomposition import PCA
    from sklearn.preprocessing import StandardScaler

    from fairpca.auditing import audit
    from fairpca.estimator import FairPCA

    data = load_diabetes(scaled=False, as_frame=True).data
    labels = {"sex": data.pop("sex").to_numpy(dtype=int)}
    X = StandardScaler().fit_transform(data)
    fits = {
        "PCA": lambda: PCA(_RANK).fit(X),
        "FairPCA": lambda: FairPCA(_RANK).fit(X, sensitive_features=labels),
    }
    seconds = {name: min(timeit.repeat(f, number=1, repeat=_REPEATS)) for name, f in fits.items()}
    return audit(X, labels, _RANK, n_bootstrap=0), list(data.columns), seconds
