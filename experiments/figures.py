"""Drawing: every figure at the width of the paper's text, in colours anybody can tell apart."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

WIDTH = 6.5  # inches, the width of the paper's text
# Okabe and Ito's palette.
BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, RED, PURPLE = (
    "#000000", "#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7",
)  # fmt: skip

_STYLE = {
    "font.size": 8.5,
    "axes.titlesize": 9,
    "axes.labelsize": 9,
    "legend.fontsize": 8,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.5,
    "axes.axisbelow": True,
    "lines.linewidth": 1.4,
    "lines.markersize": 4,
    "legend.frameon": False,
    "mathtext.fontset": "cm",
}


@contextlib.contextmanager
def _figure(
    folder: Path, name: str, rows: int, columns: int, height: float, width: float = WIDTH
) -> Iterator[Any]:
    """Yield figure and axes; write them as PNG and PDF, byte for byte the same every time."""
    import matplotlib

    with matplotlib.rc_context(_STYLE):
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots(rows, columns, squeeze=False)
        yield figure, axes
        figure.savefig(folder / f"{name}.png", dpi=200, metadata={"Software": None})
        # The layout is known now; finding it again would double the time.
        figure.set_layout_engine("none")
        figure.savefig(folder / f"{name}.pdf", metadata={"CreationDate": None, "Producer": None})


def _title(axis: Any, table: dict[str, Any]) -> None:
    mark = ", synthetic" if table["synthetic"] else ""
    # A fixed place: matplotlib would lift some titles above the power of ten and not others.
    axis.set_title(f"{table['title']} ({table['key']}{mark})", y=1.0, pad=11)
    if table["synthetic"]:
        axis.set_facecolor("#f4f4f4")
        axis.text(
            0.97, 0.5, "not data: a random matrix\nof the same shape", transform=axis.transAxes,
            ha="right", va="center", color="#777777", fontsize=8.5,
        )  # fmt: skip


def _panels(tables: Sequence[dict[str, Any]]) -> tuple[int, int]:
    return (len(tables) + 1) // 2, 2


def _log_ranks(axis: Any, ranks: Sequence[int]) -> None:
    """A logarithmic axis of ranks with plain numbers on it."""
    axis.set_xscale("log")
    ticks = [r for r in (1, 2, 5, 10, 20, 50, 100, 200, 400) if min(ranks) <= r <= max(ranks)]
    axis.set_xticks(ticks, [str(r) for r in ticks])
    axis.minorticks_off()


def _marks(values: Sequence[float]) -> int:
    """Mark every point of a short curve, some of a long one."""
    return max(1, len(values) // 20)


def reconstruction_error(folder: Path, tables: Sequence[dict[str, Any]]) -> None:
    """Figure 4(a) of the paper."""
    rows, columns = _panels(tables)
    with _figure(folder, "reconstruction_error", rows, columns, 2.35 * rows) as (_, axes):
        for axis, table in zip(axes.flat, tables, strict=False):
            r = [row["r"] for row in table["curve"]]
            pca = [row["err_pca"] for row in table["curve"]]
            fair = [row["err_fpca"] for row in table["curve"]]
            every = _marks(r)
            axis.plot(r, pca, "-s", color=ORANGE, label="PCA ($M$)", markevery=every, ms=5)
            axis.plot(r, fair, "--d", color=BLUE, label="FPCA ($M$)", markevery=every, ms=3.5)
            axis.set_xlabel("$r$")
            axis.set_ylabel("Error")
            axis.ticklabel_format(axis="y", style="sci", scilimits=(0, 0), useMathText=True)
            axis.set_ylim(bottom=0)
            if max(r) > 200:
                _log_ranks(axis, r)
            _title(axis, table)
            axis.legend()
        _hide_rest(axes, len(tables))


def reconstruction_loss(folder: Path, tables: Sequence[dict[str, Any]]) -> None:
    """Figure 4(b) of the paper."""
    rows, columns = _panels(tables)
    with _figure(folder, "reconstruction_loss", rows, columns, 2.35 * rows) as (figure, axes):
        for axis, table in zip(axes.flat, tables, strict=False):
            curve = table["curve"]
            r = [row["r"] for row in curve]
            every = _marks(r)
            lines = (
                ("pca_loss_A", "-s", RED, "PCA ($A$)", 4.5),
                ("pca_loss_B", "-o", ORANGE, "PCA ($B$)", 4),
                ("loss_A", "-D", BLUE, "FPCA ($A$)", 5),
                ("loss_B", "--", SKY, "FPCA ($B$)", 0),
            )
            for name, style, colour, label, size in lines:
                values = [row[name] for row in curve]
                axis.plot(r, values, style, color=colour, label=label, markevery=every, ms=size)
            axis.set_xlabel("$r$")
            axis.set_ylabel("Loss")
            # Room for the markers of a loss of nearly nothing.
            axis.set_ylim(bottom=-0.04 * axis.get_ylim()[1])
            if max(r) > 200:
                _log_ranks(axis, r)
            _title(axis, table)
        handles, labels = axes.flat[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4)
        _hide_rest(axes, len(tables))


def loss_ratio(folder: Path, tables: Sequence[dict[str, Any]]) -> None:
    """Figure 5 of the paper, with the printed listing and ours added."""
    cases, ours, tight, printed, sdr = [], [], [], [], []
    for table in tables:
        by_rank = {row["r"]: row for row in table["curve"]}
        for row in table["ratios"]:
            if row["r"] not in table["table_r"] or row["r"] not in by_rank:
                continue
            star = "*" if table["synthetic"] else ""
            cases.append(f"{table['key']}{star} ({row['r']})")
            ours.append(by_rank[row["r"]]["ratio_ours"])
            tight.append(row["ratio_eigopt"])
            printed.append(row["ratio_printed"])
            sdr.append(row["ratio_sdr"])
    x = np.arange(len(cases))
    with _figure(folder, "loss_ratio", 1, 1, 3.0) as (figure, axes):
        axis = axes[0, 0]
        floor = 1e-16
        for values, style, colour, label in (
            (sdr, "^", RED, "SDR, ten steps"),
            (printed, "s", ORANGE, "EigOpt as printed (TolX $10^{-4}$)"),
            (tight, "D", SKY, "EigOpt, TolX $10^{-8}$"),
            (ours, "o", BLUE, "ours (root of $\\phi'$)"),
        ):
            axis.plot(x, np.maximum(values, floor), style, color=colour, label=label, ms=5.5)
        axis.axhline(1e-5, color=BLACK, lw=1, ls="--")
        axis.text(len(cases) - 0.45, 1.3e-5, "bound claimed\nin the paper", va="bottom", ha="left",
                  fontsize=7.5)  # fmt: skip
        axis.axhline(1e-10, color=BLUE, lw=1, ls=":")
        axis.text(len(cases) - 0.45, 1.3e-10, "our bound", va="bottom", ha="left", fontsize=7.5)
        axis.set_yscale("log")
        axis.set_ylim(floor / 3, 10)
        axis.set_xlim(-0.5, len(cases) + 1.1)
        axis.set_xticks(x, cases, rotation=45, ha="right", rotation_mode="anchor")
        axis.set_ylabel(r"$\left|\mathrm{loss}_A/\mathrm{loss}_B-1\right|$")
        axis.set_xlabel("data set ($r$)")
        axis.grid(axis="x", visible=False)
        figure.legend(loc="outside upper center", ncols=4, columnspacing=1.0, handletextpad=0.3)


def phi(folder: Path, curve: dict[str, Any]) -> None:
    """Figure 3 of the paper, with the points that two searches look at."""
    with _figure(folder, "phi", 1, 2, 2.6) as (_, axes):
        left, right = axes[0]
        t, values = np.array(curve["t"]), np.array(curve["phi"])
        left.plot(t, values, color=BLUE, lw=2)
        for end in (0, 1):
            left.axvline(end, color=BLACK, lw=1, ls="--")
        left.plot(curve["t_star"], curve["phi_star"], "*", color=RED, ms=10, zorder=3)
        left.annotate(
            "$t_*$", (curve["t_star"], curve["phi_star"]), (0, -14), textcoords="offset points",
            ha="center", va="top", fontsize=10,
        )  # fmt: skip
        left.set_xlim(-0.2, 1.2)
        left.set_xlabel("$t$")
        left.set_ylabel(r"$\phi(t)$")
        left.set_title(f"$\\phi(t)$, random example, $r = {curve['r']}$")
        for name, style, colour, label in (
            ("brent", "s-", ORANGE, "Brent on $\\phi$ (paper)"),
            ("ours", "o-", BLUE, "root of $\\phi'$ (ours)"),
        ):
            steps = np.abs(np.array(curve[name])[:, 0] - curve["t_star"])
            right.plot(
                np.arange(1, len(steps) + 1), np.maximum(steps, 1e-17), style, color=colour,
                label=label,
            )  # fmt: skip
        right.set_yscale("log")
        right.set_xlabel("evaluation of $\\phi$")
        right.set_ylabel("$|t - t_*|$")
        right.set_title("How the maximum is found")
        right.legend()


def numerical_range(folder: Path, found: dict[str, Any]) -> None:
    """Figure 2 of the paper."""
    with _figure(folder, "joint_numerical_range", 1, 1, 4.2) as (_, axes):
        axis = axes[0, 0]
        outline = np.array(found["outline"])
        top = outline.max() * 1.08
        axis.fill(*outline.T, facecolor="#FBF3A6", edgecolor=BLACK, lw=1.2, zorder=2)
        star = found["optimum"][0]
        levels = [star * f for f in (0.5, 1, 2, 3, 4, 5) if star * f < top]
        for level in levels:
            axis.plot(
                [0, level, level], [level, level, 0], color="#666666", lw=0.9, ls="--", zorder=3
            )
        axis.plot([0, top], [0, top], color=BLUE, lw=1.8, zorder=3, label="$y_1 = y_2$")
        axis.plot([], [], color="#666666", lw=0.9, ls="--", label=r"$\max\{y_1, y_2\} = c$")
        axis.plot(star, star, "*", color=RED, ms=13, zorder=4, label="optimum $y_*$")
        own = np.array(found["own"])
        axis.plot(
            *own.T, "o", color=GREEN, ms=6, zorder=4, label="each group's own PCA", clip_on=False
        )
        low, high = outline.min(axis=0), outline.max(axis=0)
        axis.text(
            *(low + (high - low) * (0.42, 0.8)), r"$\mathcal{W}_r(H_A, H_B)$", fontsize=12,
            ha="center", va="center", zorder=4,
        )  # fmt: skip
        axis.set_xlim(0, top)
        axis.set_ylim(0, top)
        axis.set_aspect("equal")
        axis.set_xlabel(r"$y_1 = \mathrm{Tr}(U^T H_A U)$")
        axis.set_ylabel(r"$y_2 = \mathrm{Tr}(U^T H_B U)$")
        axis.grid(False)
        axis.legend(loc="center left", bbox_to_anchor=(1.02, 0.5))


def illustration(folder: Path, found: dict[str, Any]) -> None:
    """Figure 1 of the paper: PCA above, Fair PCA below."""
    rows, labels = np.array(found["rows"]), np.array(found["labels"])
    with _figure(folder, "illustration", 2, 1, 5.7, width=0.8 * WIDTH) as (figure, axes):
        for axis, key, name in zip(axes.flat, ("pca", "fair"), ("PCA", "FPCA"), strict=True):
            line = np.array(found["directions"][key])
            for group, marker, colour in (("A", "o", GREEN), ("B", "s", PURPLE)):
                part = rows[labels == group]
                foot = (part @ line)[:, None] * line
                axis.plot(
                    *np.stack([part, foot], axis=1).transpose(2, 1, 0), color=colour, lw=0.4,
                    alpha=0.5, zorder=1,
                )  # fmt: skip
                axis.plot(*part.T, marker, color=colour, ms=3.5, mec="white", mew=0.3, zorder=2)
            reach = 1.15 * np.abs(rows @ line).max()
            colour = ORANGE if key == "pca" else BLUE
            axis.plot(*(np.outer([-reach, reach], line).T), color=colour, lw=2.2, zorder=3)
            loss_a, loss_b = found["losses"][key]
            axis.set_title(f"{name}: loss$_A$ = {loss_a:.2f}, loss$_B$ = {loss_b:.2f}")
            axis.set_aspect("equal")
            axis.set_xlabel("$x_1$")
            axis.set_ylabel("$x_2$")
            limit = np.abs(rows).max(axis=0) * 1.1
            axis.set_xlim(-1.2 * limit[0], 1.2 * limit[0])
            axis.set_ylim(-limit[1], limit[1])
        axis = axes[0, 0]
        for label, marker, colour in (("$A$", "o", GREEN), ("$B$", "s", PURPLE)):
            axis.plot([], [], marker, color=colour, ms=5, label=label)
        axis.plot([], [], color=ORANGE, lw=2.2, label="PCA")
        axis.plot([], [], color=BLUE, lw=2.2, label="FPCA")
        figure.legend(loc="outside upper center", ncols=4)


def price(folder: Path, tables: Sequence[dict[str, Any]]) -> None:
    """Total error paid against loss gap removed, over the rank."""
    real = [table for table in tables if not table["synthetic"]]
    with _figure(folder, "price_of_fairness", 1, 2, 2.9) as (_, axes):
        left, right = axes[0]
        for table, colour, marker in zip(
            real, (BLUE, RED, GREEN, PURPLE), ("o", "s", "D", "^"), strict=False
        ):
            curve = table["curve"]
            removed = [abs(row["pca_loss_A"] - row["pca_loss_B"]) for row in curve]
            # Per row, so that the unit is that of the losses.
            paid = [(row["err_fpca"] - row["err_pca"]) / table["n_rows"] for row in curve]
            left.plot(removed, paid, marker, color=colour, label=table["key"], ms=4)
            right.plot(
                [row["r"] for row in curve], [row["increase_percent"] for row in curve],
                f"{marker}-", color=colour, label=table["key"], ms=3.5,
            )  # fmt: skip
        span = left.get_xlim()
        left.set_xscale("log")
        left.set_yscale("log")
        grid = np.geomspace(max(span[0], 1e-3), 10, 50)
        left.plot(grid, grid, color="#999999", lw=1, ls=":", label="one for one", zorder=0)
        left.set_xlabel("loss gap removed, $|$loss$_A -$ loss$_B|$ of PCA")
        left.set_ylabel("error added per row")
        left.set_title("What equal losses cost, one point per $r$")
        left.legend()
        _log_ranks(right, [row["r"] for table in real for row in table["curve"]] or [1])
        right.set_yscale("log")
        right.set_xlabel("$r$")
        right.set_ylabel("total error, % above PCA")
        right.set_title("Increase of the total error")
        line = right.axhline(
            20.44, color=BLACK, lw=1, ls="--", label="20.44 %, largest in the paper"
        )
        right.set_ylim(top=1000)
        right.legend(handles=[line], loc="upper right")


def many_groups(folder: Path, groupings: Sequence[dict[str, Any]]) -> None:
    """Worst-group loss over the rank with its proof, and every group at one rank."""
    rows = len(groupings)
    with _figure(folder, "many_groups", rows, 2, 2.15 * rows + 0.3) as (figure, axes):
        for (left, right), grouping in zip(axes, groupings, strict=True):
            curve = grouping["curve"]
            r = [row["r"] for row in curve]
            left.plot(r, [max(row["pca_losses"]) for row in curve], "-s", color=ORANGE,
                      label="PCA, worst group")  # fmt: skip
            left.plot(r, [row["value"] for row in curve], "-o", color=BLUE,
                      label="FPCA, worst group")  # fmt: skip
            left.plot(r, [row["lower_bound"] for row in curve], "_", color=BLACK, ms=9, mew=1.4,
                      label="lower bound for any projection")  # fmt: skip
            if max(r) > 50:
                _log_ranks(left, r)
            left.set_xlabel("$r$")
            left.set_ylabel("loss of the worst group")
            left.set_ylim(bottom=0)
            left.set_title(grouping["title"])
            shown = next(row for row in curve if row["r"] == grouping["show_r"])
            names = [
                _group_name(name, count)
                for name, count in zip(shown["groups"], shown["counts"], strict=True)
            ]
            y = np.arange(len(names))
            right.hlines(y, shown["pca_losses"], shown["losses"], color="#bbbbbb", lw=1.5)
            right.plot(shown["pca_losses"], y, "s", color=ORANGE, ms=5)
            right.plot(shown["losses"], y, "o", color=BLUE, ms=5)
            right.axvline(shown["lower_bound"], color=BLACK, lw=1, ls="--")
            right.set_yticks(y, names)
            right.set_ylim(len(names) - 0.5, -0.5)
            right.set_xlim(left=0)
            right.set_xlabel("loss")
            proof = "proven optimal" if shown["optimal"] else f"gap {shown['certified_gap']:.1%}"
            right.set_title(f"$r = {shown['r']}$, {proof}")
        handles, labels = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=3)


def _group_name(name: str, count: int) -> str:
    plain = name.strip("()").replace("'", "")
    return f"{plain} ({count:,})"


def _hide_rest(axes: Any, used: int) -> None:
    for axis in list(axes.flat)[used:]:
        axis.set_visible(False)
