-- Who may send.

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
