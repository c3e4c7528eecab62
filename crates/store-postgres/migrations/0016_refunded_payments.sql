-- Operators look for what was refunded among all that were ever made. The index holds the few that were;
-- all others cost it nothing. It asks a column of its own and not the state: a step that changes what an
-- index asks makes entries in all indexes anew, and every step changes the state. The server computes the
-- column, because nodes of the version before may still write.

ALTER TABLE payments ADD COLUMN is_refunded boolean NOT NULL GENERATED ALWAYS AS (state = 'refunded') STORED;

CREATE INDEX payments_refunded ON payments (merchant_id, payment_id) WHERE is_refunded;
