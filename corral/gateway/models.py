"""Models of registries for callers: streamed, with the caller's own token, never kept.

Only registries that the gateway was told of are asked: a reference in an object is what somebody
wrote there, and must not lead the gateway to any other host. The token is shown to the cluster's
own registry and to no other.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from corral.gateway.auth import Caller
from corral.gateway.problems import Refused

if TYPE_CHECKING:
    from corral.oci import Artifacts, Descriptor, Reference, RegistryError

__all__ = ["Model", "Models"]

_LAYER: Final = "application/vnd.corral.update.v1+safetensors"
_MODEL: Final = "application/vnd.corral.update.v1"


@dataclass(frozen=True, slots=True)
class Model:
    """The first layer of an artifact."""

    size: int
    digest: str
    content: AsyncGenerator[bytes, None]
    """Close it where it is not read to its end; it raises where the bytes are not the digest's."""


class Models:
    """Reads artifacts of the registries of some ``NAME=URL`` pairs."""

    def __init__(self, pairs: Iterable[str] = ()) -> None:
        """Raises RegistryError where a pair is malformed."""
        from corral.oci.registries import endpoints

        self._pairs = tuple(pairs)
        self._known = set(endpoints(self._pairs)) if self._pairs else set()

    async def open(self, caller: Caller, text: str) -> Model:
        """The model that a reference names.

        Raises:
            Refused: there is none, or it cannot be had from here.
        """
        from corral.oci import RegistryError

        ref = self._reference(text)
        try:
            async with self._artifacts(caller) as artifacts:
                manifest = await artifacts.manifest(ref)
        except RegistryError as error:
            raise _told(error, text) from error
        if not manifest.layers:
            raise Refused("not-found", f"{text} has no layers")
        layer = manifest.layers[0]
        return Model(layer.size, layer.digest, self._content(caller, ref, layer))

    async def push(self, caller: Caller, *, beside: str, where: str, file: Path) -> str:
        """Keep a file as a model in the registry of another one; its reference.

        ``where`` is the path in that registry, with a tag.

        Raises:
            Refused: it cannot be kept there.
        """
        from corral.oci import Layer, Reference, RegistryError

        other = self._reference(beside)
        try:
            ref = Reference.parse(f"{other.registry}/{where}")
            async with self._artifacts(caller) as artifacts:
                pushed = await artifacts.push(
                    ref, [Layer(_LAYER, file)], artifact_type=_MODEL, annotations={}
                )
        except RegistryError as error:
            raise _told(error, f"{other.registry}/{where}") from error
        return f"oci://{pushed.reference}" if beside.startswith("oci://") else str(pushed.reference)

    def _reference(self, text: str) -> Reference:
        """What a text names, in a registry that is known. Raises Refused."""
        from corral.oci import Reference, RegistryError

        try:
            ref = Reference.parse(text.removeprefix("oci://"))
        except RegistryError as error:
            raise _told(error, text) from error
        if ref.registry not in self._known:
            detail = (
                f"the model is {text}, and this gateway was not told where {ref.registry} is "
                "(`corral gateway --registry-map NAME=URL`): pull it from the registry itself"
            )
            raise Refused("not-found", detail)
        return ref

    def _artifacts(self, caller: Caller) -> Artifacts:
        from corral.oci import Artifacts, Registries
        from corral.oci.registries import endpoints

        return Artifacts(Registries(endpoints(self._pairs, token=lambda: caller.token)))

    async def _content(
        self, caller: Caller, ref: Reference, layer: Descriptor
    ) -> AsyncGenerator[bytes, None]:
        from corral.oci import RegistryError

        async with self._artifacts(caller) as artifacts:
            try:
                async with aclosing(artifacts.stream(ref, layer)) as parts:
                    async for part in parts:
                        yield part
            except RegistryError as error:
                raise _told(error, str(ref)) from error


def _told(error: RegistryError, text: str) -> Refused:
    from corral.oci import Denied, InvalidReference, NotFound, Unavailable

    detail = f"{text} cannot be had: {error}"
    match error:
        case NotFound() | InvalidReference():
            return Refused("not-found", detail)
        case Denied():
            return Refused("forbidden", detail)
        case Unavailable():
            return Refused("unavailable", detail)
        case _:
            return Refused("bad-upstream", detail)
