"""Exact noise on integers, exact choices, and the threshold for private keys."""

from dpsql.mechanisms.exponential import Exponential
from dpsql.mechanisms.gaussian import DiscreteGaussian
from dpsql.mechanisms.laplace import DiscreteLaplace
from dpsql.mechanisms.noise import Noise
from dpsql.mechanisms.threshold import selection_weights, threshold

__all__ = ["DiscreteGaussian", "DiscreteLaplace", "Exponential", "Noise", "selection_weights", "threshold"]
