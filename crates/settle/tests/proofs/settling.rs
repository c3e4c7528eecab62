//! The service and its provider, two processes, are killed fifty times while payments are settled. Nothing is
//! paid twice or lost: the provider's own list of what it executed, the merchants' settlements and the books
//! agree to the last unit.
//!
//! | module | what it does |
//! |---|---|
//! | [`bank`] | runs the sandbox, and reads what it has really executed |
//! | [`orders`] | the payments: which come, what the provider does with each, how each must end |
//! | [`desk`] | posts them, and refunds what was refused |
//! | [`verdict`] | compares the sandbox, the merchants' lists and the books |

use settle_testing::binary::Settle;
use settle_testing::chance::Chance;
use settle_testing::serving::Signal;

use crate::BINARY;
use crate::setup::Setup;

mod bank;
mod desk;
mod orders;
mod verdict;

use bank::Bank;
use desk::Desk;

const KILLS: usize = 50;
const MERCHANTS: usize = 12;
/// Bytes that the sandbox writes down between two kills, at most: a dozen operations.
const WRITTEN_MAX: u64 = 8_000;
/// Who is killed: the service more often than the sandbox, now and then both.
const VICTIMS: [(bool, bool); 5] = [(true, false), (true, false), (false, true), (false, true), (true, true)];

#[test]
fn sqlite() {
    settling("sqlite", Settle::sqlite(BINARY));
}

#[test]
fn postgres() {
    settling("postgres", Settle::postgres(BINARY));
}

fn settling(store: &str, mut settle: Settle) {
    let address = bank::address();
    settle.set("SETTLE_PROVIDERS__SANDBOX__URL", &format!("http://{address}"));
    settle.set("SETTLE_PROVIDERS__SANDBOX__SECRET", bank::SECRET);
    settle.set("SETTLE_PROVIDERS__SANDBOX__TIMEOUT", "2s");
    settle.set("SETTLE_ENGINE__RETRY_FIRST", "200ms");
    settle.set("SETTLE_ENGINE__RETRY_MAX", "1s");
    let setup = Setup::new(settle, MERCHANTS);
    // The receiver knows settlements by their numbers, and payments have ids: any number may come.
    setup.tally.change(|tally| tally.posted = u64::MAX);
    let mut bank = Bank::start(&setup, address);
    let (mut serving, mut api) = setup.serve();
    setup.register(api);
    desk::agree(&setup);

    let desk = Desk::open(&setup);
    let chance = Chance::new(14);
    let mut kills = 0;
    while kills < KILLS {
        let written = bank.written() + 1 + chance.below(WRITTEN_MAX);
        setup.tally.retry("the sandbox has done enough", || (bank.written() >= written).then_some(()));
        let (kills_service, kills_bank) = *chance.pick(&VICTIMS);
        if kills_bank {
            bank.kill();
            kills += 1;
        }
        if kills_service {
            serving.signal(Signal::KILL);
            let (code, logged) = serving.stopped();
            assert_eq!(code, None, "{logged:#?}");
            setup.tally.next_life();
            kills += 1;
            (serving, api) = setup.serve();
        }
        if kills_bank {
            bank.restart(&setup);
        }
    }
    let posted = desk.close();
    desk::wait_for_rest(&setup);
    let told = verdict::check(&setup, api, &bank, &posted);
    println!("settling, {store}: {kills} kills, {told}");
    serving.stop();
}
