-- Notification deliveries: the log a merchant reads and the queue of what is to be sent.

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
    -- The body as it was when the delivery was enqueued: the same bytes on every attempt.
    payload         BLOB    NOT NULL,
    PRIMARY KEY (merchant_id, delivery_id)
) STRICT;

CREATE INDEX deliveries_listed ON deliveries (merchant_id, created_at, delivery_id);
CREATE INDEX deliveries_listed_by_status ON deliveries (merchant_id, status, created_at, delivery_id);
