"""Secure aggregation: the server learns the sum of the updates and no single one.

Clients add masks to their integers that cancel in the sum (after Bonawitz et al., 2017): one per
pair of clients, agreed by X25519 without the server's knowledge, and one of their own. Seeds of
all masks are shared among the clients (Shamir), so that when some drop out, the others can
help to remove exactly what does not cancel. `Member` is the client's side, `Combiner` the
server's; both are plain objects with messages in and messages out, and no network in them.

It protects from a server that follows the protocol and is curious, and from fewer than
`threshold` colluding clients. It does not protect from clients that send a false sum: masked
updates cannot be inspected, so robust rules and secure aggregation exclude each other.
"""

from corral.learning.secure.combiner import Combiner
from corral.learning.secure.member import Member
from corral.learning.secure.messages import Hello, Masked, Revealed

__all__ = ["Combiner", "Hello", "Masked", "Member", "Revealed"]
