-- What was agreed for a merchant and a pair of assets. A change is a new version; none is ever changed or
-- deleted, because payments keep the version of their first quote.

CREATE TABLE corridors (
    merchant_id         BLOB    NOT NULL REFERENCES merchants,
    incoming            TEXT    NOT NULL,
    outgoing            TEXT    NOT NULL,
    version             INTEGER NOT NULL CHECK (version > 0),
    fee_percentage      TEXT    NOT NULL,
    fee_fixed           TEXT    NOT NULL,
    minimum             TEXT,
    maximum             TEXT,
    provider            TEXT    NOT NULL,
    alert_after_seconds INTEGER NOT NULL CHECK (alert_after_seconds > 0),
    made_by             TEXT    NOT NULL,
    made_at             INTEGER NOT NULL,
    PRIMARY KEY (merchant_id, incoming, outgoing, version)
) STRICT, WITHOUT ROWID;

-- What the operator earns. No statement of a merchant's request names this table.
CREATE TABLE corridor_pricing (
    merchant_id BLOB    NOT NULL,
    incoming    TEXT    NOT NULL,
    outgoing    TEXT    NOT NULL,
    version     INTEGER NOT NULL,
    spread      TEXT    NOT NULL,
    partner     TEXT,
    commission  TEXT    CHECK ((commission IS NULL) = (partner IS NULL)),
    PRIMARY KEY (merchant_id, incoming, outgoing, version)
) STRICT, WITHOUT ROWID;
