-- Acts on payments that one person proposes and another approves.
CREATE TABLE proposals (
    proposal_id BLOB    NOT NULL PRIMARY KEY,
    merchant_id BLOB    NOT NULL,
    payment_id  BLOB    NOT NULL,
    -- The version of the payment that the proposer saw.
    version     INTEGER NOT NULL CHECK (version > 0),
    deed        TEXT    NOT NULL,
    proposed_by TEXT    NOT NULL,
    proposed_at INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL,
    approved_by TEXT
) STRICT, WITHOUT ROWID;

CREATE INDEX proposals_open ON proposals (expires_at) WHERE approved_by IS NULL;
