"""Measurements of QingLong against its own targets: ``python -m bench``. See ``docs/benchmarks.md``."""
