"""The project's errors: what they mean to a person, to a script and to a caller in code.

Every error carries a stable ``code`` (shared by command line, API and docs), a message in plain words and,
where there is one, the *place* (file, line, field) and the *remedy*. ``Unknown`` is never a kind of failure
(I12): it is a sibling of the others, and nothing may treat it as "did not happen".
"""

from __future__ import annotations


class QingLongError(Exception):
    """Base of everything the product raises on purpose.

    ``exit_code`` is the command line's exit code, ``status`` the HTTP status of the same error.
    """

    exit_code = 1
    status = 500
    kind = "error"

    def __init__(self, code: str, message: str, *, place: str = "", remedy: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.place = place
        self.remedy = remedy

    def __str__(self) -> str:
        where = f"{self.place}: " if self.place else ""
        what = f" — {self.remedy}" if self.remedy else ""
        return f"{where}{self.message}{what}"


class Invalid(QingLongError):
    """The input itself is wrong; nothing was changed."""

    exit_code = 2
    status = 422
    kind = "invalid"


class NotFound(QingLongError):
    """What was named does not exist."""

    exit_code = 3
    status = 404
    kind = "not_found"


class Refused(QingLongError):
    """A policy or the present state forbids it; nothing was changed."""

    exit_code = 4
    status = 409
    kind = "refused"


class Conflict(QingLongError):
    """A fence or a compare-and-set was lost: authority has moved (I4)."""

    exit_code = 4
    status = 409
    kind = "conflict"


class Unavailable(QingLongError):
    """The authority is out of reach, or not ready; try again."""

    exit_code = 5
    status = 503
    kind = "unavailable"


class Unknown(QingLongError):
    """It is not known whether the change was committed: read back, or repeat with the same key (I12)."""

    exit_code = 6
    status = 503
    kind = "unknown"


class Unauthorised(QingLongError):
    """No token, a wrong one, or one without the permission."""

    exit_code = 7
    status = 401
    kind = "unauthorised"


class Damaged(QingLongError):
    """A stored record breaks a rule of ours; it is never repaired by guessing."""

    exit_code = 1
    status = 500
    kind = "damaged"
