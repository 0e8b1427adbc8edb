"""What clouds' error codes mean: tables, and one function over them.

The tables hold the codes that clouds document or are known to send when a VM is made, deleted or
looked up. A code that is in none is judged by the HTTP status it came with.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from corral.clouds.errors import (
    AccountRefused,
    BadRequest,
    CloudError,
    QuotaExceeded,
    Scope,
    StockOut,
    Transient,
)

__all__ = ["AWS", "AZURE", "GCP", "error_for"]

Meaning = tuple[type[CloudError], Scope]
Table = Mapping[str, Meaning]

_STOCK: Final[Meaning] = (StockOut, Scope.ZONE)
_SUBNET: Final[Meaning] = (StockOut, Scope.SUBNET)
_QUOTA: Final[Meaning] = (QuotaExceeded, Scope.REGION)
_ACCOUNT: Final[Meaning] = (AccountRefused, Scope.CLOUD)
_AGAIN: Final[Meaning] = (Transient, Scope.NONE)
_BAD: Final[Meaning] = (BadRequest, Scope.NONE)


def _table(meanings: Mapping[Meaning, str]) -> Table:
    return {code: meaning for meaning, codes in meanings.items() for code in codes.split()}


GCP: Final = _table(
    {
        _STOCK: """
            ZONE_RESOURCE_POOL_EXHAUSTED ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS
            insufficientCapacity UNSUPPORTED_OPERATION RESOURCE_NOT_READY resourceNotReady
            RESOURCE_OPERATION_RATE_EXCEEDED
            """,
        _SUBNET: """
            IP_SPACE_EXHAUSTED IP_SPACE_EXHAUSTED_WITH_DETAILS
            """,
        _QUOTA: "QUOTA_EXCEEDED quotaExceeded",
        _ACCOUNT: """
            VPC_NOT_FOUND PERMISSION_DENIED PERMISSIONS_ERROR UNAUTHENTICATED SERVICE_DISABLED
            BILLING_DISABLED forbidden authError accessNotConfigured
            """,
        _AGAIN: """
            rateLimitExceeded userRateLimitExceeded RATE_LIMIT_EXCEEDED INTERNAL_ERROR
            internalError backendError UNAVAILABLE serviceUnavailable
            """,
        _BAD: """
            invalid INVALID_FIELD_VALUE INVALID_USAGE badRequest RESOURCE_NOT_FOUND notFound
            RESOURCE_ALREADY_EXISTS alreadyExists
            """,
    }
)

AWS: Final = _table(
    {
        _STOCK: """
            InsufficientInstanceCapacity UnfulfillableCapacity Unsupported InsufficientCapacity
            InsufficientHostCapacity InsufficientReservedInstanceCapacity SpotMaxPriceTooLow
            Server.InsufficientInstanceCapacity
            """,
        _SUBNET: "InsufficientFreeAddressesInSubnet",
        _QUOTA: """
            MaxSpotInstanceCountExceeded VcpuLimitExceeded MaxFleetCountExceeded
            InstanceLimitExceeded VolumeLimitExceeded
            """,
        _ACCOUNT: """
            UnauthorizedOperation AuthFailure InvalidClientTokenId SignatureDoesNotMatch
            ExpiredToken ExpiredTokenException RequestExpired OptInRequired PendingVerification
            Blocked AccessDenied AccessDeniedException MissingAuthenticationToken
            """,
        _AGAIN: """
            RequestLimitExceeded Throttling ThrottlingException RequestThrottled
            RequestThrottledException InternalError InternalFailure ServiceUnavailable Unavailable
            IncorrectInstanceState
            """,
        _BAD: "IdempotentParameterMismatch InvalidParameterValue InvalidAMIID.NotFound",
    }
)

AZURE: Final = _table(
    {
        _STOCK: """
            SkuNotAvailable AllocationFailed ZonalAllocationFailed
            OverconstrainedAllocationRequest OverconstrainedZonalAllocationRequest
            SpotPriceGreaterThanProvidedMaxPrice
            """,
        _SUBNET: "SubnetIsFull",
        _QUOTA: "OperationNotAllowed QuotaExceeded",
        _ACCOUNT: """
            ReadOnlyDisabledSubscription AuthorizationFailed AuthenticationFailed
            InvalidAuthenticationToken ExpiredAuthenticationToken InvalidAuthenticationTokenTenant
            LinkedAuthorizationFailed SubscriptionNotFound SubscriptionNotRegistered
            MissingSubscriptionRegistration RequestDisallowedByPolicy
            """,
        _AGAIN: """
            TooManyRequests RetryableError InternalServerError InternalExecutionError
            NetworkingInternalOperationError ServiceUnavailable ServerTimeout OperationPreempted
            AnotherOperationInProgress Conflict
            """,
        _BAD: "InvalidParameter InvalidRequestContent PropertyChangeNotAllowed",
    }
)

_ALL_REGIONS: Final = "'GPUS_ALL_REGIONS' exceeded"
"""A quota over all regions: another region does not help. The code alone does not tell."""


def error_for(
    table: Table,
    code: str,
    message: str,
    *,
    status: int = 0,
    retry_after: float | None = None,
) -> CloudError:
    """The error to raise for what a cloud answered."""
    kind, scope = table.get(code) or _by_family(table, code) or _by_status(status)
    if kind is QuotaExceeded and _ALL_REGIONS in message:
        scope = Scope.CLOUD
    return kind(message or "no reason given", code=code, scope=scope, retry_after=retry_after)


def _by_family(table: Table, code: str) -> Meaning | None:
    """GCP adds detail to codes by endings."""
    if table is GCP and code.startswith("IP_SPACE_EXHAUSTED"):
        return _SUBNET
    return None


def _by_status(status: int) -> Meaning:
    if status in (401, 403):
        return _ACCOUNT
    # no status at all: an operation that failed after it had been accepted
    if status in (0, 408, 425, 429) or status >= 500:
        return _AGAIN
    return _BAD
