-- When an operation's status last became what it is; null until it has changed once. A reconciliation asks by it
-- what a provider must have listed: what is learnt of an operation may come days after it was prepared.

ALTER TABLE operations ADD COLUMN changed_at INTEGER;
