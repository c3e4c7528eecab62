//! What a provider's quote may lead to.

use settle_domain::payment::{PaymentOrder, StateName};
use settle_domain::reason::{Blocked, Reason};
use settle_engine::advance::Advance;
use settle_provider::wire::OperationKind as Asked;
use settle_store::conformance::ScratchStore;

use crate::desk::Lie;
use crate::world::{World, at};

settle_testing::on_both_stores! {
    an_expired_quote_is_quoted_again,
    a_quote_that_would_fill_the_books_is_refused,
    a_quote_for_something_else_is_the_providers_to_mend,
    a_target_that_is_missed_is_told_also_without_a_conversion,
}

async fn an_expired_quote_is_quoted_again(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    world.desk.lies(Asked::Conversion, &[Lie::Expired]);
    let payment = world.paying(&[]).await;
    world.go(payment).await;
    world.assert_completed_once(payment).await;
    let attempts: Vec<u32> = world.operations(payment).await.iter().map(|row| row.attempt).collect();
    assert_eq!(attempts, [1, 2, 1], "two conversions, of which the first was refused, and a payout");
}

async fn a_quote_that_would_fill_the_books_is_refused(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[]).await;
    let case = world.means.read(world.merchant, payment).await.unwrap().unwrap();
    let corridor = world.store.corridor_list(world.merchant).await.unwrap().remove(0);
    let state = |buy_amount: &str| {
        let offer = settle_domain::quoting::ProviderQuote {
            quote_id: "q".to_owned(),
            sell_amount: "1000.00".parse().unwrap(),
            buy_amount: buy_amount.parse().unwrap(),
            rate: None,
            expires_at: at(60),
        };
        let advance = Advance::quoted(
            case.clone(),
            (&corridor, &"desk".parse().unwrap()),
            offer,
            None,
            world.means.waits,
            at(1),
        )
        .unwrap();
        (advance.case.payment.state.name(), advance.case.payment.reason)
    };
    assert_eq!(state(&"9".repeat(24)), (StateName::Converting, None));
    let refused = (StateName::Failed, Some(Reason::QuoteRefused));
    assert_eq!(state(&format!("1{}", "0".repeat(24))), refused);
}

async fn a_quote_for_something_else_is_the_providers_to_mend(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[]).await;
    let blocked = (StateName::Received, Some(Blocked::ProviderCallFailed));
    world.desk.sells(Some("999.00"));
    let row = world.go(payment).await;
    assert_eq!((row.standing.state, row.standing.blocked), blocked, "it sells something else");
    world.desk.sells(None);
    world.desk.buys("184.1620621", "5.43");
    let row = world.go_when_due(payment).await;
    assert_eq!((row.standing.state, row.standing.blocked), blocked, "the asset has six decimals");
    world.desk.buys("184.162062", "5.43");
    world.go_when_due(payment).await;
    world.assert_completed_once(payment).await;
}

async fn a_target_that_is_missed_is_told_also_without_a_conversion(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let told = "what came in is not what the target asks for: the incoming side is fixed";
    for incoming in ["BRL", "USDC"] {
        world.corridor(incoming, "USDC", "0").await;
        let order = PaymentOrder {
            incoming: incoming.parse().unwrap(),
            outgoing_target: Some("100".parse().unwrap()),
            ..world.order(incoming, "USDC")
        };
        let payment = world.receive(order).await.unwrap();
        assert_eq!(world.go(payment).await.standing.state, StateName::Completed, "{incoming}");
        assert_eq!(world.notes(payment).await, [told], "{incoming}");
    }
}
