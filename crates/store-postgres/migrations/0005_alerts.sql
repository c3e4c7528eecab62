-- Alerts to operators about deliveries that died.

CREATE TABLE alerts (
    merchant_id  uuid        NOT NULL,
    alert_id     uuid        NOT NULL,
    url          text        NOT NULL,
    deaths       bigint      NOT NULL CHECK (deaths > 0),
    delivery_ids uuid[]      NOT NULL,
    last_error   text        NOT NULL,
    first_at     timestamptz NOT NULL,
    last_at      timestamptz NOT NULL,
    due_at       timestamptz NOT NULL,
    attempts     integer     NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    -- When the alerter first took the alert. A closed alert takes no more deaths.
    closed_at    timestamptz CHECK ((closed_at IS NOT NULL) = (attempts > 0)),
    sent_at      timestamptz CHECK (sent_at IS NULL OR closed_at IS NOT NULL),
    PRIMARY KEY (merchant_id, alert_id)
);

-- An endpoint has at most one alert that still counts deaths, and one that is being sent.
CREATE UNIQUE INDEX alerts_open ON alerts (merchant_id, url) WHERE closed_at IS NULL;
CREATE UNIQUE INDEX alerts_under_way ON alerts (merchant_id, url) WHERE closed_at IS NOT NULL AND sent_at IS NULL;
CREATE INDEX alerts_closed ON alerts (merchant_id, url, closed_at) WHERE closed_at IS NOT NULL;
CREATE INDEX alerts_due ON alerts (due_at) WHERE sent_at IS NULL;
