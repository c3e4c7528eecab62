-- What stands out although its state says that it is done: money that came back, or that moved without the
-- payment. Few rows have a flag, so the index is small, and a step that changes none does not touch it.

ALTER TABLE payments ADD COLUMN flag text;

UPDATE payments SET flag = CASE WHEN progress::json #>> '{late,moved}' = 'true' THEN 'astray' ELSE 'returned' END
WHERE progress::json #>> '{late,moved}' = 'true' OR progress::json ->> 'is_returned' = 'true';

CREATE INDEX payments_flagged ON payments (flag, merchant_id, payment_id) WHERE flag IS NOT NULL;
