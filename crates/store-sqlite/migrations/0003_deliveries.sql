-- Notification deliveries: the log a merchant reads and the queue of what is to be sent.
--
-- The body is not kept: a settlement never changes, and the notification is made of it. Delivery ids carry their
-- time to the microsecond: the log is in the order of its key, and the time of a delivery need not stand in an
-- index. Differs because on SQLite a table can be that index: a row is one entry less, and one look-up.

CREATE TABLE deliveries (
    merchant_id     BLOB    NOT NULL,
    delivery_id     BLOB    NOT NULL CHECK (length(delivery_id) = 16),
    settlement_id   BLOB    NOT NULL,
    event_type      TEXT    NOT NULL,
    status          TEXT    NOT NULL CHECK (status IN ('pending', 'delivered', 'dead')),
    attempts        INTEGER NOT NULL CHECK (attempts >= 0),
    created_at      INTEGER NOT NULL,
    delivered_at    INTEGER CHECK ((delivered_at IS NOT NULL) = (status = 'delivered')),
    next_attempt_at INTEGER NOT NULL,
    response_status INTEGER,
    last_error      TEXT,
    url             TEXT    NOT NULL,
    PRIMARY KEY (merchant_id, delivery_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX deliveries_listed_by_status ON deliveries (merchant_id, status, delivery_id);

-- A merchant's queue: its pending deliveries by the time they are due.
CREATE INDEX deliveries_due ON deliveries (merchant_id, next_attempt_at, delivery_id) WHERE status = 'pending';
