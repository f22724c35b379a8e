"""QingLong: a scheduler for jobs that must not run twice."""

__version__ = "0.1.0"
