-- A payment has a number in the order in which payments came, and what belongs to it lies by that number. Its id
-- is in no order: indexes that it leads were written all over, a page for each payment and step. By their
-- numbers, payments that go their way together share pages, however many there are.

CREATE TABLE numbered (
    number          INTEGER NOT NULL PRIMARY KEY,
    merchant_id     BLOB    NOT NULL,
    payment_id      BLOB    NOT NULL,
    payin_source    TEXT    NOT NULL,
    payin_reference TEXT    NOT NULL,
    state           TEXT    NOT NULL,
    version         INTEGER NOT NULL CHECK (version > 0),
    reason          TEXT,
    blocked         TEXT,
    provider        TEXT,
    created_at      INTEGER NOT NULL,
    -- When it came to its state.
    changed_at      INTEGER NOT NULL,
    -- When the engine has to do something about it; null when nothing is to be done.
    due_at          INTEGER,
    -- Whether somebody may still have to look at it: the engine, or an operator.
    is_open         INTEGER NOT NULL CHECK (
        is_open = (state NOT IN ('completed', 'refunded') OR due_at IS NOT NULL)),
    -- What came in, as it was given. It never changes.
    request         TEXT    NOT NULL,
    -- What the engine remembers of the way so far.
    progress        TEXT    NOT NULL,
    -- What it has in common with another that is likely the same once more.
    likeness        BLOB,
    UNIQUE (merchant_id, payment_id)
) STRICT;

INSERT INTO numbered (merchant_id, payment_id, payin_source, payin_reference, state, version, reason, blocked,
                      provider, created_at, changed_at, due_at, is_open, request, progress, likeness)
SELECT merchant_id, payment_id, payin_source, payin_reference, state, version, reason, blocked,
       provider, created_at, changed_at, due_at, is_open, request, progress, likeness
FROM payments ORDER BY rowid;

DROP TABLE payments;
ALTER TABLE numbered RENAME TO payments;

CREATE UNIQUE INDEX payments_payin ON payments (payin_source, payin_reference);
CREATE INDEX payments_open ON payments (merchant_id, due_at, payment_id) WHERE is_open;
CREATE INDEX payments_alike ON payments (merchant_id, created_at / 86400000000, likeness, created_at)
WHERE likeness IS NOT NULL;

CREATE TABLE numbered (
    payment_number  INTEGER NOT NULL PRIMARY KEY,
    pricing         TEXT    NOT NULL
) STRICT;

INSERT INTO numbered
SELECT p.number, own.pricing
FROM payments AS p CROSS JOIN payment_pricing AS own USING (merchant_id, payment_id) ORDER BY p.number;

DROP TABLE payment_pricing;
ALTER TABLE numbered RENAME TO payment_pricing;

CREATE TABLE numbered (
    payment_number  INTEGER NOT NULL,
    number          INTEGER NOT NULL,
    at              INTEGER NOT NULL,
    step            TEXT    NOT NULL,
    PRIMARY KEY (payment_number, number)
) STRICT;

INSERT INTO numbered
SELECT p.number, own.number, own.at, own.step
FROM payments AS p CROSS JOIN payment_steps AS own USING (merchant_id, payment_id)
ORDER BY p.number, own.number;

DROP TABLE payment_steps;
ALTER TABLE numbered RENAME TO payment_steps;

CREATE TABLE numbered (
    payment_number  INTEGER NOT NULL,
    kind            TEXT    NOT NULL CHECK (kind IN ('conversion', 'payout', 'refund')),
    attempt         INTEGER NOT NULL CHECK (attempt > 0),
    operation_id    BLOB    NOT NULL,
    provider        TEXT    NOT NULL,
    status          TEXT    NOT NULL,
    is_live         INTEGER NOT NULL CHECK (
        NOT is_live OR status NOT IN ('refused', 'given_up')),
    -- Conversions bring money to us, payouts and refunds away: never two of the same kind.
    direction       TEXT    NOT NULL GENERATED ALWAYS AS (
        CASE kind WHEN 'conversion' THEN 'in' ELSE 'out' END) VIRTUAL,
    prepared_at     INTEGER NOT NULL,
    -- The request in full, and what was learnt of its fate.
    request         TEXT    NOT NULL,
    memory          TEXT    NOT NULL,
    PRIMARY KEY (payment_number, kind, attempt)
) STRICT;

INSERT INTO numbered (payment_number, kind, attempt, operation_id, provider, status, is_live, prepared_at,
                      request, memory)
SELECT p.number, own.kind, own.attempt, own.operation_id, own.provider, own.status, own.is_live,
       own.prepared_at, own.request, own.memory
FROM payments AS p CROSS JOIN operations AS own USING (merchant_id, payment_id)
ORDER BY p.number, own.kind, own.attempt;

DROP TABLE operations;
ALTER TABLE numbered RENAME TO operations;

CREATE UNIQUE INDEX operations_by_id ON operations (operation_id);
CREATE UNIQUE INDEX operations_live ON operations (payment_number, direction) WHERE is_live;
