"""Service addresses of the cluster on a node: which pods are behind them, and the proxy."""
