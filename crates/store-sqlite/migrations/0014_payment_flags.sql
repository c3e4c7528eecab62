-- What stands out although its state says that it is done: money that came back, or that moved without the
-- payment. Few rows have a flag, so the index is small, and a step that changes none does not touch it.

ALTER TABLE payments ADD COLUMN flag TEXT;

UPDATE payments SET flag = CASE WHEN progress ->> '$.late.moved' THEN 'astray' ELSE 'returned' END
WHERE progress ->> '$.late.moved' OR progress ->> '$.is_returned';

CREATE INDEX payments_flagged ON payments (flag, merchant_id, payment_id) WHERE flag IS NOT NULL;
