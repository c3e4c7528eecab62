-- Merchants, their counts, their keys, their endpoints; operators; master keys.

CREATE TABLE merchants (
    merchant_id uuid        PRIMARY KEY,
    name        text        NOT NULL,
    created_at  timestamptz NOT NULL
);

-- One row per merchant, which changes with its settlements and deliveries: the totals of its lists, the time
-- at which its first pending delivery is due, its shard, which is the last six bits of its id, how often it
-- has cleared its endpoint, and how many settlements imports have staged for it. The row is also the merchant's lock. Half of each page stays free: a count can
-- change without touching an index.
CREATE TABLE merchant_counts (
    merchant_id          uuid   PRIMARY KEY REFERENCES merchants,
    settlements          bigint NOT NULL DEFAULT 0 CHECK (settlements >= 0),
    deliveries_pending   bigint NOT NULL DEFAULT 0 CHECK (deliveries_pending >= 0),
    deliveries_delivered bigint NOT NULL DEFAULT 0 CHECK (deliveries_delivered >= 0),
    deliveries_dead      bigint NOT NULL DEFAULT 0 CHECK (deliveries_dead >= 0),
    shard                smallint NOT NULL
        GENERATED ALWAYS AS (get_byte(uuid_send(merchant_id), 15) % 64) STORED,
    next_due_at          timestamptz,
    endpoint_epoch       integer NOT NULL DEFAULT 0,
    settlements_staged   bigint NOT NULL DEFAULT 0 CHECK (settlements_staged >= 0)
) WITH (fillfactor = 50);

CREATE INDEX merchant_counts_due ON merchant_counts (shard, next_due_at) WHERE next_due_at IS NOT NULL;

-- The merchant leads the primary key, as in every table that grows. Two look-ups do not know the merchant: a
-- request shows nothing but its key, which is found by its hash, and an operator revokes a key by its id
-- alone. Both indexes hold the few keys of merchants, not their history.
--
-- The seal is the id of a master key and an HMAC under it, of the hash and of the row's ids. Without it a row
-- admits nobody; a revoked key has none.
CREATE TABLE api_keys (
    merchant_id uuid        NOT NULL REFERENCES merchants,
    key_id      uuid        NOT NULL UNIQUE,
    key_hash    bytea       NOT NULL UNIQUE CHECK (length(key_hash) = 32),
    seal        bytea       CHECK (length(seal) = 36),
    last_four   text        NOT NULL,
    label       text,
    created_at  timestamptz NOT NULL,
    revoked_at  timestamptz,
    PRIMARY KEY (merchant_id, key_id)
);

-- Every endpoint has a secret; clearing an endpoint deletes its row.
CREATE TABLE webhook_endpoints (
    merchant_id   uuid  PRIMARY KEY REFERENCES merchants,
    url           text  NOT NULL CHECK (url <> ''),
    sealed_secret bytea NOT NULL
);

CREATE TABLE operators (
    operator_id uuid        PRIMARY KEY,
    name        text        NOT NULL UNIQUE,
    token_hash  bytea       NOT NULL UNIQUE CHECK (length(token_hash) = 32),
    seal        bytea       CHECK (length(seal) = 36),
    created_at  timestamptz NOT NULL,
    revoked_at  timestamptz
);

-- The master keys that this database has been used with: only their ids, which reveal nothing of the keys.
CREATE TABLE master_keys (
    key_id      bytea       PRIMARY KEY,
    recorded_at timestamptz NOT NULL
);
