"""A Kafka-protocol broker for one machine: any Kafka client speaks to it.

It guarantees: a record that was acknowledged is there after the process was killed, at the offset
that was told; an idempotent producer's record is there once. It does not replicate, has no
transactions, no compaction and no TLS, and does not advertise what it has not. In a cluster every
namespace logs in, and has topics, groups and limits of its own.

* :mod:`storage` keeps record batches as they come: segments, indexes, what producers sent last;
* :mod:`groups` is the group coordinator: a state machine without I/O, and committed offsets;
* :mod:`wire` turns bytes into requests and answers into bytes, within limits;
* :mod:`api` answers each request;
* :mod:`tenants` keeps namespaces apart, :mod:`logins`, :mod:`namespaces` and :mod:`secrets` say who
  they are, :mod:`turns` shares the loop between them;
* :mod:`server` holds them together, :mod:`process` runs it.

Read docs/broker.md, then :mod:`server`.
"""
