-- Alerts of every kind, work that one process does at a time, and what providers and we do not agree on.

-- An alert is about a subject of a kind: an endpoint whose deliveries died, a reason, a provider. The whole
-- house's have the nil merchant.
ALTER TABLE alerts ADD COLUMN kind TEXT NOT NULL DEFAULT 'deliveries.dead';
ALTER TABLE alerts RENAME COLUMN url TO subject;
ALTER TABLE alerts RENAME COLUMN deaths TO occurrences;
ALTER TABLE alerts RENAME COLUMN delivery_ids TO ids;
ALTER TABLE alerts RENAME COLUMN last_error TO last_text;

-- A subject has at most one alert that still counts, and one that is being sent.
DROP INDEX alerts_open;
DROP INDEX alerts_under_way;
DROP INDEX alerts_closed;
CREATE UNIQUE INDEX alerts_open ON alerts (merchant_id, kind, subject) WHERE closed_at IS NULL;
CREATE UNIQUE INDEX alerts_under_way ON alerts (merchant_id, kind, subject)
    WHERE closed_at IS NOT NULL AND sent_at IS NULL;
CREATE INDEX alerts_closed ON alerts (merchant_id, kind, subject, closed_at) WHERE closed_at IS NOT NULL;

-- Work that is done now and then, by one process of all: few rows, one for each kind of work.
CREATE TABLE jobs (
    name       TEXT    NOT NULL PRIMARY KEY,
    due_at     INTEGER NOT NULL,
    -- Until when the process that took it is alone with it.
    held_until INTEGER NOT NULL,
    -- How far it is, in its own words.
    mark       TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

-- One comparison of a provider's operations with ours.
CREATE TABLE reports (
    report_id  BLOB    NOT NULL PRIMARY KEY CHECK (length(report_id) = 16),
    provider   TEXT    NOT NULL,
    -- What has changed there since then was compared.
    since      INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at   INTEGER,
    listed     INTEGER NOT NULL DEFAULT 0,
    findings   INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

-- What the provider and we do not agree on, with both sides' words.
CREATE TABLE report_findings (
    report_id    BLOB    NOT NULL,
    operation_id BLOB    NOT NULL CHECK (length(operation_id) = 16),
    kind         TEXT    NOT NULL,
    merchant_id  BLOB,
    payment_id   BLOB,
    found_at     INTEGER NOT NULL,
    ours         TEXT,
    theirs       TEXT,
    PRIMARY KEY (report_id, operation_id, kind)
) STRICT, WITHOUT ROWID;

-- The operations that the provider has listed, while the report is made.
CREATE TABLE report_listed (
    report_id    BLOB NOT NULL,
    operation_id BLOB NOT NULL,
    PRIMARY KEY (report_id, operation_id)
) STRICT, WITHOUT ROWID;
