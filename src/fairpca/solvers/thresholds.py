"""The smallest t with which every group stays within what t allows it.

Instead of the largest f_i itself, the smallest t with ``f_i(U) <= allowed_i(t)`` for all groups is
looked for, where every allowed_i rises with t (or stays as it is). ``allowed_i(t) = t`` is the
plain problem; ``min(t, cap_i)`` forbids a group more than its cap; ``t**2`` minimises the largest
root of an error; ``t - floor_i`` tells whether floors can be met.

For one t that is a plain problem with other offsets, ``F(t) = min_U max_i f_i(U) - allowed_i(t)``.
Its dual weights prove more than that F(t) is positive: whatever t allows less than
``phi(weights) <= weights @ allowed(t)`` is out of reach. So t rises from below by such steps, each
of which is proven, and meets the t of the best basis after a few. Where the dual leaves a gap the
distance between the two is halved.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from fairpca._arrays import FloatArray
from fairpca.solvers.descent import descend
from fairpca.solvers.problem import Problem
from fairpca.solvers.solution import OPTIMAL_GAP, Solution

Limits = Callable[[float], Any]
Solve = Callable[..., Solution]

# Problems that are solved at most, and by how much of the matrices' magnitude a group may exceed
# what it is allowed: that is rounding of a solver that stops at a gap of 1e-10.
_MOST_ROUNDS, _SLACK = 40, 1e-10
# Up to so many columns descents follow t, at most so often.
_FEW_COLUMNS, _MOST_DESCENTS = 256, 10
# Neighbouring t closer than this share are the same.
_FINE = 1e-14
# No t is larger; squares and cubes of it are numbers still.
_LARGEST = 1e100
# Where proofs move t by less than this share of what is missing, the distance is halved until as
# small a share of it is left.
_UNDECIDED = 0.05


def solve_thresholds(
    problem: Problem,
    limits: Limits,
    solve: Solve,
    basis: FloatArray | None = None,
    *,
    tol: float = 0.0,
) -> Solution:
    """Return the basis with the smallest t, certified.

    Parameters
    ----------
    problem : Problem
    limits : callable
        Maps t to the most that every group may have of f_i, shape (k,) or one number for all.
    solve : callable
        Solves a plain problem, with the options of `solve_problem`.
    basis : ndarray of shape (n, r), optional
        One that is known to be allowed for some t.
    tol : float
        Distance between value and bound, as a share of the value, at which to stop.

    Returns
    -------
    Solution
        Value and bound of its certificate are numbers t.

    Raises
    ------
    ValueError
        If no basis was found that is within the limits for any t.
    """
    scale, rough = problem.oracle.scale or 1.0, tol > OPTIMAL_GAP
    slack = max((tol if rough else _SLACK) * scale, 16 * problem.resolution)

    def allowed(t: float) -> FloatArray:
        # One number is one for all groups.
        return np.broadcast_to(np.asarray(limits(t), dtype=float), problem.offsets.shape)

    def better(basis: FloatArray) -> tuple[float, FloatArray]:
        losses, ceiling = problem.losses(basis), allowed(_LARGEST)
        # What no t allows is excused where it is rounding.
        losses = np.where(losses <= ceiling + slack, np.minimum(losses, ceiling), losses)
        t = _least(lambda t: bool((losses <= allowed(t)).all()), scale)
        return (t, basis) if t < high or best is None else (high, best)

    low, tried, high, best = -np.inf, -np.inf, np.inf, basis
    if basis is not None:
        high, best = better(basis)
    # Without limits first: that bounds t wherever nothing else does.
    found, shift = solve(problem), np.zeros_like(problem.offsets)
    for _ in range(_MOST_ROUNDS):
        high, best = better(found.components.T)
        proof, rising = found.certificate, low
        if proof.lower_bound > 0 or not shift.any():
            low = max(low, _ruled_out(found, allowed, shift, scale))
        tried = max(tried, low)
        if not shift.any() and np.isfinite(high) and np.ptp(allowed(high)) == 0:
            # All groups are allowed the same there, so a smaller t asks for a better basis of the
            # plain problem, and that has been looked for.
            break
        # The solver itself leaves a gap at that point, and what it leaves is small enough.
        settled = not (shift.any() and proof.lower_bound > 0)
        near = high - tried < _UNDECIDED * (high - low)
        done = near or not high - low > max(slack, tol * abs(high))
        if done or (settled and problem.certificate(low, high, slack).optimal):
            break
        if not shift.any() and _few_enough(problem):
            # Relative to t, because the value itself goes to zero as t is found.
            enough = tol * abs(proof.value) if rough else 0.0
            high, best = better(_followed(problem, allowed, found, high, slack, enough))
            # Whoever is content with a rough bound is content with that basis.
            if rough:
                break
        # A step of proofs, or half of the distance where proofs hardly move it; a search proves
        # every step, however short.
        short = high - low if proof.nodes and np.isfinite(high) else 0.0
        well = not shift.any() or proof.lower_bound > _UNDECIDED * proof.value
        ahead = np.isfinite(low) and low - rising > short and well
        floor = tried if np.isfinite(tried) else high - max(abs(high), problem.oracle.scale)
        at = low if ahead else 0.5 * (floor + high)
        if not np.isfinite(at):
            break
        shift = allowed(at)
        moved = replace(problem, offsets=problem.offsets - shift, is_step=True)
        # Of the many problems only the first is searched unless a proof was asked for.
        found = solve(moved, start=found.weights, exact_search=False)
        if not ahead and found.certificate.lower_bound > 0:
            low = max(low, at)
        elif not ahead and found.certificate.value > 0:
            tried = at
    return _certified(problem, found, best, low, high, slack)


def _certified(
    problem: Problem,
    found: Solution,
    best: FloatArray | None,
    low: float,
    high: float,
    slack: float,
) -> Solution:
    """Return the best basis with the t it needs and the t below which nothing is possible."""
    if best is None or not np.isfinite(high):
        raise ValueError(
            "no projection keeps every group within what thresholds allow"
            + (", which is proven" if low == np.inf else "; allow more")
            + "."
        )
    certificate = problem.certificate(min(low, high), high, slack)
    return replace(
        found,
        components=np.ascontiguousarray(best.T),
        losses=problem.losses(best),
        certificate=certificate,
        n_eigen=problem.oracle.n_eigen,
        stop_reason="gap closed" if certificate.optimal else "limits leave a gap",
    )


def _ruled_out(found: Solution, allowed: Limits, shift: FloatArray, scale: float) -> float:
    """Return below which t the bound of a problem less `shift` leaves no basis."""
    proof = found.certificate
    # A bound that a search proved holds for the worst group alone, one of the dual for the mean
    # by its weights.
    of = np.max if proof.nodes else partial(np.dot, found.weights)
    least = shift + proof.lower_bound - proof.resolution
    return _least(_enough(allowed, of, least), scale)


def _few_enough(problem: Problem) -> bool:
    """Whether descents are cheap, and dual steps, of more than two groups, are not."""
    oracle = problem.oracle
    return oracle.n_groups > 2 and oracle.driver == "dense" and oracle.n_features <= _FEW_COLUMNS


def _followed(
    problem: Problem, allowed: Limits, found: Solution, high: float, slack: float, enough: float
) -> FloatArray:
    """Return where descents lead when t follows what they attain, by Newton's method.

    The multipliers of a descent say how fast the value falls as t rises.
    """
    basis, weights, value = found.components.T, found.weights, float(found.losses.max())
    shift = np.zeros_like(problem.offsets)
    for _ in range(_MOST_DESCENTS):
        within = _enough(allowed, partial(np.dot, weights), shift + value)
        t = _least(within, problem.oracle.scale)
        shift = allowed(min(t, high))
        moved = replace(problem, offsets=problem.offsets - shift)
        end = descend(moved, basis, weights, enough=enough)
        basis, weights, value = end.basis, end.weights, end.value
        if abs(value) <= slack:
            break
    return basis


def _enough(
    allowed: Limits, of: Callable[[Any], Any], least: FloatArray
) -> Callable[[float], bool]:
    """Return the condition that what t allows past `least`, `of` the groups, is not negative."""
    return lambda t: bool(of(allowed(t) - least) >= 0)


def _least(holds: Callable[[float], bool], step: float) -> float:
    """Return the smallest t at which a condition holds that holds from there on, to rounding.

    The search begins with steps of this size.
    """
    low, high, fine = 0.0, 0.0, _FINE * _FINE * step
    if holds(0.0):
        while holds(low):
            if step > _LARGEST:
                return -np.inf
            high, low, step = low, low - step, 2 * step
    else:
        while not holds(high):
            if step > _LARGEST:
                return np.inf
            low, high, step = high, high + step, 2 * step
    while high - low > max(_FINE * max(-low, high), fine):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
