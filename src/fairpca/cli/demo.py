"""`fairpca demo`: PCA beside FairPCA on data that ship with scikit-learn."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from fairpca.cli.options import Force, Json

if TYPE_CHECKING:
    from fairpca.auditing.findings import Audit

# One component: here PCA treats the two groups most differently.
_RANK = 1
_REPEATS = 7


def demo(
    output: Annotated[Path, Option("-o", "--output", help="Where the picture goes.")] = Path(
        "fairpca-demo.png"
    ),
    json: Json = False,
    force: Force = False,
) -> None:
    """Show PCA beside FairPCA on the diabetes data of scikit-learn, and draw the losses."""
    from fairpca.cli.output import check_output, print_json, print_lines
    from fairpca.moments.storage import atomic_write

    if output != Path("fairpca-demo.png") or not output.is_file():
        # A second demo may replace the picture of the first, and no other file.
        check_output(output, (".png", ".svg", ".pdf"), force)
    X, labels = _diabetes()
    found, seconds = _measure(X, labels)
    figure = _picture(found)
    ending = output.suffix.lower().lstrip(".")
    with atomic_write(output) as file:
        figure.savefig(file, format=ending, dpi=120)
    if json:
        print_json({"picture": str(output), "seconds": seconds, "audit": found.to_dict()})
    else:
        print_lines(_lines(found, seconds, output))


def _diabetes() -> tuple[Any, dict[str, Any]]:
    """Return 442 patients' measurements, standardised, and their sex as coded in the data."""
    import numpy as np
    from sklearn.datasets import load_diabetes

    data = load_diabetes(scaled=False)
    column = data.feature_names.index("sex")
    X = np.delete(data.data, column, axis=1)
    X = (X - X.mean(axis=0)) / X.std(axis=0, ddof=1)
    return X, {"sex": data.data[:, column].astype(int)}


def _measure(X: Any, labels: dict[str, Any]) -> tuple[Audit, dict[str, float]]:
    from sklearn.decomposition import PCA

    from fairpca.auditing import audit
    from fairpca.estimator import FairPCA

    found = audit(X, labels, _RANK, n_bootstrap=0)
    model = FairPCA(_RANK)
    seconds = {
        "PCA": _best_time(lambda: PCA(_RANK).fit(X)),
        "FairPCA": _best_time(lambda: model.fit(X, sensitive_features=labels)),
    }
    return found, seconds


def _best_time(action: Callable[[], Any]) -> float:
    times = []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return min(times)


def _picture(found: Audit) -> Any:
    from fairpca._checks import require

    # No window and no display needed: the figure only goes to a file.
    figures = require("matplotlib.figure", extra="app", purpose="the demo's picture")
    from fairpca.plots import GroupLossDisplay, RankCurveDisplay

    figure = figures.Figure(figsize=(10, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    GroupLossDisplay.from_audit(found, ax=left)
    RankCurveDisplay.from_audit(found, ax=right)
    left.set_title("Loss of each group", fontsize="medium", loc="left")
    right.set_title("The same over the number of components", fontsize="medium")
    return figure


def _lines(found: Audit, seconds: dict[str, float], output: Path) -> list[Any]:
    from rich.text import Text

    from fairpca.auditing.verdict import components, number, percent, proof
    from fairpca.cli.terminal import table

    rows = []
    for name in ("PCA", "FairPCA"):
        finding = found.at(name)
        rows.append(
            [
                name,
                *(number(float(loss)) for loss in finding.loss),
                percent(finding.gap),
                number(finding.total_error),
                f"{1000 * seconds[name]:.1f} ms",
            ]
        )
    columns = [
        f"loss, {components(_RANK)}",
        *(f"sex {g.text} ({g.count})" for g in found.groups),
        "gap",
        "total error",
        "time",
    ]
    return [
        Text("Diabetes data of scikit-learn: 442 patients, 9 measurements, grouped by sex."),
        Text(),
        table(columns, rows),
        Text(),
        Text(found.verdict()),
        Text(),
        Text(proof(found.at("FairPCA"))),
        Text(),
        Text(f"Picture: {output}"),
    ]
