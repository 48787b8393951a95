"""Channels: verbs.py adds them, planning.py stores an alert with each entry, queueing.py puts due alerts into mailboxes, content.py
prepares a message, links.py answers by a link.

The verbs of `postroom.people` are the interface. `postroom.outbound` sends the messages: these modules know nothing of a network.
"""
