"""The PostgreSQL engine: one database server that many machines share.

`open_store` and `init_store` call it. It knows SQL and psycopg, and no rule of a room.
"""
