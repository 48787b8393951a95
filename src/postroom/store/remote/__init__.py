"""A store behind a server: its verbs travel, its transactions stay there."""
