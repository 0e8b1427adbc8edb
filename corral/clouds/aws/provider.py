"""EC2 through boto3, which is loaded when the first provider is made (extra ``aws``).

One instance for one request id, which is the ``ClientToken``: EC2 answers a repeated token with the
instance it made. boto3 blocks, so every call has a thread.
"""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from corral.clouds import codes, polling
from corral.clouds.aws import bodies
from corral.clouds.base import (
    OWNER_LABEL,
    Hazard,
    Notice,
    Price,
    State,
    Vm,
    VmRef,
    VmRequest,
    checked,
    listed,
)
from corral.clouds.consoles import host_keys_of
from corral.clouds.errors import (
    AccountRefused,
    BadRequest,
    CloudError,
    MissingLibrary,
    Scope,
    StockOut,
    Transient,
)
from corral.clouds.rest import Patience, RestClient, StaticToken
from corral.egress.reading import load_json

__all__ = ["ADVISOR", "AwsCredentials", "AwsProvider", "AwsSettings"]

ADVISOR: Final = "https://spot-bid-advisor.s3.amazonaws.com/spot-advisor-data.json"
_GONE: Final = ("InvalidInstanceID.NotFound", "InvalidInstanceID.Malformed")


@dataclass(frozen=True, slots=True)
class AwsCredentials:
    """Keys; without them boto3 looks for the identity of machine or pod."""

    access_key: str
    secret_key: str = field(repr=False)
    session_token: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsSettings:
    """Where and as whom one region of AWS is used."""

    region: str
    place: bodies.Place = field(default_factory=bodies.Place)
    endpoint: str | None = None
    """None is EC2's own for the region."""
    advisor: str = ADVISOR
    patience: Patience = field(default_factory=Patience)
    look_s: float = 15.0
    """Between two looks from outside."""
    on_demand: Mapping[str, float] = field(default_factory=dict)
    """What instances cost an hour on demand, by type."""


class AwsProvider:
    """Spot and on-demand instances of one region."""

    name = "aws"

    def __init__(
        self,
        settings: AwsSettings,
        credentials: AwsCredentials | None = None,
        *,
        clock: Callable[[], float] = time.time,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Load boto3; raises MissingLibrary without it."""
        self._settings = settings
        self._clock = clock
        self._pause = pause
        self._ec2 = _client(settings, credentials)

    # -- VMs -------------------------------------------------------------------------------------

    async def create(self, request: VmRequest) -> Vm:
        arguments = bodies.run_arguments(checked(request), self._settings.place)
        # EC2 does not mind two of one name; nodes do
        other = await self.get(VmRef(request.name, request.zone))
        if other is not None and other.alive and other.request_id != request.request_id:
            raise BadRequest(
                f"there is an instance {request.name} ({other.id}) that this request did not make: "
                "choose another name or terminate it"
            )
        try:
            made = await self._call("run_instances", **arguments)
        except BadRequest as error:
            if error.code != "IdempotentParameterMismatch":
                raise
            raise BadRequest(
                f"request id {request.request_id} was used for another VM before: take a new one",
                code=error.code,
            ) from error
        instance = made["Instances"][0]
        vm = await self.get(VmRef(request.name, request.zone, str(instance["InstanceId"])))
        if vm is None:  # EC2 does not at once know everywhere what it has made
            vm = bodies.vm_of(instance)
        if vm.state is State.TERMINATED:
            raise StockOut(f"instance {vm.id} was taken at once", scope=Scope.ZONE)
        return vm

    async def delete(self, ref: VmRef) -> None:
        vm = None if ref.id else await self.get(ref)
        identity = ref.id or (vm.id if vm is not None else "")
        if not identity:
            return
        try:
            await self._call("terminate_instances", InstanceIds=[identity])
        except BadRequest as error:
            if error.code not in _GONE:
                raise

    async def get(self, ref: VmRef) -> Vm | None:
        """By id; without one the youngest of that name, living ones first."""
        if ref.id:
            try:
                found = await self._describe(InstanceIds=[ref.id])
            except BadRequest as error:
                if error.code not in _GONE:
                    raise
                return None
        else:
            named = [{"Name": "tag:Name", "Values": [ref.name]}]
            found = await self._describe(Filters=named)
        found = [vm for vm in found if vm.name in ("", ref.name)]
        return max(found, key=lambda vm: (vm.alive, vm.created or 0.0), default=None)

    async def list(self, owner: str) -> Sequence[Vm]:
        return await self._describe(Filters=[{"Name": f"tag:{OWNER_LABEL}", "Values": [owner]}])

    async def _describe(self, **arguments: Any) -> Sequence[Vm]:
        found: list[Vm] = []
        while True:
            answer = await self._call("describe_instances", **arguments)
            for reservation in answer.get("Reservations") or ():
                found += [bodies.vm_of(each) for each in reservation.get("Instances") or ()]
            if not answer.get("NextToken"):
                return found
            arguments = {**arguments, "NextToken": answer["NextToken"]}

    # -- what is told about them -----------------------------------------------------------------

    def notices(self, owner: str) -> AsyncIterator[Notice]:
        async def taken() -> frozenset[str]:
            return frozenset()  # the state of an instance itself tells

        return polling.watch(
            lambda: self.list(owner),
            taken,
            interval=self._settings.look_s,
            clock=self._clock,
            pause=self._pause,
        )

    async def prices(self, machine_types: Sequence[str], zones: Sequence[str]) -> Sequence[Price]:
        history: list[Mapping[str, Any]] = []
        arguments: dict[str, Any] = {
            "InstanceTypes": list(machine_types),
            "ProductDescriptions": ["Linux/UNIX", "Linux/UNIX (Amazon VPC)"],
            "StartTime": self._clock(),  # what is valid now
            "Filters": [{"Name": "availability-zone", "Values": list(zones)}],
        }
        while True:
            answer = await self._call("describe_spot_price_history", **arguments)
            history += answer.get("SpotPriceHistory") or ()
            if not answer.get("NextToken"):
                break
            arguments["NextToken"] = answer["NextToken"]
        return [
            *bodies.prices_of(history),
            *listed(self._settings.on_demand, machine_types, zones),
        ]

    async def hazards(self, machine_types: Sequence[str], zones: Sequence[str]) -> Sequence[Hazard]:
        client = RestClient(self._settings.advisor, StaticToken(""), self._settings.patience)
        try:
            text = await client.fetch_text(self._settings.advisor)
        finally:
            await client.close()
        regions = dict.fromkeys(bodies.region_of(zone) for zone in zones)
        try:
            advisor = load_json(text.encode())
        except ValueError as error:
            raise Transient("the spot advisor's answer is no JSON") from error
        return bodies.advisor_hazards(advisor, machine_types, regions)

    async def host_keys(self, ref: VmRef) -> Sequence[str]:
        """As cloud-init writes them to the serial console."""
        answer = await self._call("get_console_output", InstanceId=ref.id, Latest=False)
        text = answer.get("Output") or ""
        return host_keys_of(_console(text))

    async def close(self) -> None:
        await asyncio.to_thread(self._ec2.close)

    async def _call(self, operation: str, **arguments: Any) -> Mapping[str, Any]:
        """Call one operation of EC2 in a thread; raises CloudError."""
        from botocore import exceptions

        method = getattr(self._ec2, operation)
        try:
            answer: Mapping[str, Any] = await asyncio.to_thread(method, **arguments)
        except exceptions.ClientError as error:
            raise _refusal(error.response) from error
        except (exceptions.NoCredentialsError, exceptions.PartialCredentialsError) as error:
            raise AccountRefused(f"no credentials for AWS: {error}", scope=Scope.CLOUD) from error
        except exceptions.ParamValidationError as error:
            raise BadRequest(str(error)) from error
        except (exceptions.BotoCoreError, OSError) as error:
            raise Transient(f"EC2 did not answer {operation} properly: {error!r}") from error
        return answer


def _refusal(response: Mapping[str, Any]) -> CloudError:
    error = response.get("Error") or {}
    status = int((response.get("ResponseMetadata") or {}).get("HTTPStatusCode") or 0)
    code, message = str(error.get("Code", "")), str(error.get("Message", ""))
    return codes.error_for(codes.AWS, code, message, status=status)


def _console(text: str) -> str:
    """boto3 has decoded it, or not, by version."""
    if "BEGIN SSH" in text:
        return text
    try:
        return base64.b64decode(text, validate=True).decode(errors="replace")
    except ValueError:
        return text


def _client(settings: AwsSettings, credentials: AwsCredentials | None) -> Any:
    try:
        import boto3
        from botocore.config import Config
    except ImportError as error:
        raise MissingLibrary(
            "AWS needs boto3: install corral with the extra `aws` (pip install 'corral[aws]')"
        ) from error
    patience = settings.patience
    config = Config(
        region_name=settings.region,
        connect_timeout=patience.request_s,
        read_timeout=patience.request_s,
        retries={"mode": "standard", "total_max_attempts": patience.attempts},
    )
    keys = {}
    if credentials is not None:
        keys = {
            "aws_access_key_id": credentials.access_key,
            "aws_secret_access_key": credentials.secret_key,
            "aws_session_token": credentials.session_token or None,
        }
    return boto3.session.Session().client(
        "ec2", endpoint_url=settings.endpoint, config=config, **keys
    )
