"""Send alerts to people who are away: sender.py is the loop, __main__.py the process that sends one alert.

The server and `inbox channel run` start the loop. This package is the only one below the server that opens connections to other machines.
The room `people` decides what is sent, and when.
"""
