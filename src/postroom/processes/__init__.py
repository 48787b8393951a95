"""Child processes that run a shell command and do not outlive the process that started them.

The workers of the rooms and the notifier call this package. It must not know the store or any room.
"""
