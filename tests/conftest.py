"""Profiles of Hypothesis: the same examples everywhere by default; ``QL_EXPLORE=1`` looks for new ones."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("steady", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("explore", deadline=None, print_blob=True)
settings.load_profile("explore" if os.environ.get("QL_EXPLORE") else "steady")
