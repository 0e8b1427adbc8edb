"""REST and gRPC views of one service layer, with the caller's own token."""
