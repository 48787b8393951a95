"""Resident agents (`inbox agent run`): a program of an agent that is started for work and mail, and continued when an answer comes."""
