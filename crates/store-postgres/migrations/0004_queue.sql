-- Who may send.

-- Who sends: a process that renews its lease, and holds the advisory lock with its key as long as it lives.
CREATE TABLE dispatchers (
    dispatcher_id uuid        PRIMARY KEY,
    lock_key      integer     NOT NULL,
    lease_until   timestamptz NOT NULL
);

-- Who serves which merchants. The token is new whenever a shard changes hands.
CREATE TABLE queue_shards (
    shard         smallint PRIMARY KEY,
    dispatcher_id uuid,
    token         uuid,
    CHECK ((dispatcher_id IS NULL) = (token IS NULL))
);

INSERT INTO queue_shards (shard) SELECT generate_series(0, 63);
