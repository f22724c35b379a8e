"""What PostgreSQL's errors mean in the project's words (design section 5, I12)."""

from __future__ import annotations

import psycopg

from qinglong.errors import Conflict, Damaged, QingLongError, Unavailable, Unknown

COMPARE_AND_SET = "QL001"
"""SQLSTATE that our own statements raise when a record is not as it was loaded."""
_REMEDIES = {
    "25006": "the server only reads; name the primary in the DSN, or every host with target_session_attrs=read-write",
    "28000": "check the user of the DSN and pg_hba.conf",
    "28P01": "check the password of the DSN",
    "3D000": "create the database that the DSN names",
    "42501": "run `ql migrate --roles` as the owner",
    "42P01": "run `ql migrate` as the owner",
    "42883": "run `ql migrate` as the owner",
    "42703": "run `ql migrate` as the owner",
    "53100": "free disk space on the database server",
    "53300": "raise max_connections, or run fewer replicas",
}


def lost_race(error: BaseException) -> bool:
    """Whether the transaction may simply be done again: somebody was quicker, nothing was stored."""
    return isinstance(error, psycopg.Error) and (
        error.sqlstate == COMPARE_AND_SET or (error.sqlstate or "").startswith("40")
    )


def translate(error: BaseException) -> BaseException:
    """An error that left nothing behind, as the port's; what is not PostgreSQL's stays as it is."""
    if isinstance(error, QingLongError) or not isinstance(error, psycopg.Error):
        return error
    state = error.sqlstate or ""
    message = str(error).strip().split("\n")[0]
    if lost_race(error):
        return Conflict("compare_and_set", message)
    if state[:2] in {"22", "23"}:
        return Damaged("constraint", f"a stored rule would be broken: {message}")
    remedy = _REMEDIES.get(state, "")
    return Unavailable("database_error", f"the database cannot be used: {message}", remedy=remedy)


def unknown(error: BaseException | str) -> Unknown:
    """A COMMIT without a trustworthy reply."""
    return Unknown("commit_unknown", f"the commit's outcome is not known: {str(error).strip()}")
