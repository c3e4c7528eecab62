-- Completed settlements: written once, never changed.
--
-- No foreign key to merchants: whoever writes here has locked the merchant's row of merchant_counts, which is
-- the same proof without a look-up per row.

CREATE TABLE settlements (
    merchant_id   uuid  NOT NULL,
    settlement_id uuid  NOT NULL,
    -- Bytes that compare like (listed_at, settlement_id): the order of the merchant's list.
    list_key      bytea NOT NULL CHECK (length(list_key) = 24),
    -- The JSON object the merchant sees, as it was rendered when it was recorded: json keeps the text.
    record        json  NOT NULL,
    PRIMARY KEY (merchant_id, settlement_id)
) WITH (
    -- Often enough, and as often in a large table as in a small one: rows skipped on the way to a page are then
    -- skipped in the index alone.
    autovacuum_vacuum_insert_threshold = 10000,
    autovacuum_vacuum_insert_scale_factor = 0
);

CREATE UNIQUE INDEX settlements_listed ON settlements (merchant_id, list_key);

-- A merchant's list cut into slices, and how many rows each has: a slice reaches from its from_key up to the
-- next one's. The oldest slice starts at the empty key, before every other.
CREATE TABLE settlement_slices (
    merchant_id uuid   NOT NULL,
    from_key    bytea  NOT NULL,
    settlements bigint NOT NULL CHECK (settlements >= 0),
    PRIMARY KEY (merchant_id, from_key)
) WITH (fillfactor = 70);

-- What the house earns. No statement that a merchant's request runs names this table.
CREATE TABLE settlement_pricing (
    merchant_id        uuid NOT NULL,
    settlement_id      uuid NOT NULL,
    provider_rate      text NOT NULL,
    spread_revenue     text NOT NULL,
    partner_commission text NOT NULL,
    PRIMARY KEY (merchant_id, settlement_id)
);
