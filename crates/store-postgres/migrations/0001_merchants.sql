-- Merchants, their counts, their keys, their endpoints; operators; master keys.

CREATE TABLE merchants (
    merchant_id uuid        PRIMARY KEY,
    name        text        NOT NULL,
    created_at  timestamptz NOT NULL
);

-- One row a merchant, changed wherever its settlements and deliveries are: its totals, and its lock.
-- Half of each page is left free, so that a count can change where it stands without touching an index.
CREATE TABLE merchant_counts (
    merchant_id          uuid   PRIMARY KEY REFERENCES merchants,
    settlements          bigint NOT NULL DEFAULT 0 CHECK (settlements >= 0),
    deliveries_pending   bigint NOT NULL DEFAULT 0 CHECK (deliveries_pending >= 0),
    deliveries_delivered bigint NOT NULL DEFAULT 0 CHECK (deliveries_delivered >= 0),
    deliveries_dead      bigint NOT NULL DEFAULT 0 CHECK (deliveries_dead >= 0)
) WITH (fillfactor = 50);

CREATE TABLE api_keys (
    key_id      uuid        PRIMARY KEY,
    merchant_id uuid        NOT NULL REFERENCES merchants,
    key_hash    bytea       NOT NULL UNIQUE CHECK (length(key_hash) = 32),
    last_four   text        NOT NULL,
    label       text,
    created_at  timestamptz NOT NULL,
    revoked_at  timestamptz
);

CREATE INDEX api_keys_of_merchant ON api_keys (merchant_id, created_at);

-- There is no endpoint without a secret: a cleared one is a deleted row.
CREATE TABLE webhook_endpoints (
    merchant_id   uuid  PRIMARY KEY REFERENCES merchants,
    url           text  NOT NULL CHECK (url <> ''),
    sealed_secret bytea NOT NULL
);

CREATE TABLE operators (
    operator_id uuid        PRIMARY KEY,
    name        text        NOT NULL UNIQUE,
    token_hash  bytea       NOT NULL UNIQUE CHECK (length(token_hash) = 32),
    created_at  timestamptz NOT NULL,
    revoked_at  timestamptz
);

-- Which master keys this database has been used with: their ids, which tell nothing of the keys.
CREATE TABLE master_keys (
    key_id      bytea       PRIMARY KEY,
    recorded_at timestamptz NOT NULL
);
