"""Solvers of the minimax problem: everything with eigenvalues in it, and no row of X.

Given symmetric matrices S_1 ... S_k, offsets c_i and a rank r, find U with ``U.T U = I`` that
minimises

    max_i f_i(U),    f_i(U) = c_i - Tr(U.T S_i U).

Every route bounds that minimum from below by the dual function (see `dual`) and from above by the
basis it returns; the pair is the certificate. Read `problem` first, which sends a problem to the
algorithm that fits it, then `solution` for what comes out.
"""

from fairpca.solvers.problem import Problem, solve_problem
from fairpca.solvers.solution import Certificate, Solution

__all__ = ["Certificate", "Problem", "Solution", "solve_problem"]
