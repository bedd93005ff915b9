"""
Whom does PCA of law students fail, and who pays for the repair?
================================================================

20,798 students of law schools in the United States, ten columns of grades, tests and circumstances
reduced to two components. The audit leaves a tenth of the students out of every fit and says what
each group of those loses: by race first, then by sex.
"""

# %%
# By race
# -------
# A group's *loss* is what its rows lose in mean squared error against a PCA made for that group
# alone. "Careful FairPCA" is ``FairPCA(shrinkage="auto", max_harm=0.02)``: nobody may lose more
# than two per cent of their variance above what they lose by PCA.

import textwrap

import matplotlib.pyplot as plt
import numpy as np
from sklearn.preprocessing import StandardScaler

from fairpca import FairPCA, audit
from fairpca.datasets import fetch_law_school

students = fetch_law_school(as_frame=True)
X, race = StandardScaler().fit_transform(students.data), students.sensitive_features

found = audit(X, race, 2)
print(textwrap.fill(found.verdict(), 90))
found.plot()
plt.show()

# %%
# PCA's two components are those of the 84 % who are White. What does that mean for one student?
# Of every student the two numbers are turned back into ten columns; the picture shows by how much
# the error of each column changes, for both groups.

fits = {
    "PCA": FairPCA(2, shrinkage=1.0),
    "careful FairPCA": FairPCA(2, shrinkage="auto", max_harm=0.02),
}
squared = {}
for name, fit in fits.items():
    fit.fit(X[::2], sensitive_features=race[::2])
    squared[name] = (X - fit.inverse_transform(fit.transform(X))) ** 2
rows = np.arange(len(X)) % 2 == 1
figure, axis = plt.subplots(figsize=(7, 4), layout="constrained")
places = np.arange(X.shape[1])
for shift, (group, colour) in enumerate({"Non-White": "#009E73", "White": "#E69F00"}.items()):
    part = rows & (race == group)
    change = (squared["careful FairPCA"][part] - squared["PCA"][part]).mean(axis=0)
    axis.barh(places + 0.38 * shift, change, 0.36, color=colour, label=group)
axis.set_yticks(places + 0.19, students.data.columns)
axis.axvline(0, color="0.5", lw=1)
axis.set(xlabel="change of the squared error, students left out of the fit; left is better")
axis.spines[["top", "right"]].set_visible(False)
axis.legend(frameon=False)
plt.show()

# %%
# By sex
# ------
# The same students and columns without the sex, and another answer: here nobody needs a fair PCA.

sex = students.data["sex=male"].map({1.0: "male", 0.0: "female"})
by_sex = audit(X[:, students.data.columns != "sex=male"], {"sex": sex}, 2)
print(textwrap.fill(by_sex.verdict(), 90))

# %%
# In the terminal: ``fairpca audit law_school.csv -g race --drop pass_bar -r 2 -o page.html``
# writes the same as a page for others to read.
