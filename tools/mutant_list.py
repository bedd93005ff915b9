"""The deliberate breakages: what is changed, and which tests must notice."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Mutant:
    """One breakage: in `file`, `old` becomes `new`; `tests` are pytest arguments."""

    name: str
    file: str
    old: str
    new: str
    tests: str

    def apply(self, root: Path) -> str:
        """Return the broken text; raise ValueError if the mutant no longer fits the file."""
        text = (root / "src" / "fairpca" / self.file).read_text()
        found = text.count(self.old)
        if found != 1:
            raise ValueError(
                f"mutant {self.name!r} is stale: its old text occurs {found} times in "
                f"src/fairpca/{self.file}; choose a line that is there once."
            )
        broken = text.replace(self.old, self.new)
        compile(broken, self.file, "exec")
        return broken


GENERATED = "tests/trust/test_generated.py -k"
BASIS = f"{GENERATED} basis_and_certificate"
DEFINITION = f"{GENERATED} definition"
MOMENTS = "tests/test_moments.py"
TORTURE = "tests/trust/test_torture.py"
STORED = "tests/trust/test_stored.py"
WRONG = "tests/trust/test_wrong_input.py"
ESTIMATOR = "tests/test_estimator.py -k"

MUTANTS = (
    # Rows to moments.
    Mutant(
        "rows are not centred",
        "blocks.py",
        "        block -= mean\n        return float(len(block)), mean",
        "        return float(len(block)), mean",
        MOMENTS,
    ),
    Mutant(
        "weights are squared", "blocks.py", "np.sqrt(weight)[:, None]", "weight[:, None]", MOMENTS
    ),
    Mutant(
        "centring is left out after squaring",
        "scatter.py",
        "scatter[part] -= weighted",
        "scatter[part] -= 0 * weighted",
        MOMENTS,
    ),
    Mutant(
        "a merge drops the term between means",
        "moments.py",
        "scatter += between",
        "scatter += 0 * between",
        MOMENTS,
    ),
    Mutant(
        "a merge moves the mean the wrong way",
        "moments.py",
        "mean = mine.mean + shift",
        "mean = mine.mean - shift",
        MOMENTS,
    ),
    Mutant(
        "the total forgets the variance between groups",
        "moments.py",
        "scatter += shifts.T @ shifts",
        "scatter += 0.0",
        MOMENTS,
    ),
    Mutant(
        "covariances divide by rows, not by weight",
        "moments.py",
        "return self.scatter / safe[:, None, None]",
        "return self.scatter / np.maximum(self.count, 1)[:, None, None]",
        DEFINITION,
    ),
    Mutant(
        "a file of the same format is refused",
        "moments_file.py",
        'if header["format"] > _FORMAT:',
        'if header["format"] >= _FORMAT:',
        STORED,
    ),
    Mutant(
        "labels are not sorted",
        "labels.py",
        "return sorted(labels)  #",
        "return labels  #",
        "tests/test_groups.py",
    ),
    Mutant(
        "a text label seen late gets the last code",
        "labels.py",
        "labels = sort_labels({*labels, *others})",
        "labels = [*labels, *sort_labels({*others})]",
        "tests/test_groups.py",
    ),
    Mutant(
        "negative weights pass",
        "checks.py",
        "(weights < 0).any()",
        "(weights < -9).any()",
        f"{ESTIMATOR} bad_input",
    ),
    # Criteria and the problem.
    Mutant(
        "shares of twice the variance",
        "criteria.py",
        "np.divide(1.0, traces,",
        "np.divide(2.0, traces,",
        DEFINITION,
    ),
    Mutant(
        "variance counted from one",
        "criteria.py",
        "return np.zeros(len(traces))",
        "return np.ones(len(traces))",
        DEFINITION,
    ),
    Mutant(
        "units the wrong way",
        "criteria.py",
        "2.0 ** -np.clip",
        "2.0 ** np.clip",
        f"{TORTURE} -k any_unit",
    ),
    Mutant(
        "losses with the wrong sign",
        "solve/problem.py",
        "return self.offsets - self.oracle.kept(basis)",
        "return self.offsets + self.oracle.kept(basis)",
        BASIS,
    ),
    Mutant(
        "one eigenvalue too few in the bound",
        "solve/problem.py",
        "pairs.values[: self.n_components].sum()",
        "pairs.values[: self.n_components - 1].sum()",
        BASIS,
    ),
    Mutant(
        "optimal means within a hundredth",
        "solve/solution.py",
        "OPTIMAL_GAP = 1e-8",
        "OPTIMAL_GAP = 1e-2",
        "tests/trust/test_mutants.py -k tolerances",
    ),
    Mutant(
        "rounding a million times too large",
        "solve/solution.py",
        "return 8 * math.sqrt(n_features)",
        "return 8e6 * math.sqrt(n_features)",
        f"{TORTURE} -k fifty",
    ),
    Mutant(
        "every gap is closed",
        "solve/solution.py",
        "gap = 0.0 if difference <= resolution else",
        "gap = 0.0 if difference <= np.inf else",
        "tests/test_many_groups.py -k evenly_spaced",
    ),
    # Solvers.
    Mutant(
        "phi' with the wrong sign",
        "solve/equal_losses.py",
        "slope = self.delta - float(inner.trace())",
        "slope = -self.delta + float(inner.trace())",
        BASIS,
    ),
    Mutant(
        "groups swapped in the weights",
        "solve/two_groups.py",
        "np.array([best.proof, 1 - best.proof])",
        "np.array([1 - best.proof, best.proof])",
        BASIS,
    ),
    Mutant(
        "the worst group carries no weight",
        "solve/dispatch.py",
        "weights[np.argmax(losses)] = 1.0",
        "weights[np.argmin(losses)] = 1.0",
        BASIS,
    ),
    Mutant(
        "a bound is not lowered by the residual",
        "solve/eigen.py",
        "return EigenPairs(values + residual, vectors)",
        "return EigenPairs(values, vectors)",
        "tests/test_eigen.py",
    ),
    Mutant(
        "a bound in a shared space is not lowered by the residuals",
        "solve/shared_space.py",
        "return EigenPairs(self.raised(r), self.vectors[:, :r])",
        "return EigenPairs(self.values[:r], self.vectors[:, :r])",
        "tests/test_rank_path.py",
    ),
    Mutant(
        "eigenvectors in the other order",
        "solve/eigen.py",
        "np.ascontiguousarray(vectors[:, ::-1])",
        "np.ascontiguousarray(vectors)",
        BASIS,
    ),
    Mutant(
        "a failed step teaches nothing",
        "solve/newton.py",
        "        curvature = _corrected(curvature, step, change)",
        "        _corrected(curvature, step, change)",
        "tests/test_many_groups.py -k model_of_a_kink",
    ),
    Mutant(
        "losses bend the other way along a step",
        "solve/dual_point.py",
        "return np.asarray(-kept - 2.0 *",
        "return np.asarray(kept + 2.0 *",
        "tests/test_many_group_parts.py",
    ),
    Mutant(
        "a thin factor for matrices of any rank",
        "solve/low_rank.py",
        "if found > rank or ",
        "if ",
        "tests/test_low_rank.py",
    ),
    Mutant(
        "the paper's search stops early",
        "solve/paper.py",
        '"xatol": tol,',
        '"xatol": 1e7 * tol,',
        "tests/trust/test_agreement.py -k every_road",
    ),
    # From a solution to an estimator.
    Mutant(
        "signs the other way",
        "arrays.py",
        "np.where(signs == 0, 1.0, signs)",
        "-np.where(signs == 0, 1.0, signs)",
        f"{ESTIMATOR} read_like",
    ),
    Mutant(
        "transform centres on the new rows",
        "reducer.py",
        "(X - self.mean_) @",
        "(X - X.mean(axis=0)) @",
        f"{ESTIMATOR} transform",
    ),
    Mutant(
        "the way back forgets the mean",
        "reducer.py",
        "return Z @ self.components_ + self.mean_",
        "return Z @ self.components_",
        f"{ESTIMATOR} inverts",
    ),
    Mutant(
        "variances divide by all rows",
        "fitting.py",
        "freedom = total.weight - 1 if total.weight > 1 else total.weight",
        "freedom = total.weight",
        f"{GENERATED} one_group",
    ),
    Mutant(
        "losses counted as kept",
        "fitting.py",
        "self.own_sums(r) / self.scales - losses",
        "self.own_sums(r) / self.scales + losses",
        DEFINITION,
    ),
    Mutant(
        "a share is nearly kept",
        "fitting.py",
        "needed = share * (1 - 1e-12)",
        "needed = share * (1 - 1e-1)",
        f"{ESTIMATOR} fractional",
    ),
    Mutant(
        "partial_fit forgets earlier rows",
        "estimator.py",
        "moments if seen is None else seen.merge(moments)",
        "moments",
        f"{ESTIMATOR} partial_fit",
    ),
    Mutant(
        "a failed fit forgets the old one",
        "estimator.py",
        "            self.__dict__.update(before)\n",
        "",
        WRONG,
    ),
    Mutant(
        "products forget the weights",
        "operators.py",
        "centred *= w[:, None] / max(",
        "centred *= 1.0 / max(",
        "tests/test_wide_and_sparse.py -k products_only",
    ),
    Mutant(
        "wide rows in coordinates without length",
        "population.py",
        "np.ascontiguousarray(vectors[:, keep] * roots)",
        "np.ascontiguousarray(vectors[:, keep])",
        "tests/test_wide_and_sparse.py -k row_space",
    ),
    # Files.
    Mutant(
        "any type is trusted",
        "persistence.py",
        "return found - set(TRUSTED_TYPES)",
        "return set()",
        STORED,
    ),
    Mutant(
        "an unfinished file stays",
        "files.py",
        "            os.unlink(name)\n",
        "            pass\n",
        WRONG,
    ),
)
