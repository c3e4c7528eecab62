-- Who may send, and how much waits.

-- Which keeper holds which shard of the merchants. A shard gets a new token whenever it changes hands.
-- Differs because on SQLite one process sends, the one that holds the lock on a file: there is no table of
-- keepers.
CREATE TABLE queue_shards (
    shard     INTEGER NOT NULL PRIMARY KEY,
    keeper_id BLOB,
    token     BLOB,
    CHECK ((keeper_id IS NULL) = (token IS NULL))
) STRICT;

INSERT INTO queue_shards (shard)
WITH RECURSIVE shards (shard) AS (SELECT 0 UNION ALL SELECT shard + 1 FROM shards WHERE shard < 63)
SELECT shard FROM shards;

-- How many deliveries of all merchants are pending and dead. Differs because there is one writer: one row.
CREATE TABLE delivery_totals (
    slot    INTEGER NOT NULL PRIMARY KEY CHECK (slot = 0),
    pending INTEGER NOT NULL CHECK (pending >= 0),
    dead    INTEGER NOT NULL CHECK (dead >= 0)
) STRICT;

INSERT INTO delivery_totals (slot, pending, dead) VALUES (0, 0, 0);
