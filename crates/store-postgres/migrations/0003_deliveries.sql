-- Notification deliveries: the log a merchant reads and the queue of what is to be sent.

CREATE TABLE deliveries (
    merchant_id     uuid        NOT NULL,
    delivery_id     uuid        NOT NULL,
    settlement_id   uuid        NOT NULL,
    event_type      text        NOT NULL,
    status          text        NOT NULL CHECK (status IN ('pending', 'delivered', 'dead')),
    attempts        integer     NOT NULL CHECK (attempts >= 0),
    created_at      timestamptz NOT NULL,
    delivered_at    timestamptz CHECK ((delivered_at IS NOT NULL) = (status = 'delivered')),
    next_attempt_at timestamptz NOT NULL,
    response_status integer,
    last_error      text,
    url             text        NOT NULL,
    -- The body as it was when the delivery was enqueued: the same bytes on every attempt.
    payload         bytea       NOT NULL,
    PRIMARY KEY (merchant_id, delivery_id)
);

CREATE INDEX deliveries_listed ON deliveries (merchant_id, created_at, delivery_id);
CREATE INDEX deliveries_listed_by_status ON deliveries (merchant_id, status, created_at, delivery_id);
