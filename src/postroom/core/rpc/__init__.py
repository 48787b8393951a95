"""The declaration of verbs, the wire format of their arguments and results, and the rules of blocking verbs.

The rooms declare their verbs with this package. The remote store and the server read the declarations. It must not know HTTP, sockets
or SQL.
"""
