-- Variables for handlers. The queue document defines the other tables, so a queue gets this one when a subscription first names a variable.

CREATE TABLE subscription_environment (
  consumer_id TEXT NOT NULL,
  name TEXT NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (consumer_id, name)
);
