//! Every connection to PostgreSQL vanishes without a word, as when a firewall has forgotten them: the service
//! finds out by itself, records and sends again, and stops when it is told to. What was acknowledged arrives,
//! and nothing arrives twice: the keeper keeps its shards.
//!
//! How long that takes is measured by `scripts/attacks/half_open.py`.

use settle_store_postgres::testing::scratch_url;
use settle_testing::binary::{Settle, block_on};
use settle_testing::proxy::Proxy;

use crate::BINARY;
use crate::setup::Setup;

const TIMES: usize = 2;
const MERCHANTS: usize = 4;
/// Arrivals before the connections vanish.
const ARRIVALS: usize = 50;

#[test]
fn half_open_connections() {
    let (proxy, url) = Proxy::before(&block_on(scratch_url()));
    let setup = Setup::new(Settle::sqlite(BINARY).with("SETTLE_DATABASE_URL", &url), MERCHANTS);
    let (serving, api) = setup.serve();
    setup.register(api);
    let load = setup.load(1);
    for _ in 0..TIMES {
        setup.tally.wait("enough has arrived", |tally| tally.arrivals_in_life >= ARRIVALS);
        proxy.swallow();
        let first = setup.tally.change(|tally| {
            tally.life += 1;
            tally.arrivals_in_life = 0;
            tally.posted
        });
        setup.tally.wait("something posted afterwards has arrived", |tally| {
            (first..tally.posted).any(|number| tally.settlements.contains_key(&number))
        });
    }
    load.stop();
    setup.check(api);
    proxy.swallow();
    serving.stop();
    let repeated = setup.tally.read().repeated_after();
    assert!(repeated.is_empty(), "sent again although its outcome was known: {repeated:?}");
}
