"""Exact noise on integers, and the threshold for private keys."""

from dpsql.mechanisms.gaussian import DiscreteGaussian
from dpsql.mechanisms.laplace import DiscreteLaplace
from dpsql.mechanisms.noise import Noise
from dpsql.mechanisms.threshold import selection_weights, threshold

__all__ = ["DiscreteGaussian", "DiscreteLaplace", "Noise", "selection_weights", "threshold"]
