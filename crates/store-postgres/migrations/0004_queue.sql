-- Who may send, and how much waits.

-- The processes that send. Each renews its lease, and holds the advisory lock with its key while it lives.
CREATE TABLE keepers (
    keeper_id   uuid        PRIMARY KEY,
    lock_key    integer     NOT NULL,
    lease_until timestamptz NOT NULL
);

-- Which keeper holds which shard of the merchants. A shard gets a new token whenever it changes hands.
CREATE TABLE queue_shards (
    shard     smallint PRIMARY KEY,
    keeper_id uuid,
    token     uuid,
    CHECK ((keeper_id IS NULL) = (token IS NULL))
);

INSERT INTO queue_shards (shard) SELECT generate_series(0, 63);

-- How many deliveries of all merchants are pending and dead: the sum of all rows. A transaction changes the one
-- of its session, so that two of them seldom wait for each other; one row alone may be negative.
CREATE TABLE delivery_totals (
    slot    integer PRIMARY KEY,
    pending bigint  NOT NULL DEFAULT 0,
    dead    bigint  NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

INSERT INTO delivery_totals (slot) SELECT generate_series(0, 255);
