"""Questions to people: asking.py puts them and waits for answers, decisions.py holds proposals, question_sync.py copies them from threads.

The verbs of `postroom.people` are the interface. These modules know entries and threads, and nothing of HTTP, MCP or terminals.
"""
