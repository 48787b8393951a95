"""Speed, measured side by side: `make bench` prints one table, each row a ratio or a bound that the issue set."""
