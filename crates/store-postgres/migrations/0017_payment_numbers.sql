-- A payment has a number, roughly in the order in which payments came, and what belongs to it lies by that number.
-- Its id is in no order: by the id, every payment wrote a page of its own in each index, and once the indexes were
-- larger than the server's memory those pages had to be read and written again and again. By the number, payments of
-- a merchant that go their way together share pages, however many there are. (0013 saw nothing to gain by numbers:
-- that is so while all indexes have room in memory.)
--
-- Nobody asks for a payment by its number, so no index has it. If it were ever given twice to one merchant, the key of
-- the steps would refuse the second payment's first.
--
-- Nodes of the version before can neither read nor write what belongs to payments after this step: their payments
-- wait, and nothing is sent.

ALTER TABLE payments ADD COLUMN number bigint NOT NULL GENERATED ALWAYS AS IDENTITY;

-- The tables stay, with what roles were granted on them. Their keys go first: to write every row anew under the keys
-- that are about to go would take far longer. What belongs to no payment was damaged by hand.
ALTER TABLE payment_pricing DROP CONSTRAINT payment_pricing_pkey, ADD COLUMN payment_number bigint;
UPDATE payment_pricing AS own SET payment_number = p.number FROM payments AS p
WHERE p.merchant_id = own.merchant_id AND p.payment_id = own.payment_id;
DELETE FROM payment_pricing WHERE payment_number IS NULL;
ALTER TABLE payment_pricing ADD PRIMARY KEY (merchant_id, payment_number), DROP COLUMN payment_id;

ALTER TABLE payment_steps DROP CONSTRAINT payment_steps_pkey, ADD COLUMN payment_number bigint;
UPDATE payment_steps AS own SET payment_number = p.number FROM payments AS p
WHERE p.merchant_id = own.merchant_id AND p.payment_id = own.payment_id;
DELETE FROM payment_steps WHERE payment_number IS NULL;
ALTER TABLE payment_steps ADD PRIMARY KEY (merchant_id, payment_number, number), DROP COLUMN payment_id;

-- Who asks by an operation's id wants to know the payment's: that column stays. So does an operation of no payment,
-- under a number that no payment has: a reconciliation compares it, because it may have moved money.
DROP INDEX operations_by_id;
DROP INDEX operations_live;
ALTER TABLE operations DROP CONSTRAINT operations_pkey, ADD COLUMN payment_number bigint;
UPDATE operations AS own SET payment_number = p.number FROM payments AS p
WHERE p.merchant_id = own.merchant_id AND p.payment_id = own.payment_id;
UPDATE operations AS own SET payment_number = -lost.number
FROM (
    SELECT merchant_id, payment_id, row_number() OVER (ORDER BY merchant_id, payment_id) AS number
    FROM operations WHERE payment_number IS NULL GROUP BY merchant_id, payment_id
) AS lost
WHERE lost.merchant_id = own.merchant_id AND lost.payment_id = own.payment_id;
ALTER TABLE operations ADD PRIMARY KEY (merchant_id, payment_number, kind, attempt);
CREATE UNIQUE INDEX operations_by_id ON operations (operation_id);
CREATE UNIQUE INDEX operations_live ON operations (merchant_id, payment_number, direction) WHERE is_live;
