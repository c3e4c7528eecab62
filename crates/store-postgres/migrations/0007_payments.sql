-- Payments on their way through the engine, their timeline, what was asked of providers, and the books.
--
-- There is no foreign key to merchants: a transaction that writes here has locked the merchant.

-- A step of a payment writes its row anew. No column of an index changes while a payment goes its usual way, so
-- PostgreSQL need not touch the indexes: `due_at` stays in the past while the engine has the payment in hand,
-- and half of each page stays free.
CREATE TABLE payments (
    merchant_id     uuid        NOT NULL,
    payment_id      uuid        NOT NULL,
    payin_source    text        NOT NULL,
    payin_reference text        NOT NULL,
    state           text        NOT NULL,
    version         bigint      NOT NULL CHECK (version > 0),
    reason          text,
    blocked         text,
    provider        text,
    created_at      timestamptz NOT NULL,
    -- When it came to its state.
    changed_at      timestamptz NOT NULL,
    -- When the engine has to do something about it; null when nothing is to be done.
    due_at          timestamptz,
    -- Whether somebody may still have to look at it: the engine, or an operator.
    is_open         boolean     NOT NULL CHECK (
        is_open = (state NOT IN ('completed', 'refunded') OR due_at IS NOT NULL)),
    -- What came in, as it was given. It never changes.
    request         json        NOT NULL,
    -- What the engine remembers of the way so far.
    progress        json        NOT NULL,
    PRIMARY KEY (merchant_id, payment_id)
) WITH (fillfactor = 50);

-- The same pay-in is never two payments, whoever's they are. The one index of what grows that the merchant does
-- not lead, besides the one of operations by their id.
CREATE UNIQUE INDEX payments_payin ON payments (payin_source, payin_reference);

CREATE INDEX payments_open ON payments (merchant_id, due_at, payment_id) WHERE is_open;

-- When the first payment of a merchant is due. It may be early, as `merchant_counts.next_due_at` may be.
CREATE TABLE payment_queues (
    merchant_id uuid        PRIMARY KEY,
    shard       smallint    NOT NULL GENERATED ALWAYS AS (get_byte(uuid_send(merchant_id), 15) % 64) STORED,
    next_due_at timestamptz
) WITH (fillfactor = 50);

CREATE INDEX payment_queues_due ON payment_queues (shard, next_due_at) WHERE next_due_at IS NOT NULL;

-- What the operator earns on a payment. No statement of a merchant's request names this table.
CREATE TABLE payment_pricing (
    merchant_id uuid NOT NULL,
    payment_id  uuid NOT NULL,
    pricing     json NOT NULL,
    PRIMARY KEY (merchant_id, payment_id)
);

-- The timeline: what happened, why, by whom, and what was posted.
CREATE TABLE payment_steps (
    merchant_id uuid        NOT NULL,
    payment_id  uuid        NOT NULL,
    number      integer     NOT NULL,
    at          timestamptz NOT NULL,
    step        json        NOT NULL,
    PRIMARY KEY (merchant_id, payment_id, number)
);

-- What was asked of providers. An operation that is neither refused nor given up is live, and may have moved
-- money: of a payment there is at most one live conversion, and one live payout or refund. One that moved after
-- its payment had gone on without it is not live: what was learnt of it must be stored all the same.
CREATE TABLE operations (
    merchant_id  uuid        NOT NULL,
    payment_id   uuid        NOT NULL,
    kind         text        NOT NULL CHECK (kind IN ('conversion', 'payout', 'refund')),
    attempt      integer     NOT NULL CHECK (attempt > 0),
    operation_id uuid        NOT NULL,
    provider     text        NOT NULL,
    status       text        NOT NULL,
    is_live      boolean     NOT NULL CHECK (
        NOT is_live OR status NOT IN ('refused', 'given_up')),
    -- Conversions bring money to us, payouts and refunds away: never two of the same kind.
    direction    text        NOT NULL GENERATED ALWAYS AS (
        CASE kind WHEN 'conversion' THEN 'in' ELSE 'out' END) STORED,
    prepared_at  timestamptz NOT NULL,
    -- The request in full, and what was learnt of its fate.
    request      json        NOT NULL,
    memory       json        NOT NULL,
    PRIMARY KEY (merchant_id, payment_id, kind, attempt)
) WITH (fillfactor = 70);

-- A provider names nothing but the operation.
CREATE UNIQUE INDEX operations_by_id ON operations (operation_id);

CREATE UNIQUE INDEX operations_live ON operations (merchant_id, payment_id, direction) WHERE is_live;

-- A merchant's accounts. A posting has a sign, and all of a step sum to zero in each asset.
CREATE TABLE balances (
    merchant_id uuid    NOT NULL,
    account     text    NOT NULL,
    asset       text    NOT NULL,
    amount      numeric NOT NULL,
    PRIMARY KEY (merchant_id, account, asset)
) WITH (fillfactor = 50);
