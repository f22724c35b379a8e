"""The job file: YAML in, one resolved file set out, or every problem with its place and its remedy.

``docs/job-file.md`` is the reference, ``docs/job-file.schema.json`` (from ``schema.py``) serves editors.
"""

from __future__ import annotations

from qinglong.wire.jobfile.loading import load, load_files
from qinglong.wire.problem import Problem

__all__ = ["Problem", "load", "load_files"]
