-- Who says that a settlement is complete: 0 an operator, 1 an operator who had it recorded unchecked although its
-- own figures allow less than its outgoing amount, 2 the engine. No statement of a merchant's request names it.

ALTER TABLE settlements ADD COLUMN origin INTEGER NOT NULL DEFAULT 0 CHECK (origin BETWEEN 0 AND 2);
ALTER TABLE import_rows ADD COLUMN origin INTEGER NOT NULL DEFAULT 0 CHECK (origin BETWEEN 0 AND 1);

CREATE INDEX settlements_unchecked ON settlements (merchant_id, settlement_id) WHERE origin = 1;
