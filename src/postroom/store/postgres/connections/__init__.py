"""The connections of a store on PostgreSQL. The engine and its batches use them."""
