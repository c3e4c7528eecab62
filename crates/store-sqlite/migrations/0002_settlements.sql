-- Completed settlements: written once, never changed.
--
-- There is no foreign key to merchants: a transaction that writes here has locked the merchant's row of
-- merchant_counts, which proves the same without a look-up per row.

CREATE TABLE settlements (
    merchant_id   BLOB NOT NULL,
    settlement_id BLOB NOT NULL CHECK (length(settlement_id) = 16),
    -- Bytes that compare like (listed_at, settlement_id): the order of the merchant's list.
    list_key      BLOB NOT NULL CHECK (length(list_key) = 24),
    -- The JSON object the merchant sees, as it was rendered when the settlement was recorded.
    record        TEXT NOT NULL CHECK (json_valid(record)),
    PRIMARY KEY (merchant_id, settlement_id)
) STRICT;

CREATE UNIQUE INDEX settlements_listed ON settlements (merchant_id, list_key);

-- A merchant's list, cut into slices, and how many rows each slice has. A slice reaches from its from_key up
-- to the next slice's. The oldest slice starts at the empty key, which sorts before all others.
CREATE TABLE settlement_slices (
    merchant_id BLOB    NOT NULL,
    from_key    BLOB    NOT NULL,
    settlements INTEGER NOT NULL CHECK (settlements >= 0),
    PRIMARY KEY (merchant_id, from_key)
) STRICT, WITHOUT ROWID;

-- What the operator earns. No statement of a merchant's request names this table.
CREATE TABLE settlement_pricing (
    merchant_id        BLOB NOT NULL,
    settlement_id      BLOB NOT NULL,
    provider_rate      TEXT NOT NULL,
    spread_revenue     TEXT NOT NULL,
    partner_commission TEXT NOT NULL,
    PRIMARY KEY (merchant_id, settlement_id)
) STRICT, WITHOUT ROWID;

-- Imports under way: few rows, which go when their imports end. The rows that are staged lie by import: an
-- import is walked as a whole, and a settlement is looked up by the whole key.
CREATE TABLE imports (
    import_id BLOB    NOT NULL PRIMARY KEY CHECK (length(import_id) = 16),
    notifies  INTEGER NOT NULL CHECK (notifies IN (0, 1)),
    state     TEXT    NOT NULL CHECK (state IN ('staging', 'accepted', 'done', 'discarded')),
    -- When somebody last worked on it.
    alive_at  INTEGER NOT NULL,
    -- Rows that are staged, settlements recorded, notifications enqueued.
    waiting   INTEGER NOT NULL DEFAULT 0 CHECK (waiting >= 0),
    recorded  INTEGER NOT NULL DEFAULT 0 CHECK (recorded >= 0),
    notified  INTEGER NOT NULL DEFAULT 0 CHECK (notified >= 0)
) STRICT, WITHOUT ROWID;

CREATE TABLE import_rows (
    import_id          BLOB NOT NULL,
    merchant_id        BLOB NOT NULL,
    settlement_id      BLOB NOT NULL CHECK (length(settlement_id) = 16),
    list_key           BLOB NOT NULL CHECK (length(list_key) = 24),
    record             TEXT NOT NULL,
    provider_rate      TEXT,
    spread_revenue     TEXT,
    partner_commission TEXT,
    PRIMARY KEY (import_id, merchant_id, settlement_id)
) STRICT, WITHOUT ROWID;
