"""What processes that listen share: sockets, limits on connections, health and metrics."""
