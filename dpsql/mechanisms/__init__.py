"""The mechanisms and laws of differential privacy, with exact noise: what SQL answers are made of, and a library of
its own.

Each mechanism has `release`; where it does not depend on the data, `accuracy(beta)` and its inverse; and `law`, the
probabilities of its outputs, so that `delta_between` can check its claim on neighbours. Its file has the theorem and
the proof.
"""

from dpsql.mechanisms.discrete_noise import DiscreteLaplace, Noise
from dpsql.mechanisms.divergence import (
    Divergence,
    FiniteLaw,
    Law,
    ShiftedLaw,
    delta_between,
    epsilon_between,
    hockey_stick,
)
from dpsql.mechanisms.exponential import ExponentialLaw
from dpsql.mechanisms.gaussian import DiscreteGaussian
from dpsql.mechanisms.randomized_response import CoinResponse, RandomizedResponse, Share
from dpsql.mechanisms.textbook.composition import Guarantee, advanced, basic, group, parallel
from dpsql.mechanisms.textbook.exponential_mechanism import Exponential, NoisyMax
from dpsql.mechanisms.textbook.gaussian_mechanism import Gaussian, gaussian_delta, textbook_sigma
from dpsql.mechanisms.textbook.laplace_mechanism import Laplace, histogram
from dpsql.mechanisms.textbook.name_and_shame import NameAndShame, default_delta, delta_for_risk, somebody_is_shamed
from dpsql.mechanisms.textbook.rdp import (
    curve_delta,
    curve_epsilon,
    curve_rho,
    pure_curve,
    repeated,
    together,
    zcdp_curve,
)
from dpsql.mechanisms.textbook.sensitivity_search import global_sensitivity, local_sensitivity
from dpsql.mechanisms.textbook.smooth_median import SmoothMedian
from dpsql.mechanisms.threshold import selection_weights, threshold
from dpsql.mechanisms.zcdp_conversion import delta_for, epsilon_for, laplace_rho, pure_rho, rho_for

__all__ = [
    "CoinResponse",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Divergence",
    "Exponential",
    "ExponentialLaw",
    "FiniteLaw",
    "Gaussian",
    "Guarantee",
    "Laplace",
    "Law",
    "NameAndShame",
    "Noise",
    "NoisyMax",
    "RandomizedResponse",
    "Share",
    "ShiftedLaw",
    "SmoothMedian",
    "advanced",
    "basic",
    "curve_delta",
    "curve_epsilon",
    "curve_rho",
    "default_delta",
    "delta_between",
    "delta_for",
    "delta_for_risk",
    "epsilon_between",
    "epsilon_for",
    "gaussian_delta",
    "global_sensitivity",
    "group",
    "histogram",
    "hockey_stick",
    "laplace_rho",
    "local_sensitivity",
    "parallel",
    "pure_curve",
    "pure_rho",
    "repeated",
    "rho_for",
    "selection_weights",
    "somebody_is_shamed",
    "textbook_sigma",
    "threshold",
    "together",
    "zcdp_curve",
]
