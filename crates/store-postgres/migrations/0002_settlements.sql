-- Completed settlements: written once, never changed.
--
-- There is no foreign key to merchants: a transaction that writes here has locked the merchant's row of
-- merchant_counts, which proves the same without a look-up per row.

CREATE TABLE settlements (
    merchant_id   uuid  NOT NULL,
    settlement_id uuid  NOT NULL,
    -- Bytes that compare like (listed_at, settlement_id): the order of the merchant's list.
    list_key      bytea NOT NULL CHECK (length(list_key) = 24),
    -- The JSON object the merchant sees, as it was rendered when the settlement was recorded. The type json,
    -- unlike jsonb, keeps the text.
    record        json  NOT NULL,
    PRIMARY KEY (merchant_id, settlement_id)
) WITH (
    -- Vacuums a large table as often as a small one, so that PostgreSQL skips rows before a page in the index
    -- alone.
    autovacuum_vacuum_insert_threshold = 10000,
    autovacuum_vacuum_insert_scale_factor = 0
);

CREATE UNIQUE INDEX settlements_listed ON settlements (merchant_id, list_key);

-- A merchant's list, cut into slices, and how many rows each slice has. A slice reaches from its from_key up
-- to the next slice's. The oldest slice starts at the empty key, which sorts before all others.
CREATE TABLE settlement_slices (
    merchant_id uuid   NOT NULL,
    from_key    bytea  NOT NULL,
    settlements bigint NOT NULL CHECK (settlements >= 0),
    PRIMARY KEY (merchant_id, from_key)
) WITH (fillfactor = 70);

-- What the operator earns. No statement of a merchant's request names this table.
CREATE TABLE settlement_pricing (
    merchant_id        uuid NOT NULL,
    settlement_id      uuid NOT NULL,
    provider_rate      text NOT NULL,
    spread_revenue     text NOT NULL,
    partner_commission text NOT NULL,
    PRIMARY KEY (merchant_id, settlement_id)
);

-- Imports under way: few rows, which go when their imports end. The rows that are staged lie by import: an
-- import is walked as a whole, and a settlement is looked up by the whole key.
CREATE TABLE imports (
    import_id uuid        PRIMARY KEY,
    notifies  boolean     NOT NULL,
    state     text        NOT NULL CHECK (state IN ('staging', 'accepted', 'done', 'discarded')),
    -- When somebody last worked on it.
    alive_at  timestamptz NOT NULL,
    -- Rows that are staged, settlements recorded, notifications enqueued.
    waiting   bigint      NOT NULL DEFAULT 0 CHECK (waiting >= 0),
    recorded  bigint      NOT NULL DEFAULT 0 CHECK (recorded >= 0),
    notified  bigint      NOT NULL DEFAULT 0 CHECK (notified >= 0)
) WITH (fillfactor = 50);

CREATE TABLE import_rows (
    import_id          uuid  NOT NULL,
    merchant_id        uuid  NOT NULL,
    settlement_id      uuid  NOT NULL,
    list_key           bytea NOT NULL CHECK (length(list_key) = 24),
    record             text  NOT NULL,
    provider_rate      text,
    spread_revenue     text,
    partner_commission text,
    PRIMARY KEY (import_id, merchant_id, settlement_id)
);
