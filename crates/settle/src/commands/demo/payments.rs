//! Payments of the demo: made-up pay-ins, settled by the real engine at the real sandbox.

use std::sync::Arc;
use std::time::Duration;

use settle_domain::ids::{MerchantId, PaymentId};
use settle_domain::reason::{Blocked, Reason};
use settle_store::{PaymentRow, Store};
use tokio::time::{Instant, interval, interval_at};

use super::operator::{Operator, pay_in};
use super::story;
use super::voice::Voice;

/// When the first pay-in comes. Pay-ins and the changes of the flaky shop's endpoint never fall on the same
/// moment, so every demo tells the same story.
const FIRST: Duration = Duration::from_secs(1);
/// Time between two pay-ins.
const INTERVAL: Duration = Duration::from_secs(2);
/// How often the demo looks what has become of a payment.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// What comes in: the currency and the amount.
const PAY_INS: [(&str, &str); 4] =
    [("BRL", "1000.00"), ("EUR", "249.90"), ("JPY", "18000"), ("MXN", "3499.50")];

/// Pay-ins that come, one shop after the other, and what becomes of them.
pub(super) async fn come_for_ever(
    store: Arc<dyn Store>,
    operator: &Operator,
    shops: [(&'static str, MerchantId); 3],
    voice: &Arc<Voice>,
) {
    let mut due = interval_at(Instant::now() + FIRST, INTERVAL);
    for number in 0.. {
        due.tick().await;
        // The shop without an endpoint settles seldom: one dead delivery is enough to see.
        let (shop, merchant) = match number % 8 {
            1 | 4 => shops[1],
            2 => shops[2],
            _ => shops[0],
        };
        // The sandbox does what the destination says.
        let destination = match number % 8 {
            3 => "sandbox:ghost",
            5 => "sandbox:flaky",
            _ => "wallet-treasury",
        };
        let (currency, amount) = PAY_INS[number % PAY_INS.len()];
        let pay_in = pay_in(merchant, number, (currency, amount), destination);
        match operator.receive(&pay_in).await {
            Ok(payment) => {
                voice.tell(&story::came_in(shop, currency, amount));
                let follow = Follow { shop, merchant, payment };
                tokio::spawn(follow.tell(store.clone(), voice.clone()));
            }
            Err(fault) => voice.tell(&story::fault(&fault)),
        }
    }
}

/// One payment of which the demo tells.
struct Follow {
    shop: &'static str,
    merchant: MerchantId,
    payment: PaymentId,
}

/// What was told of a payment last.
type Standing = (settle_domain::payment::StateName, Option<Reason>, Option<Blocked>);

impl Follow {
    /// Tells what becomes of the payment, until it is done.
    async fn tell(self, store: Arc<dyn Store>, voice: Arc<Voice>) {
        let mut due = interval(LOOK_INTERVAL);
        let mut last: Option<Standing> = None;
        loop {
            due.tick().await;
            let Ok(Some(row)) = store.payment_find(self.merchant, self.payment).await else { continue };
            let now = (row.standing.state, row.standing.reason, row.standing.blocked);
            if last == Some(now) {
                continue;
            }
            last = Some(now);
            if let Some(told) = story::became(self.shop, &row) {
                voice.tell(&told);
            }
            if is_done(&row) {
                return;
            }
        }
    }
}

fn is_done(row: &PaymentRow) -> bool {
    !row.standing.is_open()
}

/// Tells now and then what the provider has really done: it is the only witness.
pub(super) async fn witness(operator: &Operator, voice: &Voice, every: Duration) {
    let mut due = interval_at(Instant::now() + every, every);
    loop {
        due.tick().await;
        if let Ok(times) = operator.executions().await {
            voice.tell(&story::witnessed(&times));
        }
    }
}
