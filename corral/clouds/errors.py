"""Errors of this package: what to do next is in the class, what to avoid in `scope`.

Clouds are told apart by their error **codes** (`codes`), never by words or status alone. `StockOut`
and `QuotaExceeded` block what `scope` names for a while, `AccountRefused` blocks the whole cloud
until somebody acts, `Transient` is worth another try with the same request id, `BadRequest` never.
"""

from __future__ import annotations

from enum import StrEnum

__all__ = [
    "AccountRefused",
    "BadRequest",
    "CloudError",
    "MissingLibrary",
    "QuotaExceeded",
    "Scope",
    "StockOut",
    "Transient",
]


class Scope(StrEnum):
    """How far a refusal reaches."""

    NONE = "none"
    """Only the request itself was refused: nothing larger is affected."""
    SUBNET = "subnet"
    """The network the VM was to be in; another type does not help, another subnet does."""
    ZONE = "zone"
    """This machine type in this zone."""
    REGION = "region"
    """All zones of the region."""
    CLOUD = "cloud"
    """Everything this account can do."""


class CloudError(Exception):
    """A cloud said no, or said nothing."""

    def __init__(
        self,
        message: str,
        *,
        code: str = "",
        scope: Scope = Scope.NONE,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{code}: {message}" if code else message)
        self.code = code
        """As the cloud spells it."""
        self.scope = scope
        self.retry_after = retry_after
        """Seconds that the cloud asked to be left alone."""


class StockOut(CloudError):
    """There is no such machine to be had there now."""


class QuotaExceeded(CloudError):
    """The account may not have more of these; a greater quota must be asked for."""


class AccountRefused(CloudError):
    """Credentials, rights or the account itself: nothing will work until somebody acts."""


class Transient(CloudError):
    """Throttling, a lost answer, a fault of the cloud: ask again with the same request id."""


class BadRequest(CloudError):
    """The request is wrong and will stay so."""


class MissingLibrary(CloudError):
    """The cloud's library is not installed."""
