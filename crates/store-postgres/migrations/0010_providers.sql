-- Providers that operators have paused: nothing is sent to them, look-ups go on.
CREATE TABLE provider_pauses (
    provider  text        PRIMARY KEY,
    paused_by text        NOT NULL,
    paused_at timestamptz NOT NULL
);

-- The leases of those who settle payments, behind those of who sends: see `Duty` in the contract.
INSERT INTO queue_shards (shard) SELECT generate_series(64, 127);

ALTER TABLE keepers ADD COLUMN duty text NOT NULL DEFAULT 'dispatch';
