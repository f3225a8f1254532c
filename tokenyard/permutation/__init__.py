"""Keyed permutations, which the order of training and jobs share (`order/1`)."""

from tokenyard.permutation.keyed import key, perm, perm_inverses, splitmix

__all__ = ["key", "perm", "perm_inverses", "splitmix"]
