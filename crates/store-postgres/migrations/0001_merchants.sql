-- Merchants, their counts, their keys, their endpoints; operators; master keys.

CREATE TABLE merchants (
    merchant_id uuid        PRIMARY KEY,
    name        text        NOT NULL,
    created_at  timestamptz NOT NULL
);

-- One row a merchant, changed wherever its settlements and deliveries are: its totals, its lock, when its first
-- pending delivery is due, and the shard it is served in: the last bits of its id.
-- Half of each page is left free, so that a count can change where it stands without touching an index.
CREATE TABLE merchant_counts (
    merchant_id          uuid   PRIMARY KEY REFERENCES merchants,
    settlements          bigint NOT NULL DEFAULT 0 CHECK (settlements >= 0),
    deliveries_pending   bigint NOT NULL DEFAULT 0 CHECK (deliveries_pending >= 0),
    deliveries_delivered bigint NOT NULL DEFAULT 0 CHECK (deliveries_delivered >= 0),
    deliveries_dead      bigint NOT NULL DEFAULT 0 CHECK (deliveries_dead >= 0),
    shard                smallint NOT NULL
        GENERATED ALWAYS AS (get_byte(uuid_send(merchant_id), 15) % 64) STORED,
    next_due_at          timestamptz
) WITH (fillfactor = 50);

CREATE INDEX merchant_counts_due ON merchant_counts (shard, next_due_at) WHERE next_due_at IS NOT NULL;

-- A merchant stands in front of the key of every table that grows, and two look-ups go without one: a request
-- shows a key and nothing else, so that its hash must say whose it is; and an operator revokes a key by its id
-- alone, as it was printed. Both indexes hold the few keys of merchants, not their history.
CREATE TABLE api_keys (
    merchant_id uuid        NOT NULL REFERENCES merchants,
    key_id      uuid        NOT NULL UNIQUE,
    key_hash    bytea       NOT NULL UNIQUE CHECK (length(key_hash) = 32),
    last_four   text        NOT NULL,
    label       text,
    created_at  timestamptz NOT NULL,
    revoked_at  timestamptz,
    PRIMARY KEY (merchant_id, key_id)
);

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
