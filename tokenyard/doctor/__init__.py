"""Before a job: whether its loader will feed so many GPUs at such a step, found by running the loader alone."""

from tokenyard.doctor.run import examine

__all__ = ["examine"]
