-- The queue of what is to be sent, and who may send.

-- A settlement never changes, and the notification is made of it: a copy of the body would be written with every
-- attempt.
ALTER TABLE deliveries DROP COLUMN payload;

-- A merchant's queue: its pending deliveries by the time they are due.
CREATE INDEX deliveries_due ON deliveries (merchant_id, next_attempt_at, delivery_id) WHERE status = 'pending';

-- When a merchant's first pending delivery is due, and the shard it is served in: the last bits of its id.
ALTER TABLE merchant_counts
    ADD COLUMN shard smallint NOT NULL
        GENERATED ALWAYS AS (get_byte(uuid_send(merchant_id), 15) % 64) STORED,
    ADD COLUMN next_due_at timestamptz;

CREATE INDEX merchant_counts_due ON merchant_counts (shard, next_due_at) WHERE next_due_at IS NOT NULL;

UPDATE merchant_counts SET next_due_at = (
    SELECT min(next_attempt_at) FROM deliveries
    WHERE deliveries.merchant_id = merchant_counts.merchant_id AND status = 'pending'
);

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
