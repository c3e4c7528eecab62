//! Who serves which merchants: the keeper of each duty holds shards for its process, and its tenants work in
//! them.
//!
//! Sending and settling are duties with leases of their own. With one keeper a process, a process that only
//! settles would hold shards from which nobody sends.
//!
//! | module | what it does |
//! |---|---|
//! | [`leases`] | what the keeper asks of the database |
//! | [`keeper`] | shows that the process lives, renews its lease, hands shards over |
//! | [`holdings`] | which shards are held, under which tokens, and until when |
//! | [`tenancy`] | what a tenant is told, and what it tells the keeper |
//! | [`unreadable`] | what a tenant cannot read, and leaves alone for a while |
//!
//! Merchants are spread over 64 shards by their id. The keeper renews the lease on its shards every second,
//! by the database's clock, and holds as many as every other keeper; a shard gets a new token whenever it
//! changes hands. The sign that a process lives is an advisory lock of its connection on PostgreSQL and a
//! lock on a file on SQLite: both end with the process, however it ends, and another keeper takes its shards
//! over at its next renewal. A process that hangs loses its shards when the lease runs out.
//!
//! # How to add a tenant
//!
//! A tenant is a kind of worker, such as the dispatcher of notifications. It gets a
//! [`Tenancy`](tenancy::Tenancy) from [`Keeper::tenant`](keeper::Keeper::tenant), and keeps to four rules:
//!
//! 1. It starts work only in shards that [`Holdings::serves`](holdings::Holdings::serves), and only what ends
//!    while the lease [covers](holdings::Holdings::covers) it, or is protected in another way.
//! 2. Whatever it records is fenced by the shard's token
//!    ([`queue_fence`](settle_store::QueueWrites::queue_fence)).
//! 3. When a shard leaves, it finishes there and [lets go](tenancy::Tenancy::let_go).
//! 4. It drops its tenancy when it has stopped. The keeper gives the shards back after its last tenant.
//!
//! It may also say [since when it fails](tenancy::Tenancy::fails_since), so that `/readyz` tells.

pub mod holdings;
pub mod keeper;
pub mod leases;
pub mod tenancy;
pub mod unreadable;
