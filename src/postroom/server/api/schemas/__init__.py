"""The OpenAPI and AsyncAPI descriptions of the server. `server.app` serves them, and docs/make_reference.py writes them to files.

They are built from the records in `core` and from constants of the server. They know nothing of handlers or of the store.
"""
