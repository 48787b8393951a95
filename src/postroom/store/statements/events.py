"""The statements of events and agents that every verb of every room uses. A command of another room loads none of the work room."""

from __future__ import annotations

from postroom.core.records import Event
from postroom.store.tables import Query, Table, single_value

EVENTS = Table("events", Event.__fields__)

EVENT_INSERT_COLUMNS = ", ".join(EVENTS.columns[1:])  # without the id, which the database assigns
EVENT_INSERT_BINDS = f":{', :'.join(EVENTS.columns[1:])}"

event_append = f"INSERT INTO events ({EVENT_INSERT_COLUMNS}) VALUES ({EVENT_INSERT_BINDS})"

people_names_unless_known = Query(
    """
    SELECT name FROM agents WHERE kind = 'human' AND NOT EXISTS (SELECT 1 FROM agents WHERE name = :name) ORDER BY name LIMIT 1000""",
    single_value,
)
