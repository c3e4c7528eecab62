-- What of a payment nobody but the engine reads is text: the server would check at every step that it is JSON,
-- and never look into it. Rows of a payment are written in the order in which they come, so there is nothing to
-- gain by the numbers that SQLite has.

ALTER TABLE payments ALTER COLUMN request TYPE text, ALTER COLUMN progress TYPE text;
ALTER TABLE payment_steps ALTER COLUMN step TYPE text;
ALTER TABLE operations ALTER COLUMN request TYPE text, ALTER COLUMN memory TYPE text;
ALTER TABLE payment_pricing ALTER COLUMN pricing TYPE text;

-- A payment's pricing is written twice, at its quote and at its conversion: with room in its page the second
-- time touches no index.
ALTER TABLE payment_pricing SET (fillfactor = 60);
