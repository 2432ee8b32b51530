"""Errors of the client. Each is a SlipwayError; errors of use are ValueError or TypeError."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway._models import Conflict, Suggestion


class SlipwayError(Exception):
    """An error that the server returned, or that prevented a call.

    Attributes:
        message: What happened and what to do, for users. It may have several lines.
        code: Identifies the error, e.g. ``"conda.conflict"`` or ``"limit.builds"``; the meaning of a code never
            changes. Empty if the server sent none. All codes: gateway/contract/errors.md.
        details: The error as data, for the codes that have it; otherwise empty.
        status: The HTTP status; 0 if there was no response.
        request_id: Identifies the call in the server's log; empty if unknown.
        retry_after: Seconds after which a retry may succeed; None if unknown.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str = "",
        details: Mapping[str, Any] | None = None,
        status: int = 0,
        request_id: str = "",
        retry_after: float | None = None,
    ) -> None:
        """Create an error with the attributes of the same names."""
        super().__init__(message)
        self.message = message
        self.code = code
        self.details: Mapping[str, Any] = details or {}
        self.status = status
        self.request_id = request_id
        self.retry_after = retry_after


class UnsolvableError(SlipwayError):
    """There is no environment with the requested Conda packages.

    Attributes:
        conflict: Why: the specifications that exclude each other, the reasons, and missing names.
        suggestions: Changes for which the server found a solution.
    """

    def __init__(self, message: str, conflict: Conflict, suggestions: tuple[Suggestion, ...], **attributes: Any) -> None:
        """Create an error with the attributes of the same names."""
        super().__init__(message, **attributes)
        self.conflict = conflict
        self.suggestions = suggestions


class BuildError(SlipwayError):
    """The build of a container failed.

    Attributes:
        build_id: The build, e.g. to read its log.
        reason_code: The kind of failure: ``"solve"``, ``"build"``, ``"push"``, ``"timeout"``, ``"memory"``,
            ``"cancelled"``, ``"internal"``, ``"revoked"``, or ``"scan"`` for an image that its scan did not allow. Others may
            be added.
    """

    def __init__(self, message: str, build_id: str, reason_code: str) -> None:
        """Create an error with the attributes of the same names."""
        super().__init__(message)
        self.build_id = build_id
        self.reason_code = reason_code


class UnreachableError(SlipwayError):
    """The server could not be reached, did not respond in time, or the connection was lost."""


class WaitTimeoutError(SlipwayError, TimeoutError):
    """A wait has reached its timeout. The build continues, and ``wait`` can be called again."""
