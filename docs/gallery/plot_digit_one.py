"""
Can anybody still read the ones? Digits rebuilt from five numbers
=================================================================

One handwritten digit in ten is a "1". PCA of all digits keeps what most of them have, and a one
has little of it. This example measures what that costs the ones, on digits that were left out of
the fit, and looks at them.
"""

# %%
# On new digits
# -------------
# Every tenth of the digits in turn is left out of the fits and measured. A group's *loss* is what
# it loses in mean squared error against a PCA made for that group alone.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier

from fairpca import FairPCA, cross_fit

X, digit = load_digits(return_X_y=True)
group = np.where(digit == 1, "1", "others")
new = cross_fit(X, group, 5)
for fit, losses in zip(new.fits, new.losses[:, 0], strict=True):
    print(f"{fit:16}", dict(zip(new.groups, losses.round(1).tolist(), strict=True)))
gain, change = new.improvement("careful FairPCA"), new.change("careful FairPCA")
print(f"largest loss smaller by {gain.value:.0f}, 95 % interval {gain.low:.0f} to {gain.high:.0f}")
print("error larger by", (100 * change.value / new.variances).round(1), "% of the variance")

# %%
# What it looks like
# ------------------
# Fitted to the first 1,200 digits; the pictures are ones and others that come later. From left to
# right: the scan, and what five numbers keep of it.

fits = {
    "PCA": FairPCA(5, shrinkage=1.0),
    "careful\nFairPCA": FairPCA(5, shrinkage="auto", max_harm=0.02),
    "FairPCA": FairPCA(5),
}
rebuilt = {"scan": X}
for name, fit in fits.items():
    fit.fit(X[:1200], sensitive_features=group[:1200])
    rebuilt[name] = fit.inverse_transform(fit.transform(X))
later = np.arange(1200, len(X))
ones = later[digit[later] == 1][:4]
others = [later[digit[later] == kind][0] for kind in (0, 3, 4, 7)]
figure, axes = plt.subplots(8, 4, figsize=(4.2, 8.4), layout="constrained")
for line, row in zip(axes, [*ones, *others], strict=True):
    for axis, images in zip(line, rebuilt.values(), strict=True):
        axis.imshow(images[row].reshape(8, 8), cmap="gray_r", vmin=0, vmax=16)
        axis.set_axis_off()
for axis, name in zip(axes[0], rebuilt, strict=True):
    axis.set_title(name, fontsize="small")
plt.show()

# %%
# A reader that has only these pictures
# -------------------------------------
# A classifier trained on the rebuilt first 1,200 digits, asked about the later ones: how many ones
# does it recognise, and how many of the others?

for name, images in rebuilt.items():
    reader = KNeighborsClassifier(5).fit(images[:1200], digit[:1200])
    right = reader.predict(images[later]) == digit[later]
    seen = [right[group[later] == kind].mean() for kind in ("1", "others")]
    print(f"{' '.join(name.split()):16} ones {seen[0]:.1%}, others {seen[1]:.1%}")
