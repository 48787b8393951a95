"""The values of document 003: cards, tasks and inboxes in memory, their text for a prompt, and the answers found in an agent's text.

The conductor and the commands call it. It must not know the store.
"""
