"""The parts that all programs share: the parser, the help, shell completion, output and exit codes.

Each program passes its `CommandTable` to `runner`. Nothing here knows a single command or a room.
"""
