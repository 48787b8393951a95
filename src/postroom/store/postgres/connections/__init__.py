"""The connections of a store on PostgreSQL: the pool, and connections that send statements without waiting.

The engine and its batches use them. They must not know statements, tables or records.
"""
