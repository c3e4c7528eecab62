-- Notification deliveries: the log that a merchant reads, and the queue of deliveries to send.
--
-- The body is not stored: it is made of the settlement, which never changes. Delivery ids carry their time to
-- the microsecond, so the primary key is the order of the log, and no index on the time is needed. Differs
-- because SQLite can store the rows in the primary key: one entry less to write, and one look-up to read.

CREATE TABLE deliveries (
    merchant_id     BLOB    NOT NULL,
    delivery_id     BLOB    NOT NULL CHECK (length(delivery_id) = 16),
    settlement_id   BLOB    NOT NULL,
    event_type      TEXT    NOT NULL,
    status          TEXT    NOT NULL CHECK (status IN ('pending', 'delivered', 'dead')),
    attempts        INTEGER NOT NULL CHECK (attempts >= 0),
    -- The merchant's epoch when it last became pending. A pending row of an earlier epoch is never sent.
    endpoint_epoch  INTEGER NOT NULL,
    created_at      INTEGER NOT NULL,
    delivered_at    INTEGER CHECK ((delivered_at IS NOT NULL) = (status = 'delivered')),
    next_attempt_at INTEGER NOT NULL,
    response_status INTEGER,
    last_error      TEXT,
    url             TEXT    NOT NULL,
    PRIMARY KEY (merchant_id, delivery_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX deliveries_listed_by_status ON deliveries (merchant_id, status, delivery_id);

-- A merchant's queue: its pending deliveries by the time they are due. The epoch leads, so that a claim finds
-- those of the present one without a walk over those that an endpoint left behind when it was cleared.
CREATE INDEX deliveries_due ON deliveries (merchant_id, endpoint_epoch, next_attempt_at, delivery_id)
    WHERE status = 'pending';

-- What is left to do where an endpoint was cleared while many deliveries waited: the pending rows of an earlier
-- epoch, which become dead step by step, in the order of deliveries_due. Differs because SQLite takes a row out
-- of the index at once: a step need not know where the one before has ended.
CREATE TABLE clearings (
    merchant_id    BLOB    NOT NULL,
    endpoint_epoch INTEGER NOT NULL,
    cleared_at     INTEGER NOT NULL,
    waiting        INTEGER NOT NULL CHECK (waiting > 0),
    PRIMARY KEY (merchant_id, endpoint_epoch)
) STRICT, WITHOUT ROWID;
