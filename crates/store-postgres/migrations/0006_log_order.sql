-- Delivery ids carry their time to the microsecond: the log is in the order of its key, and the time of a
-- delivery need not stand in an index.

DROP INDEX deliveries_listed;
DROP INDEX deliveries_listed_by_status;
CREATE INDEX deliveries_listed_by_status ON deliveries (merchant_id, status, delivery_id);
