-- What stands out although its state says that it is done: money that came back, or that moved without the
-- payment. Few rows have a flag, so the index is small, and a step that changes none does not touch it.

ALTER TABLE payments ADD COLUMN flag text;

-- Read as text: a row that is damaged stands in nobody's way.
UPDATE payments SET flag = 'returned' WHERE progress ~ '"is_returned": ?true';
UPDATE payments SET flag = 'astray' WHERE progress ~ '"moved": ?true';

CREATE INDEX payments_flagged ON payments (flag, merchant_id, payment_id) WHERE flag IS NOT NULL;
