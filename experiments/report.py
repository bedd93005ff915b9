"""RESULTS.md: the page a reader of the paper wants."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from experiments.claims import PAPER_TABLE, claims
from experiments.timing import METHODS

_FIGURES = (
    ("illustration", "Figure 1: two groups in the plane. Top: PCA follows A at the expense of B. "
     "Bottom: the fair direction, where both lose the same."),
    ("joint_numerical_range", "Figure 2: the joint numerical range of a random pair, contours of "
     "the maximum, the diagonal and the optimum."),
    ("phi", "Figure 3: phi(t), and how far from its maximum two searches are after each "
     "evaluation."),
    ("reconstruction_error", "Figure 4(a): reconstruction error of M over r."),
    ("reconstruction_loss", "Figure 4(b): loss of groups A and B over r."),
    ("loss_ratio", "Figure 5: error in the loss ratio, with the printed listing and ours added. "
     "An asterisk marks a synthetic matrix. Values below 1e-16 are drawn there."),
    ("price_of_fairness", "Not in the paper: what equal losses cost in total error."),
    ("many_groups", "Not in the paper: three and more groups. Left, the worst group's loss over "
     "r, with the bound below which no projection can be; right, every group at one r."),
)  # fmt: skip


_COLUMNS = ("pca_svd", "pca_sklearn", "eigopt", "eigopt_gram", "ours", "sdr", "sdr_gram")


def write_report(output: Path, found: dict[str, Any]) -> None:
    """Write RESULTS.md into `output`."""
    lines = [
        "# The paper, reproduced",
        "",
        "J. Shen, A. J. Davis, D. Lu and Z. Bai, *Hidden Convexity of Fair PCA and Fast Solver "
        "via Eigenvalue Optimization*. Written by `python -m experiments"
        + (" --quick`; a short version, so some ranks and tables are left out." if found["quick"]
           else "`."),
        "",
        *_missing(found),
        "## Claims",
        "",
        "| where | the paper says | we find | | why |",
        "|---|---|---|---|---|",
    ]  # fmt: skip
    for claim in claims(found):
        cells = (claim.where, claim.paper, claim.ours, f"**{claim.verdict}**", claim.why)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    lines += ["", *_table1(found), *_reference(found), *_figures(output), *_how(found)]
    (output / "RESULTS.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _missing(found: dict[str, Any]) -> list[str]:
    lines = []
    for name, reason in found["missing"].items():
        lines += [f"**The {name} table is missing.** {reason.splitlines()[0]}", ""]
    for table in found["tables"]:
        if table["synthetic"]:
            lines += [
                f"**{table['key']} is a synthetic matrix** of {table['n_rows']:,} x "
                f"{table['n_features']}, because the data file was not at hand. Only its running "
                "times mean anything, and no claim below rests on it otherwise.",
                "",
            ]
    return lines


def _table1(found: dict[str, Any]) -> list[str]:
    if not any(table["timing"] for table in found["tables"]):
        return []
    unit = "CPU seconds" if found["threads"] == 1 else "seconds"
    rounds = "one round" if found["quick"] else "best of several rounds"
    lines = [
        "## Table 1: running times",
        "",
        f"{unit}, {rounds} in one process, all methods in turn, {found['threads']} "
        "thread(s). Theirs: MATLAB on a laptop with 12 cores. Compare columns, not tables.",
        "",
        "| data set (r) | in the paper: PCA, EigOpt, SDR | PCA by SVD | PCA, scikit-learn "
        "| EigOpt as coded | EigOpt on Gram | **ours** | SDR as coded | SDR on Gram |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for table in found["tables"]:
        for row in table["timing"]:
            name = f"{table['key']} ({row['r']})" + (" *synthetic*" if table["synthetic"] else "")
            paper = ", ".join(f"{s:.2f}" for s in PAPER_TABLE[table["key"], row["r"]])
            cells = [name, paper]
            for method in _COLUMNS:
                seconds = row["best"].get(method)
                if seconds is None:
                    first = table["timing"][0]
                    cells.append(f"(as r = {first['r']})")
                else:
                    cells.append(f"**{seconds:.4g}**" if method == "ours" else f"{seconds:.4g}")
            lines.append("| " + " | ".join(cells) + " |")
    lines += ["", *(f"* {name}: {text}." for name, text in METHODS.items()), ""]
    return lines


def _reference(found: dict[str, Any]) -> list[str]:
    lines = [
        "## Values at the ranks of Table 1",
        "",
        "The optimum to twelve digits; `curves.csv` has every rank.",
        "",
        "| data set (r) | t* (weight of A) | common loss | PCA loss A | PCA loss B | error PCA "
        "| error FPCA | increase | loss ratio error |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    extra = {"BM": (10, 15), "DCC": (1, 4), "LFW": (1, 400)}
    for table in found["tables"]:
        if table["synthetic"]:
            continue
        wanted = set(table["table_r"]) | set(extra.get(table["key"], ()))
        for row in table["curve"]:
            if row["r"] in wanted:
                lines.append(
                    f"| {table['key']} ({row['r']}) | {row['t_star']:.12f} | "
                    f"{max(row['loss_A'], row['loss_B']):.12g} | {row['pca_loss_A']:.8g} | "
                    f"{row['pca_loss_B']:.8g} | {row['err_pca']:.8g} | {row['err_fpca']:.8g} | "
                    f"{row['increase_percent']:.4f} % | {row['ratio_ours']:.1e} |"
                )
    return [*lines, ""]


def _figures(output: Path) -> list[str]:
    lines = ["## Figures", ""]
    for name, caption in _FIGURES:
        if (output / f"{name}.png").exists():
            lines += [f"![{caption}]({name}.png)", "", f"{caption} [PDF]({name}.pdf)", ""]
    return lines


def _how(found: dict[str, Any]) -> list[str]:
    machine = ", ".join(f"{key} {value}" for key, value in found["machine"].items())
    return [
        "## How",
        "",
        f"{found['steps']} steps, {found['computing']:.0f} seconds of computing with "
        f"{found['threads']} thread(s). {machine}.",
        "",
        'Losses and errors are those of the authors\' own matrices: `variant="paper"` of the '
        "loaders in `fairpca.datasets`, which say in `DESCR` what is questionable about each "
        "table. M is the stack of A and B, each centred, except for LFW, where it is centred as "
        "a whole. The faces are often called 42 x 42 pixels; their 1764 pixels are 49 rows of 36.",
    ]
