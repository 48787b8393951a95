"""The runner of the notifier: the process that runs queued commands, fires timers, and supervises the handlers of queues.

`queues.notifier` starts it and writes its work into a database. No other package calls it.
"""
