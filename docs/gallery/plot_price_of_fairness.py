"""
What does it cost everybody to serve the worst group better?
============================================================

PCA has the smallest error over all rows. Any projection that serves its worst group better has a
larger one: that is the price, the question of Samadi et al. in "The Price of Fair PCA" (2018).
This example draws it for every compromise between PCA and FairPCA, with a proof of how low the
price could be at all.
"""

# %%
# Handwritten digits, ten groups
# ------------------------------
# Some digits are written in more ways than others, and PCA of all digits serves them unequally.
# Moments are counted once.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from fairpca import FairPCA, GroupMoments

X, digit = load_digits(return_X_y=True)
moments = GroupMoments.from_array(X, digit)
share = moments.count / moments.count.sum()

# %%
# Between PCA and FairPCA
# -----------------------
# There is no need to choose one end. With ``criterion="error"`` and ``shrinkage=a`` FairPCA makes
#
#     (1 - a) · worst error of a digit  +  a · error of all rows
#
# as small as possible, because an error is linear in the group's matrix. With a = 1 that is PCA,
# with a = 0 only the worst digit counts. Every certificate is a statement about *all*
# projections: none has such a sum below the bound. Together the bounds fence off the grey region,
# where no projection with so many components can be.

r = 8
amounts = np.linspace(0, 1, 41)
models = [FairPCA(r, criterion="error", shrinkage=a).fit_moments(moments) for a in amounts]
worst = np.array([model.group_errors_.max() for model in models])
total = np.array([share @ model.group_errors_ for model in models])
bounds = np.array([model.certificate_.lower_bound for model in models])
print(f"largest gap of any certificate: {max(m.certificate_.gap for m in models):.1e}")

figure, axis = plt.subplots(figsize=(7.2, 4.6), layout="constrained")
room_x, room_y = 0.12 * np.ptp(worst), 0.12 * np.ptp(total)
across = np.linspace(worst.min() - room_x, worst.max() + room_x, 500)
floor = np.full(across.shape, bounds[-1])
for a, bound in zip(amounts[1:], bounds[1:], strict=True):
    floor = np.maximum(floor, (bound - (1 - a) * across) / a)
floor[across < bounds[0]] = total.max() + 2 * room_y
axis.fill_between(across, floor, total.min() - room_y, color="0.92", lw=0)
axis.plot(worst, total, color="0.5", lw=1.2, zorder=1)
dots = axis.scatter(worst, total, c=amounts, cmap="viridis", s=26, zorder=2)
for i, name, colour, shift in (
    (-1, "PCA", "#D55E00", (-8, 14)),
    (0, "FairPCA", "#0072B2", (12, 4)),
):
    axis.plot(worst[i], total[i], "o", color=colour, ms=10, zorder=3)
    axis.annotate(name, (worst[i], total[i]), shift, textcoords="offset points", color=colour)
axis.text(0.02, 0.04, "no projection is here", transform=axis.transAxes, color="0.35")
axis.set(xlim=across[[0, -1]], ylim=(total.min() - room_y, total.max() + room_y))
axis.set(xlabel="error of the worst-served digit", ylabel="error of all rows")
axis.spines[["top", "right"]].set_visible(False)
figure.colorbar(dots, ax=axis, label="shrinkage a")
plt.show()

# %%
# The curve is steep at one end and flat at the other, and that is the practical news: from PCA
# the first steps cost everybody little and help the worst digit much; the last ones are dear.

half = int(np.argmin(np.abs(worst - (worst[0] + worst[-1]) / 2)))
paid = (total[half] - total[-1]) / (total[0] - total[-1])
print(
    f"half of the way for the worst digit costs {paid:.0%} of the price (a = {amounts[half]:.2f})"
)

# %%
# Who pays
# --------
# The error of every digit, from PCA to FairPCA with ``criterion="error"``. Digits that PCA served
# best pay for the others.

ends = np.array([models[-1].group_errors_, models[0].group_errors_])
order = np.argsort(ends[0])
figure, axis = plt.subplots(figsize=(7.2, 3.8), layout="constrained")
places = np.arange(10)
axis.vlines(places, *ends[:, order], color="0.8", lw=3)
for values, name, marker, colour in zip(
    ends, ("PCA", "FairPCA"), "os", ("#D55E00", "#0072B2"), strict=True
):
    axis.plot(places, values[order], marker, color=colour, ms=8, label=name)
    axis.axhline(share @ values, color=colour, ls=":", lw=1.2, zorder=0)
axis.set_xticks(places, [str(moments.labels[i]) for i in order])
axis.set(xlabel="digit", ylabel=f"mean squared error, {r} components")
axis.set_title("dotted: all rows", fontsize="medium", loc="left")
axis.spines[["top", "right"]].set_visible(False)
axis.legend(frameon=False, loc="lower right")
lose = [str(moments.labels[i]) for i in order if ends[1, i] > ends[0, i]]
print("digits with a larger error than under PCA:", ", ".join(lose))
plt.show()

# %%
# All of this is about the rows in hand. The price on new rows may be higher and the gain smaller:
# :ref:`sphx_glr_auto_gallery_plot_credit_small_groups.py` shows how to look. For a report,
# ``fairpca.audit`` states price and gain on new rows in words, and ``found.plot()`` draws them.
