-- Alerts of every kind, work that one process does at a time, and what providers and we do not agree on.

-- An alert is about a subject of a kind: an endpoint whose deliveries died, a reason, a provider. The whole
-- house's have the nil merchant.
ALTER TABLE alerts ADD COLUMN kind text NOT NULL DEFAULT 'deliveries.dead';
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
    name       text        PRIMARY KEY,
    due_at     timestamptz NOT NULL,
    -- Until when the process that took it is alone with it.
    held_until timestamptz NOT NULL,
    -- How far it is, in its own words.
    mark       text        NOT NULL
);

-- One comparison of a provider's operations with ours.
CREATE TABLE reports (
    report_id  uuid        PRIMARY KEY,
    provider   text        NOT NULL,
    -- What has changed there since then was compared.
    since      timestamptz NOT NULL,
    started_at timestamptz NOT NULL,
    ended_at   timestamptz,
    listed     bigint      NOT NULL DEFAULT 0,
    findings   bigint      NOT NULL DEFAULT 0
);

-- What the provider and we do not agree on, with both sides' words.
CREATE TABLE report_findings (
    report_id    uuid        NOT NULL,
    operation_id uuid        NOT NULL,
    kind         text        NOT NULL,
    merchant_id  uuid,
    payment_id   uuid,
    found_at     timestamptz NOT NULL,
    ours         json,
    theirs       json,
    PRIMARY KEY (report_id, operation_id, kind)
);

-- The operations that the provider has listed, while the report is made.
CREATE TABLE report_listed (
    report_id    uuid NOT NULL,
    operation_id uuid NOT NULL,
    PRIMARY KEY (report_id, operation_id)
);
