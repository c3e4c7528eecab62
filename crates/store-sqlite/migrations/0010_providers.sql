-- Providers that operators have paused: nothing is sent to them, look-ups go on.
CREATE TABLE provider_pauses (
    provider  TEXT    PRIMARY KEY,
    paused_by TEXT    NOT NULL,
    paused_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The leases of those who settle payments, behind those of who sends: see `Duty` in the contract.
INSERT INTO queue_shards (shard)
WITH RECURSIVE shards (shard) AS (SELECT 64 UNION ALL SELECT shard + 1 FROM shards WHERE shard < 127)
SELECT shard FROM shards;
