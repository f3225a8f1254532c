"""The order of samples: pure functions of numbers, never of files, processes or what was read before. No torch."""

from tokenyard.datasets.order.order import Order, Shuffle, find, place, resolve, tail_positions, walk
from tokenyard.permutation.keyed import key, perm, splitmix

__all__ = ["Order", "Shuffle", "find", "key", "perm", "place", "resolve", "splitmix", "tail_positions", "walk"]
