"""From an error to its HTTP answer: problem details (RFC 9457) with the product's stable codes.

``type`` stays ``about:blank``, so ``title`` is the status phrase (RFC 9457 section 4.2.1); what tells errors
apart is ``code``. An error that nobody meant is answered 500 without a word about the inside.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

import msgspec
from starlette.responses import Response

from qinglong.errors import Invalid, QingLongError, Unauthorised, Unavailable
from qinglong.wire.api import Problem

MEDIA: Final = "application/problem+json"


class BadRequest(Invalid):
    """A request that cannot be served as it is; ``status`` says in which way."""

    def __init__(self, status: int, code: str, message: str, *, place: str = "", remedy: str = "") -> None:
        super().__init__(code, message, place=place, remedy=remedy)
        self.status = status


class BadField(BadRequest):
    """One field of the query or the body is wrong: which, and what is wrong with it."""

    def __init__(self, status: int, code: str, where: str, field: str, why: str, *, remedy: str = "") -> None:
        place = f"{where} field {field}" if field else where
        message = f"the {where} is not valid" + ("" if field else f": {why}")
        super().__init__(status, code, message, place=place, remedy=remedy)
        self.field = field
        self.why = why


class WrongMethod(BadRequest):
    """The path exists, the method does not."""

    def __init__(self, allowed: tuple[str, ...]) -> None:
        names = ", ".join(allowed)
        super().__init__(405, "method_not_allowed", f"this path answers {names} only")
        self.allowed = names


class Forbidden(Unauthorised):
    """A good token without the permission."""

    status = 403


class ClientGone(Exception):
    """The client closed the connection: there is nobody to answer."""


def no_path() -> QingLongError:
    """The one answer for every path that is not in the route table, however it is spelled."""
    return BadRequest(
        404,
        "path_unknown",
        "there is nothing at this path",
        remedy="names in a path have letters, digits, '.', '_' and '-' only; docs/api.md lists the paths",
    )


def problem_of(error: Exception) -> Problem:
    """The problem details of any error."""
    if not isinstance(error, QingLongError):
        error = QingLongError(
            "internal", "the server met an error of its own", remedy="its log has the details; report it"
        )
    wrong: tuple[dict[str, str], ...] = ()
    if isinstance(error, BadField) and error.field:
        wrong = ({"field": error.field, "message": error.why},)
    return Problem(
        type="about:blank",
        title=HTTPStatus(error.status).phrase,
        status=error.status,
        detail=error.message,
        code=error.code,
        place=error.place,
        remedy=error.remedy,
        exit_code=3 if error.status == HTTPStatus.NOT_FOUND else error.exit_code,
        fields=wrong,
    )


def answer(error: Exception) -> Response:
    """The response that carries :func:`problem_of`."""
    problem = problem_of(error)
    return Response(
        msgspec.json.encode(problem),
        problem.status,
        headers=_headers(error, problem.status),
        media_type=MEDIA,
    )


def _headers(error: Exception, status: int) -> dict[str, str]:
    if status == HTTPStatus.UNAUTHORIZED:
        return {"www-authenticate": 'Bearer realm="qinglong"'}
    if isinstance(error, WrongMethod):
        return {"allow": error.allowed}
    if isinstance(error, Unavailable):
        # Not for Unknown: only the same key makes a repetition safe (I12).
        return {"retry-after": "1"}
    return {}
