-- The trace in which a task was given, or a result sent, as W3C Trace Context writes it.
ALTER TABLE tasks ADD COLUMN traceparent TEXT;
