"""The client of a Postroom server: a store that sends each verb to the server, which runs it in a transaction.

`open_store` makes one for the address of a server. It knows the wire format of verbs and the transports, but no SQL and no rule of a room.
"""
