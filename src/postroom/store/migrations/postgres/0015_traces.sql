-- The trace in which a message was sent, as W3C Trace Context writes it.
ALTER TABLE messages ADD COLUMN traceparent text;
