-- Variables for commands, as a JSON object.

ALTER TABLE tasks ADD COLUMN environment_json TEXT NOT NULL DEFAULT '{}';
ALTER TABLE timers ADD COLUMN environment_json TEXT NOT NULL DEFAULT '{}';
