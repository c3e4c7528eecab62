-- Notification deliveries: the log that a merchant reads, and the queue of deliveries to send.
--
-- The body is not stored: it is made of the settlement, which never changes. Delivery ids carry their time to
-- the microsecond, so the primary key is the order of the log, and no index on the time is needed.

CREATE TABLE deliveries (
    merchant_id     uuid        NOT NULL,
    delivery_id     uuid        NOT NULL,
    settlement_id   uuid        NOT NULL,
    event_type      text        NOT NULL,
    status          text        NOT NULL CHECK (status IN ('pending', 'delivered', 'dead')),
    attempts        integer     NOT NULL CHECK (attempts >= 0),
    -- The merchant's epoch when it last became pending. A pending row of an earlier epoch is never sent.
    endpoint_epoch  integer     NOT NULL,
    created_at      timestamptz NOT NULL,
    delivered_at    timestamptz CHECK ((delivered_at IS NOT NULL) = (status = 'delivered')),
    next_attempt_at timestamptz NOT NULL,
    response_status integer,
    last_error      text,
    url             text        NOT NULL,
    PRIMARY KEY (merchant_id, delivery_id)
);

CREATE INDEX deliveries_listed_by_status ON deliveries (merchant_id, status, delivery_id);

-- A merchant's queue: its pending deliveries by the time they are due. The epoch leads, so that a claim finds
-- those of the present one without a walk over those that an endpoint left behind when it was cleared.
CREATE INDEX deliveries_due ON deliveries (merchant_id, endpoint_epoch, next_attempt_at, delivery_id)
    WHERE status = 'pending';

-- What is left to do where an endpoint was cleared while many deliveries waited: the pending rows of an earlier
-- epoch, which become dead step by step, in the order of deliveries_due. A step starts behind the last row of
-- the step before: a walk over what that one left in the index would get longer with every step.
CREATE TABLE clearings (
    merchant_id       uuid        NOT NULL,
    endpoint_epoch    integer     NOT NULL,
    cleared_at        timestamptz NOT NULL,
    waiting           bigint      NOT NULL CHECK (waiting > 0),
    after_due_at      timestamptz NOT NULL,
    after_delivery_id uuid        NOT NULL,
    PRIMARY KEY (merchant_id, endpoint_epoch)
);
