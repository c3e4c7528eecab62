-- When an operation's status last became what it is; null until it has changed once. A reconciliation asks by it
-- what a provider must have listed: what is learnt of an operation may come days after it was prepared. It is the
-- engine's time, as a reconciliation's is, and not the server's.

ALTER TABLE operations ADD COLUMN changed_at timestamptz;

-- What was asked of a provider changes soon after it was written, together with its neighbours: with room in their
-- page for all of them no index is touched. At 70 a half of the changes made entries in three indexes anew, two of
-- them in the order of hashes, which costs more the more there are.
ALTER TABLE operations SET (fillfactor = 50);
ALTER TABLE payment_pricing SET (fillfactor = 50);
