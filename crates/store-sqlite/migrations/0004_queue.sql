-- Who may send.

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
