"""Files beside a database: their permissions and owners, files that only their owner reads, and the JSONL mirror of rows.

Engines and rooms call it. It knows files, and neither SQL nor what a line means.
"""
