"""Draw common_eofs.svg: modes of sea surface temperature, observed and of a biased model.

The observations are 50 winters of the Pacific that the package `eofs` brings along
(``pip install eofs scipy``). The model is made of them: 150 winters whose patterns lie 25 degrees
further west.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr

from fairpca.metrics import group_losses
from fairpca.xarray import FairEOF

_SOURCES = {"observed": "#0072b2", "model": "#d55e00"}
_MODES = 3


def fields() -> list[xr.DataArray]:
    """Return 50 observed winters and 150 of the model."""
    package = find_spec("eofs")
    if package is None or package.origin is None:
        raise SystemExit("The observations are in a package: pip install eofs")
    path = Path(package.origin).parent / "examples" / "example_data" / "sst_ndjfm_anom.nc"
    with xr.open_dataset(path) as data:
        observed = data["sst"].load()
    filled = observed.fillna(0.0).to_numpy()
    shifted = np.roll(filled, -5, axis=2)
    mixtures = np.random.default_rng(0).normal(size=(150, 50)) / np.sqrt(50)
    winters = np.einsum("mt,tij->mij", mixtures, shifted)
    model = xr.DataArray(
        winters,
        dims=observed.dims,
        coords={"latitude": observed.latitude, "longitude": observed.longitude},
        name="sst",
    )
    return [observed, model.where(observed.isel(time=0, drop=True).notnull())]


def main() -> None:
    """Fit both; draw the second mode of each and what every source loses; print the losses."""
    parts = fields()
    names = list(_SOURCES)
    together = xr.concat([part.drop_vars("time", errors="ignore") for part in parts], "time")
    labels = np.repeat(names, [part.sizes["time"] for part in parts])
    fits = {
        "EOFs": FairEOF(_MODES).fit(together, group=np.zeros(len(labels)), weights="coslat"),
        "FairEOF": FairEOF(_MODES).fit(parts, group=names, weights="coslat"),
    }
    cells = together.stack(cell=("latitude", "longitude")).dropna("cell")
    rows = (cells * np.sqrt(np.cos(np.deg2rad(cells.latitude)))).to_numpy()
    plt.rcParams.update({"svg.hashsalt": "common eofs", "font.size": 11})
    figure, axes = plt.subplots(
        1, 3, figsize=(10.4, 2.7), layout="constrained", width_ratios=[1.3, 1.3, 1]
    )
    for i, (axis, (title, eof)) in enumerate(zip(axes, fits.items(), strict=False)):
        mode = eof.components().sel(mode=2)
        largest = float(abs(mode).max())
        axis.pcolormesh(
            mode.longitude,
            mode.latitude,
            mode,
            cmap="RdBu_r",
            vmin=-largest,
            vmax=largest,
            rasterized=True,
        )
        axis.set(title=f"{title}, mode 2", aspect="equal")
        losses = group_losses(eof.model_, rows, sensitive_features=labels)
        order = sorted(names)
        for j, name in enumerate(names):
            loss = float(losses[order.index(name)])
            axes[2].barh(1 - i + 0.18 - 0.36 * j, loss, 0.34, color=_SOURCES[name])
            axes[2].text(loss, 1 - i + 0.18 - 0.36 * j, f" {loss:.2f} {name}", va="center")
            print(f"{title}, {name}: loses {loss:.3f}")
        print(eof.certificate_)
    axes[2].set(yticks=[1, 0], yticklabels=["EOFs", "FairEOF"], title="loss per winter")
    axes[2].set_xlim(0, 1.6 * axes[2].get_xlim()[1])
    axes[2].spines[["top", "right"]].set_visible(False)
    figure.savefig(Path(__file__).with_name("common_eofs.svg"), metadata={"Date": None})


if __name__ == "__main__":
    main()
