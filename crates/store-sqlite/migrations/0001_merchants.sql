-- Merchants, their counts, their keys, their endpoints; operators; master keys.
--
-- Times are microseconds since 1970, ids are the 16 bytes of a uuid.

CREATE TABLE merchants (
    merchant_id BLOB    NOT NULL PRIMARY KEY CHECK (length(merchant_id) = 16),
    name        TEXT    NOT NULL,
    created_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- One row per merchant, which changes with its settlements and deliveries: the totals of its lists, the time
-- at which its first pending delivery is due, its shard, which is the last six bits of its id, how often it
-- has cleared its endpoint, and how many settlements imports have staged for it. Differs because SQLite has no function for a byte: the bits come from the
-- hexadecimal digits.
CREATE TABLE merchant_counts (
    merchant_id          BLOB    NOT NULL PRIMARY KEY REFERENCES merchants,
    settlements          INTEGER NOT NULL DEFAULT 0 CHECK (settlements >= 0),
    deliveries_pending   INTEGER NOT NULL DEFAULT 0 CHECK (deliveries_pending >= 0),
    deliveries_delivered INTEGER NOT NULL DEFAULT 0 CHECK (deliveries_delivered >= 0),
    deliveries_dead      INTEGER NOT NULL DEFAULT 0 CHECK (deliveries_dead >= 0),
    shard                INTEGER NOT NULL GENERATED ALWAYS AS (
        (instr('0123456789ABCDEF', substr(hex(merchant_id), 31, 1)) - 1) % 4 * 16
        + instr('0123456789ABCDEF', substr(hex(merchant_id), 32, 1)) - 1
    ) VIRTUAL,
    next_due_at          INTEGER,
    endpoint_epoch       INTEGER NOT NULL DEFAULT 0,
    settlements_staged   INTEGER NOT NULL DEFAULT 0 CHECK (settlements_staged >= 0)
) STRICT, WITHOUT ROWID;

CREATE INDEX merchant_counts_due ON merchant_counts (shard, next_due_at) WHERE next_due_at IS NOT NULL;

-- The merchant leads the primary key, as in every table that grows. Two look-ups do not know the merchant: a
-- request shows nothing but its key, which is found by its hash, and an operator revokes a key by its id
-- alone. Both indexes hold the few keys of merchants, not their history.
--
-- The seal is the id of a master key and an HMAC under it, of the hash and of the row's ids. Without it a row
-- admits nobody; a revoked key has none.
CREATE TABLE api_keys (
    merchant_id BLOB    NOT NULL REFERENCES merchants,
    key_id      BLOB    NOT NULL UNIQUE CHECK (length(key_id) = 16),
    key_hash    BLOB    NOT NULL UNIQUE CHECK (length(key_hash) = 32),
    seal        BLOB    CHECK (length(seal) = 36),
    last_four   TEXT    NOT NULL,
    label       TEXT,
    created_at  INTEGER NOT NULL,
    revoked_at  INTEGER,
    PRIMARY KEY (merchant_id, key_id)
) STRICT;

-- Every endpoint has a secret; clearing an endpoint deletes its row.
CREATE TABLE webhook_endpoints (
    merchant_id   BLOB NOT NULL PRIMARY KEY REFERENCES merchants,
    url           TEXT NOT NULL CHECK (url <> ''),
    sealed_secret BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE operators (
    operator_id BLOB    NOT NULL PRIMARY KEY CHECK (length(operator_id) = 16),
    name        TEXT    NOT NULL UNIQUE,
    token_hash  BLOB    NOT NULL UNIQUE CHECK (length(token_hash) = 32),
    seal        BLOB    CHECK (length(seal) = 36),
    created_at  INTEGER NOT NULL,
    revoked_at  INTEGER
) STRICT;

-- The master keys that this database has been used with: only their ids, which reveal nothing of the keys.
CREATE TABLE master_keys (
    key_id      BLOB    NOT NULL PRIMARY KEY,
    recorded_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
