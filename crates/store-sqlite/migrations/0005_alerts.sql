-- Alerts to operators about deliveries that died.

CREATE TABLE alerts (
    merchant_id  BLOB    NOT NULL CHECK (length(merchant_id) = 16),
    alert_id     BLOB    NOT NULL CHECK (length(alert_id) = 16),
    url          TEXT    NOT NULL,
    deaths       INTEGER NOT NULL CHECK (deaths > 0),
    -- Differs because SQLite has no arrays: hyphenated ids, separated by commas.
    delivery_ids TEXT    NOT NULL,
    last_error   TEXT    NOT NULL,
    first_at     INTEGER NOT NULL,
    last_at      INTEGER NOT NULL,
    due_at       INTEGER NOT NULL,
    attempts     INTEGER NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    -- When the alerter first took the alert. A closed alert takes no more deaths.
    closed_at    INTEGER CHECK ((closed_at IS NOT NULL) = (attempts > 0)),
    sent_at      INTEGER CHECK (sent_at IS NULL OR closed_at IS NOT NULL),
    PRIMARY KEY (merchant_id, alert_id)
) STRICT;

-- An endpoint has at most one alert that still counts deaths, and one that is being sent.
CREATE UNIQUE INDEX alerts_open ON alerts (merchant_id, url) WHERE closed_at IS NULL;
CREATE UNIQUE INDEX alerts_under_way ON alerts (merchant_id, url) WHERE closed_at IS NOT NULL AND sent_at IS NULL;
CREATE INDEX alerts_closed ON alerts (merchant_id, url, closed_at) WHERE closed_at IS NOT NULL;
CREATE INDEX alerts_due ON alerts (due_at) WHERE sent_at IS NULL;
