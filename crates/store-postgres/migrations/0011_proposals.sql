-- Acts on payments that one person proposes and another approves.
CREATE TABLE proposals (
    proposal_id uuid        PRIMARY KEY,
    merchant_id uuid        NOT NULL,
    payment_id  uuid        NOT NULL,
    -- The version of the payment that the proposer saw.
    version     bigint      NOT NULL CHECK (version > 0),
    deed        text        NOT NULL,
    proposed_by text        NOT NULL,
    proposed_at timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL,
    approved_by text
);

CREATE INDEX proposals_open ON proposals (expires_at) WHERE approved_by IS NULL;
