"""Every code of the clouds, by what it means."""

from __future__ import annotations

import pytest

from corral.clouds import (
    AccountRefused,
    BadRequest,
    CloudError,
    QuotaExceeded,
    Scope,
    StockOut,
    Transient,
)
from corral.clouds.azure import bodies as azure
from corral.clouds.codes import AWS, AZURE, GCP, Table, error_for
from corral.clouds.gcp import bodies as gcp
from corral.clouds.rest import Answer

STOCK = (StockOut, Scope.ZONE)
SUBNET = (StockOut, Scope.SUBNET)
QUOTA = (QuotaExceeded, Scope.REGION)
ACCOUNT = (AccountRefused, Scope.CLOUD)
AGAIN = (Transient, Scope.NONE)
BAD = (BadRequest, Scope.NONE)

CASES = [
    *[
        (GCP, code, STOCK)
        for code in (
            "ZONE_RESOURCE_POOL_EXHAUSTED",
            "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS",
            "insufficientCapacity",
            "UNSUPPORTED_OPERATION",
            "RESOURCE_NOT_READY",
            "RESOURCE_OPERATION_RATE_EXCEEDED",
        )
    ],
    (GCP, "QUOTA_EXCEEDED", QUOTA),
    (GCP, "quotaExceeded", QUOTA),
    (GCP, "IP_SPACE_EXHAUSTED", SUBNET),
    (GCP, "IP_SPACE_EXHAUSTED_WITH_DETAILS", SUBNET),
    (GCP, "IP_SPACE_EXHAUSTED_IN_SOME_NEW_WAY", SUBNET),
    (GCP, "VPC_NOT_FOUND", ACCOUNT),
    (GCP, "PERMISSIONS_ERROR", ACCOUNT),
    (GCP, "forbidden", ACCOUNT),
    (GCP, "rateLimitExceeded", AGAIN),
    (GCP, "INTERNAL_ERROR", AGAIN),
    (GCP, "INVALID_FIELD_VALUE", BAD),
    *[
        (AWS, code, STOCK)
        for code in ("InsufficientInstanceCapacity", "UnfulfillableCapacity", "Unsupported")
    ],
    (AWS, "InsufficientFreeAddressesInSubnet", SUBNET),
    *[
        (AWS, code, QUOTA)
        for code in ("MaxSpotInstanceCountExceeded", "VcpuLimitExceeded", "MaxFleetCountExceeded")
    ],
    (AWS, "RequestLimitExceeded", AGAIN),
    (AWS, "UnauthorizedOperation", ACCOUNT),
    (AWS, "IdempotentParameterMismatch", BAD),
    *[
        (AZURE, code, STOCK)
        for code in (
            "SkuNotAvailable",
            "AllocationFailed",
            "ZonalAllocationFailed",
            "OverconstrainedAllocationRequest",
            "SpotPriceGreaterThanProvidedMaxPrice",
        )
    ],
    (AZURE, "OperationNotAllowed", QUOTA),
    (AZURE, "QuotaExceeded", QUOTA),
    (AZURE, "ReadOnlyDisabledSubscription", ACCOUNT),
    (AZURE, "AuthorizationFailed", ACCOUNT),
    (AZURE, "TooManyRequests", AGAIN),
    (AZURE, "InvalidParameter", BAD),
]


@pytest.mark.parametrize(("table", "code", "meaning"), CASES, ids=[case[1] for case in CASES])
def test_codes(table: Table, code: str, meaning: tuple[type[CloudError], Scope]) -> None:
    # the status says otherwise: the code decides
    status = 400 if meaning[0] is not BadRequest else 503
    error = error_for(table, code, "words", status=status, retry_after=3.0)
    assert (type(error), error.scope) == meaning
    assert error.code == code
    assert error.retry_after == 3.0
    assert str(error) == f"{code}: words"


@pytest.mark.parametrize(
    ("status", "meaning"),
    [
        (400, BAD),
        (404, BAD),
        (401, ACCOUNT),
        (403, ACCOUNT),
        (408, AGAIN),
        (429, AGAIN),
        (500, AGAIN),
        (503, AGAIN),
        (0, AGAIN),
    ],
)
@pytest.mark.parametrize("table", [GCP, AWS, AZURE], ids=["gcp", "aws", "azure"])
def test_unknown_codes_by_status(
    table: Table, status: int, meaning: tuple[type[CloudError], Scope]
) -> None:
    error = error_for(table, "SomethingNew", "", status=status)
    assert (type(error), error.scope) == meaning


def test_a_quota_over_all_regions_blocks_the_cloud() -> None:
    words = "Quota 'GPUS_ALL_REGIONS' exceeded.  Limit: 0.0 globally."
    assert error_for(GCP, "QUOTA_EXCEEDED", words).scope is Scope.CLOUD


def test_gcp_operation_errors_are_told_by_the_first_known_code() -> None:
    error = gcp.operation_error(
        {
            "error": {
                "errors": [
                    {"code": "SOMETHING_ELSE", "message": "first"},
                    {"code": "ZONE_RESOURCE_POOL_EXHAUSTED", "message": "second"},
                ]
            },
            "httpErrorStatusCode": 503,
        }
    )
    assert isinstance(error, StockOut)
    assert "first; second" in str(error)
    assert gcp.operation_error({"status": "DONE"}) is None


@pytest.mark.parametrize(
    ("body", "kind", "code"),
    [
        ({"error": {"errors": [{"reason": "quotaExceeded"}]}}, QuotaExceeded, "quotaExceeded"),
        ({"error": {"status": "PERMISSION_DENIED"}}, AccountRefused, "PERMISSION_DENIED"),
        ({"error": "plain words"}, AccountRefused, ""),
        ({"text": "<html>proxy</html>"}, AccountRefused, ""),
        ({}, AccountRefused, ""),
    ],
)
def test_gcp_refusals(body: dict[str, object], kind: type[CloudError], code: str) -> None:
    error = gcp.refusal(Answer(403, body, {}))
    assert type(error) is kind
    assert error.code == code


def test_azure_errors_are_found_in_their_details() -> None:
    inner = {"code": "AllocationFailed", "message": "no room"}
    outer = {"code": "ResourceDeploymentFailure", "message": "?", "details": [inner]}
    error = azure.refusal(Answer(409, {"error": outer}, {"retry-after": "7"}))
    assert isinstance(error, StockOut)
    assert error.code == "AllocationFailed"
    assert error.retry_after == 7.0


def test_azure_failures_are_read_from_the_instance_view() -> None:
    status = {"code": "ProvisioningState/failed/ZonalAllocationFailed", "message": "no room"}
    body = {"name": "x", "properties": {"instanceView": {"statuses": [status]}}}
    assert isinstance(azure.failure_of(body), StockOut)
    assert isinstance(azure.failure_of({"name": "x"}), Transient)
