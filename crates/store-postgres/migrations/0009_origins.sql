-- Who says that a settlement is complete: 0 an operator, 1 an operator who had it recorded unchecked although its
-- own figures allow less than its outgoing amount, 2 the engine. No statement of a merchant's request names it.

ALTER TABLE settlements ADD COLUMN origin smallint NOT NULL DEFAULT 0 CHECK (origin BETWEEN 0 AND 2);
ALTER TABLE import_rows ADD COLUMN origin smallint NOT NULL DEFAULT 0 CHECK (origin BETWEEN 0 AND 1);

CREATE INDEX settlements_unchecked ON settlements (merchant_id, settlement_id) WHERE origin = 1;

-- A payment must find the settlements that operators recorded with its pay-in. Those of the engine are payments.
CREATE INDEX settlements_payins ON settlements (merchant_id, (record ->> 'payin_reference')) WHERE origin <> 2;

-- The pay-in's reference, of the record.
ALTER TABLE import_rows ADD COLUMN payin_reference text NOT NULL DEFAULT '';

-- The reference leads, so that no statement takes this index which looks for a settlement of the merchant.
CREATE INDEX import_rows_payins ON import_rows (payin_reference, merchant_id);

-- Whether the merchant has ever had a payment: whoever records a settlement of one that has not need not look.
ALTER TABLE merchant_counts ADD COLUMN has_payments boolean NOT NULL DEFAULT false;
