-- The pay-in of a settlement that operators recorded, in a column of its own: an index over the record alone makes
-- SQLite parse the record once more for every settlement. What earlier versions have recorded has it in the record;
-- what the engine has completed is a payment, and is found as one.

ALTER TABLE settlements ADD COLUMN payin_reference TEXT;

DROP INDEX settlements_payins;
CREATE INDEX settlements_payins ON settlements (merchant_id, coalesce(payin_reference, record ->> 'payin_reference'))
    WHERE origin <> 2;
