"""The exceptions. Every one is an `Error`."""

from __future__ import annotations


class Error(Exception):
    """A call that failed. Its message says what is wrong and what to do.

    It contains no feature and no reward, but a value of data or of names that `DataError` or `Transform` refuses.
    """


class ArgumentError(Error, ValueError):
    """An argument that cannot be used: an address, an id, a configuration or a reward. Nothing was decided."""


class ContextsError(ArgumentError):
    """Contexts that are not one row of finite features for each arm, or features that are too long."""


class DataError(ArgumentError):
    """A file, a data frame or a schema that makes no rounds, with line, column and value where they are known."""


class KeysError(Error):
    """Keys that are missing, that cannot be opened, or that do not belong to the server or the bandit."""


class DecisionError(ArgumentError):
    """A decision or its bytes that cannot be used here: of another bandit, under another key, or changed."""


class UnreachableError(Error):
    """The server could not be reached, or its answer broke off, for longer than the patience of the client.

    The request may be sent again: a reward counts once.
    """

    def __init__(self, server: str, reason: str) -> None:
        super().__init__(f"no answer from {server}: {reason}")
        self.server = server
        """The address of the server."""
        self.reason = reason
        """The cause."""

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.server, self.reason)


class RefusedError(Error):
    """The server refused the request.

    `code` is the stable reason, one of `helba.PROBLEMS`; `status` is that of HTTP, and `detail` a sentence.
    """

    def __init__(self, code: str, status: int, title: str, detail: str) -> None:
        super().__init__(f"the server refused ({status}, {code}): {detail}")
        self.code = code
        """The stable reason, one of `helba.PROBLEMS`; `unknown` if the answer came from something else."""
        self.status = status
        """The HTTP status."""
        self.title = title
        """The phrase of the status."""
        self.detail = detail
        """What is wrong with this request, and what to do."""

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.code, self.status, self.title, self.detail)


class UnauthorizedError(RefusedError):
    """The request has no token that the server knows (401)."""


class ForbiddenError(RefusedError):
    """The token does not permit the request (403)."""


class NotFoundError(RefusedError):
    """There is no such bandit, decision or path (404)."""


class ConflictError(RefusedError):
    """The request does not fit the state of the bandit (409)."""


class BusyError(RefusedError):
    """The server has no room or no time now, or has failed (429, 5xx). The request may be sent again."""


class ProtocolError(Error):
    """An answer that does not follow the protocol: the server has another version, or deviates from it."""


class InsecureWarning(UserWarning):
    """A token is sent to another machine without encryption."""


def refused(code: str, status: int, title: str, detail: str) -> RefusedError:
    """The exception of a refusal."""
    if status == 429 or status >= 500:
        return BusyError(code, status, title, detail)
    kinds = {401: UnauthorizedError, 403: ForbiddenError, 404: NotFoundError, 409: ConflictError}
    return kinds.get(status, RefusedError)(code, status, title, detail)
