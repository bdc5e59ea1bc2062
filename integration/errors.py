"""The error tree of the domain.

Every error carries a stable code, the HTTP status and the exit code it maps to, and fields that are safe
to show. Only the console's middleware and the management commands turn them into responses.
The default message of an error is the first line of its docstring.
"""

from __future__ import annotations

from typing import ClassVar

EXIT_ERROR = 1
EXIT_USAGE = 2
EXIT_REFUSED = 3
EXIT_NOT_FOUND = 4
EXIT_NOT_ALLOWED = 5


class IntegrationError(Exception):
    """Something in the integration domain went wrong."""

    code: ClassVar[str] = "error"
    http_status: ClassVar[int] = 500
    exit_code: ClassVar[int] = EXIT_ERROR
    retryable: ClassVar[bool] = False

    def __init__(self, message: str | None = None, /, **data_fields: object) -> None:
        """Keep the message and the fields that an operator may see.

        Args:
            message: One sentence for the operator; the class docstring's first line when absent.
            **data_fields: Facts that are safe to show (ids, codes, counts), never payload or secrets.
        """
        self.message = message or (type(self).__doc__ or type(self).__name__).strip().splitlines()[0]
        self.data_fields = data_fields
        super().__init__(self.message)

    def operator_message(self) -> str:
        """Return the sentence that an operator reads."""
        return self.message


class NotFound(IntegrationError):
    """There is no such row in what you may see."""

    code = "not_found"
    http_status = 404
    exit_code = EXIT_NOT_FOUND


class PackNotFound(NotFound):
    """There is no such pack incarnation."""


class RouteNotFound(NotFound):
    """There is no such route."""


class EventNotFound(NotFound):
    """There is no such Event."""


class WorkItemNotFound(NotFound):
    """There is no such WorkItem."""


class Refused(IntegrationError):
    """A rule refuses this; nothing was changed."""

    code = "refused"
    http_status = 409
    exit_code = EXIT_REFUSED


class InvalidInput(IntegrationError):
    """The input is not valid; nothing was changed."""

    code = "invalid_input"
    http_status = 400
    exit_code = EXIT_USAGE


class NotAllowed(IntegrationError):
    """You do not have the permission that this needs."""

    code = "permission_denied"
    http_status = 403
    exit_code = EXIT_NOT_ALLOWED


class ConcurrentChange(IntegrationError):
    """The row changed in the meantime; nothing was changed by this request."""

    code = "lost_race"
    http_status = 409
    exit_code = EXIT_REFUSED


class StaleClaim(ConcurrentChange):
    """The claim is no longer live: its lease token or ownership epoch was replaced."""

    code = "stale_claim"


class Busy(IntegrationError):
    """The database is busy; nothing was changed, try again."""

    code = "busy"
    http_status = 503
    retryable = True


class LockTimeout(Busy):
    """A lock was not free in time; nothing was changed, try again."""

    code = "lock_timeout"


class Deadlock(Busy):
    """The database broke a deadlock too many times; nothing was changed, try again."""

    code = "deadlock"


class DatabaseUnavailable(Busy):
    """The database does not answer; nothing was changed, try again."""

    code = "database_unavailable"


class CommitUnknown(IntegrationError):
    """The connection broke during COMMIT: whether the change was stored must be read again."""

    code = "commit_unknown"
    http_status = 503


class EffectUnknown(IntegrationError):
    """An external effect may have happened; it is never retried by itself."""

    code = "outcome_unknown"
    http_status = 409
    exit_code = EXIT_REFUSED


class InvariantBroken(IntegrationError):
    """An invariant of the program does not hold; nothing was changed."""

    code = "invariant_broken"


class LockOrderViolation(InvariantBroken):
    """A lock was asked for in a falling rank."""


class TransactionRequired(InvariantBroken):
    """A locked row was used outside the transaction that locked it."""


class TransactionNested(InvariantBroken):
    """A transaction was opened inside another one."""


class UnexpectedRowCount(InvariantBroken):
    """A guarded write matched another number of rows than it must."""


class UnknownState(InvariantBroken):
    """The database holds a state that this build does not know."""


class SetupError(IntegrationError):
    """The installation is not complete."""

    code = "setup"
    http_status = 503


class SchemaMismatch(SetupError):
    """The database does not have the schema that this needs."""

    code = "schema_unavailable"


class UnsupportedEngine(SetupError):
    """This database engine or version is not supported."""


class WrongBackend(UnsupportedEngine):
    """The database backend is not the one for this server."""
