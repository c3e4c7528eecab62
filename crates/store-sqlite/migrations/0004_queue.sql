-- The queue of what is to be sent, and who may send.

-- A settlement never changes, and the notification is made of it: a copy of the body would be written with every
-- attempt.
ALTER TABLE deliveries DROP COLUMN payload;

-- A merchant's queue: its pending deliveries by the time they are due.
CREATE INDEX deliveries_due ON deliveries (merchant_id, next_attempt_at, delivery_id) WHERE status = 'pending';

-- When a merchant's first pending delivery is due, and the shard it is served in: the last bits of its id.
-- Differs because SQLite has no function for a byte: the last six bits are read from the hexadecimal digits.
ALTER TABLE merchant_counts ADD COLUMN shard INTEGER NOT NULL GENERATED ALWAYS AS (
    (instr('0123456789ABCDEF', substr(hex(merchant_id), 31, 1)) - 1) % 4 * 16
    + instr('0123456789ABCDEF', substr(hex(merchant_id), 32, 1)) - 1
) VIRTUAL;
ALTER TABLE merchant_counts ADD COLUMN next_due_at INTEGER;

CREATE INDEX merchant_counts_due ON merchant_counts (shard, next_due_at) WHERE next_due_at IS NOT NULL;

UPDATE merchant_counts SET next_due_at = (
    SELECT min(next_attempt_at) FROM deliveries
    WHERE deliveries.merchant_id = merchant_counts.merchant_id AND status = 'pending'
);

-- Who serves which merchants. The token is new whenever a shard changes hands. Differs because on SQLite one
-- process sends, and a lock on a file says which: nobody else need be written down.
CREATE TABLE queue_shards (
    shard         INTEGER NOT NULL PRIMARY KEY,
    dispatcher_id BLOB,
    token         BLOB,
    CHECK ((dispatcher_id IS NULL) = (token IS NULL))
) STRICT;

INSERT INTO queue_shards (shard)
WITH RECURSIVE shards (shard) AS (SELECT 0 UNION ALL SELECT shard + 1 FROM shards WHERE shard < 63)
SELECT shard FROM shards;
