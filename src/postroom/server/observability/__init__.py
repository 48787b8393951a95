"""Observation of a running server by its operators: log lines, metrics for Prometheus, and whether it is ready.

`http` and `rpc` report each request and verb here. No module of this package reads the content of a message.
"""
