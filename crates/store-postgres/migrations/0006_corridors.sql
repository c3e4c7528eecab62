-- What was agreed for a merchant and a pair of assets. A change is a new version; none is ever changed or
-- deleted, because payments keep the version of their first quote.

CREATE TABLE corridors (
    merchant_id         uuid        NOT NULL REFERENCES merchants,
    incoming            text        NOT NULL,
    outgoing            text        NOT NULL,
    version             integer     NOT NULL CHECK (version > 0),
    fee_percentage      text        NOT NULL,
    fee_fixed           text        NOT NULL,
    minimum             text,
    maximum             text,
    provider            text        NOT NULL,
    alert_after_seconds bigint      NOT NULL CHECK (alert_after_seconds > 0),
    made_by             text        NOT NULL,
    made_at             timestamptz NOT NULL,
    PRIMARY KEY (merchant_id, incoming, outgoing, version)
);

-- What the operator earns. No statement of a merchant's request names this table.
CREATE TABLE corridor_pricing (
    merchant_id uuid    NOT NULL,
    incoming    text    NOT NULL,
    outgoing    text    NOT NULL,
    version     integer NOT NULL,
    spread      text    NOT NULL,
    partner     text,
    commission  text    CHECK ((commission IS NULL) = (partner IS NULL)),
    PRIMARY KEY (merchant_id, incoming, outgoing, version)
);
