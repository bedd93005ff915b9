"""
My rows are on an accelerator: what can stay there?
===================================================

All work that grows with the number of rows, and the large decompositions. Within
``sklearn.config_context(array_api_dispatch=True)``, ``FairPCA().fit(X, sensitive_features=...)``
takes a tensor and does it by itself, as :doc:`the guide </guide/accelerators>` shows. This page
does the same by hand, to show what happens: a fit needs three things of every group, how many rows
it has, their mean and their scatter matrix. These are counted where the rows are, in double
precision; a few matrices travel to the processor, which solves the problem; the components travel
back, and ``transform`` is one product on the device.
"""

# %%
# Where the rows are
# ------------------
# With PyTorch and a CUDA device, the rows below live there. Without them the same lines run with
# NumPy. The first line printed says which of the two made the numbers of this page.

import time

import matplotlib.pyplot as plt
import numpy as np

from fairpca import FairPCA, GroupMoments

try:
    import torch
except ImportError:
    torch = None
device = "cuda" if torch is not None and torch.cuda.is_available() else "cpu"


def put(array):
    """Return the array on the device, or as it is without one."""
    return array if torch is None else torch.as_tensor(array, device=device)


def get(array):
    """Return a NumPy array."""
    return array if isinstance(array, np.ndarray) else array.cpu().numpy()


print("rows are held by", "NumPy" if torch is None else f"PyTorch, on {device}")

# %%
# Counting on the device
# ----------------------
# Rows are centred before they are multiplied, and multiplied in double precision whatever they are
# stored in: squares of single-precision numbers lose the small differences between groups. A table
# larger than the device is counted in pieces; :meth:`fairpca.GroupMoments.merge` adds them up.


def count_moments(X, codes, labels):
    """Return the moments of the groups of `X`; `codes` says which label each row has."""
    counts, means, scatters = [], [], []
    for code in range(len(labels)):
        rows = X[codes == code]
        rows = rows.astype(np.float64) if torch is None else rows.double()
        mean = rows.mean(0)
        rows -= mean
        counts.append(len(rows))
        means.append(get(mean))
        scatters.append(get(rows.T @ rows))
    counts = np.array(counts)
    return GroupMoments(counts, counts.astype(float), np.array(means), np.array(scatters), labels)


rng = np.random.default_rng(0)
n_columns, r, labels = 60, 8, ("clinic", "ward")


def draw(n_rows):
    """Return rows in single precision and who each of them is; one row in six is of the ward."""
    codes = (rng.random(n_rows) < 1 / 6).astype(int)
    X = rng.normal(size=(n_rows, n_columns)) * 0.93 ** np.arange(n_columns)
    X[codes == 1] = 1.3 * X[codes == 1][:, ::-1]
    return X.astype(np.float32), codes


X, codes = draw(30_000)
moments = count_moments(put(X), put(codes), labels)
model = FairPCA(r).fit_moments(moments)
print(model.certificate_)

# %%
# The answer is that of an ordinary fit to the same rows.

plain = FairPCA(r).fit(X.astype(float), sensitive_features=np.array(labels)[codes])
apart = model.components_.T @ model.components_ - plain.components_.T @ plain.components_
print(f"distance between the two subspaces: {np.linalg.norm(apart, 2):.0e}")

# %%
# And ``transform`` on the device is one product. Nobody needs to know the groups any more.

components, mean = put(model.components_.astype(np.float32)), put(model.mean_.astype(np.float32))
Z = (put(X) - mean) @ components.T
print(tuple(Z.shape), f"largest difference: {np.abs(get(Z) - model.transform(X)).max():.0e}")

# %%
# What there is to gain
# ---------------------
# Counting grows with the rows, and that part an accelerator takes over. Solving depends on the
# columns, the groups and the components only, and stays what it is.

sizes, counting, solving = [3_000, 10_000, 30_000, 100_000, 300_000], [], []
for n_rows in sizes:
    X, codes = draw(n_rows)
    held, whose = put(X), put(codes)
    times = []
    for _ in range(3):
        began = time.perf_counter()
        moments = count_moments(held, whose, labels)
        counted = time.perf_counter()
        FairPCA(r).fit_moments(moments)
        times.append([counted - began, time.perf_counter() - counted])
    for taken, best in zip((counting, solving), np.min(times, axis=0), strict=True):
        taken.append(1e3 * best)

figure, axis = plt.subplots(figsize=(7.5, 4.2), layout="constrained")
axis.loglog(sizes, counting, "o-", color="#D55E00", lw=2)
axis.loglog(sizes, solving, "s-", color="#0072B2", lw=2)
axis.annotate("counting, where the rows are", (sizes[-1], counting[-1]), (-8, 4),
              textcoords="offset points", ha="right", color="#D55E00")  # fmt: skip
axis.annotate("solving, on the processor", (sizes[-1], solving[-1]), (0, -18),
              textcoords="offset points", ha="right", color="#0072B2")  # fmt: skip
title = f"{n_columns} columns, 2 groups, {r} components, rows held on: {device}"
axis.set(xlabel="rows", ylabel="milliseconds (best of three)", title=title)
axis.grid(color="0.92")
axis.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# With thousands of columns the solve is the larger part. Solved by hand, as here, it gains nothing
# from the device; ``fit`` decomposes large matrices there. The guide says
# :doc:`what an accelerator is good for today </guide/accelerators>`.
