-- Merchants, their counts, their keys, their endpoints; operators; master keys.
--
-- Times are microseconds since 1970, ids are the 16 bytes of a uuid.

CREATE TABLE merchants (
    merchant_id BLOB    NOT NULL PRIMARY KEY CHECK (length(merchant_id) = 16),
    name        TEXT    NOT NULL,
    created_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- One row a merchant, changed wherever its settlements and deliveries are: the totals of its lists.
CREATE TABLE merchant_counts (
    merchant_id          BLOB    NOT NULL PRIMARY KEY REFERENCES merchants,
    settlements          INTEGER NOT NULL DEFAULT 0 CHECK (settlements >= 0),
    deliveries_pending   INTEGER NOT NULL DEFAULT 0 CHECK (deliveries_pending >= 0),
    deliveries_delivered INTEGER NOT NULL DEFAULT 0 CHECK (deliveries_delivered >= 0),
    deliveries_dead      INTEGER NOT NULL DEFAULT 0 CHECK (deliveries_dead >= 0)
) STRICT, WITHOUT ROWID;

CREATE TABLE api_keys (
    key_id      BLOB    NOT NULL PRIMARY KEY CHECK (length(key_id) = 16),
    merchant_id BLOB    NOT NULL REFERENCES merchants,
    key_hash    BLOB    NOT NULL UNIQUE CHECK (length(key_hash) = 32),
    last_four   TEXT    NOT NULL,
    label       TEXT,
    created_at  INTEGER NOT NULL,
    revoked_at  INTEGER
) STRICT;

CREATE INDEX api_keys_of_merchant ON api_keys (merchant_id, created_at);

-- There is no endpoint without a secret: a cleared one is a deleted row.
CREATE TABLE webhook_endpoints (
    merchant_id   BLOB NOT NULL PRIMARY KEY REFERENCES merchants,
    url           TEXT NOT NULL CHECK (url <> ''),
    sealed_secret BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE operators (
    operator_id BLOB    NOT NULL PRIMARY KEY CHECK (length(operator_id) = 16),
    name        TEXT    NOT NULL UNIQUE,
    token_hash  BLOB    NOT NULL UNIQUE CHECK (length(token_hash) = 32),
    created_at  INTEGER NOT NULL,
    revoked_at  INTEGER
) STRICT;

-- Which master keys this database has been used with: their ids, which tell nothing of the keys.
CREATE TABLE master_keys (
    key_id      BLOB    NOT NULL PRIMARY KEY,
    recorded_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
