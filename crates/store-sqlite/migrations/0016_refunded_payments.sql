-- Operators look for what was refunded among all that were ever made. The index holds the few that were; a
-- step of any other payment does not touch it. Differs from PostgreSQL's, where an index that asks the
-- state would be written at every step.

CREATE INDEX payments_refunded ON payments (merchant_id, payment_id) WHERE state = 'refunded';
