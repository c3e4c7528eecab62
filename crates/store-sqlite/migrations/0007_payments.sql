-- Payments on their way through the engine, their timeline, what was asked of providers, and the books.
--
-- There is no foreign key to merchants: a transaction that writes here has locked the merchant.

-- A step of a payment writes its row anew. `due_at` is indexed and so stays in the past while the engine has the
-- payment in hand. Differs because ids of payments are in no order of time: a table with a rowid keeps rows
-- together that change together.
CREATE TABLE payments (
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
    PRIMARY KEY (merchant_id, payment_id)
) STRICT;

-- The same pay-in is never two payments, whoever's they are. The one index of what grows that the merchant does
-- not lead, besides the one of operations by their id.
CREATE UNIQUE INDEX payments_payin ON payments (payin_source, payin_reference);

CREATE INDEX payments_open ON payments (merchant_id, due_at, payment_id) WHERE is_open;

-- When the first payment of a merchant is due. It may be early, as `merchant_counts.next_due_at` may be.
CREATE TABLE payment_queues (
    merchant_id     BLOB    NOT NULL PRIMARY KEY,
    shard           INTEGER NOT NULL GENERATED ALWAYS AS (
        (instr('0123456789ABCDEF', substr(hex(merchant_id), 31, 1)) - 1) % 4 * 16
        + instr('0123456789ABCDEF', substr(hex(merchant_id), 32, 1)) - 1
    ) VIRTUAL,
    next_due_at     INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX payment_queues_due ON payment_queues (shard, next_due_at) WHERE next_due_at IS NOT NULL;

-- What the operator earns on a payment. No statement of a merchant's request names this table.
CREATE TABLE payment_pricing (
    merchant_id     BLOB    NOT NULL,
    payment_id      BLOB    NOT NULL,
    pricing         TEXT    NOT NULL,
    PRIMARY KEY (merchant_id, payment_id)
) STRICT, WITHOUT ROWID;

-- The timeline: what happened, why, by whom, and what was posted.
CREATE TABLE payment_steps (
    merchant_id     BLOB    NOT NULL,
    payment_id      BLOB    NOT NULL,
    number          INTEGER NOT NULL,
    at              INTEGER NOT NULL,
    step            TEXT    NOT NULL,
    PRIMARY KEY (merchant_id, payment_id, number)
) STRICT;

-- What was asked of providers. An operation that is neither refused nor given up is live, and may have moved
-- money: of a payment there is at most one live conversion, and one live payout or refund. One that moved after
-- its payment had gone on without it is not live: what was learnt of it must be stored all the same.
CREATE TABLE operations (
    merchant_id     BLOB    NOT NULL,
    payment_id      BLOB    NOT NULL,
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
    PRIMARY KEY (merchant_id, payment_id, kind, attempt)
) STRICT;

-- A provider names nothing but the operation.
CREATE UNIQUE INDEX operations_by_id ON operations (operation_id);

CREATE UNIQUE INDEX operations_live ON operations (merchant_id, payment_id, direction) WHERE is_live;

-- A merchant's accounts. A posting has a sign, and all of a step sum to zero in each asset.
CREATE TABLE balances (
    merchant_id     BLOB    NOT NULL,
    account         TEXT    NOT NULL,
    asset           TEXT    NOT NULL,
    amount          TEXT    NOT NULL,
    PRIMARY KEY (merchant_id, account, asset)
) STRICT, WITHOUT ROWID;
