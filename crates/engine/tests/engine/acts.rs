//! What operators do with payments while the provider and the engine go on.

use std::time::Duration;

use settle_domain::ids::PaymentId;
use settle_domain::ledger::Account;
use settle_domain::operation::OperationStatus;
use settle_domain::payment::{Act, Outcome, PaymentOrder, Problem, StateName};
use settle_domain::reason::Reason;
use settle_engine::acts::{ActError, People, act};
use settle_engine::advance::Deed;
use settle_engine::case::Case;
use settle_engine::life::Means;
use settle_provider::wire::OperationKind as Asked;
use settle_store::conformance::ScratchStore;

use crate::desk::Lie;
use crate::notices::deed;
use crate::world::World;

settle_testing::on_both_stores! {
    a_payout_that_came_back_is_not_paid,
    a_payout_that_was_seen_to_come_back_is_not_paid,
    a_conversion_that_is_called_returned_needs_two_people,
    what_was_bought_is_an_amount_and_near_the_quote_or_two_people_say_so,
    nobody_alone_says_that_more_was_bought_than_the_provider_says,
    so_little_that_no_rate_can_tell_it_was_not_bought,
    what_was_paid_is_all_that_was_owed_and_more_is_the_houses_loss,
    of_what_did_not_move_nobody_says_how_much,
    a_provider_that_hangs_leaves_the_word_to_two_people,
    what_a_provider_is_at_is_kept_although_the_act_does_nothing,
    looking_it_up_again_does_not_refuse_an_act,
    a_look_up_while_an_operator_acts_does_not_refuse_it,
    what_the_provider_did_otherwise_is_told_once_and_kept,
}

async fn try_act(
    world: &World,
    payment: PaymentId,
    version: u64,
    what: Act,
    people: People,
) -> Result<Case, ActError> {
    act(&world.means, &world.wake, (world.merchant, payment), version, &deed(what), people).await
}

pub(crate) async fn act_now(
    world: &World,
    payment: PaymentId,
    what: Act,
    people: People,
) -> Result<Case, ActError> {
    let version = world.row(payment).await.version;
    try_act(world, payment, version, what, people).await
}

/// The payout's answer was lost; the provider, asked never to begin it, says that it came back.
async fn a_payout_that_came_back_is_not_paid(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Lost]).await;
    assert_eq!(world.go(payment).await.standing.state, StateName::PayingOut);
    world.desk.returns(Asked::Payout);
    act_now(&world, payment, Act::Resolve(Outcome::NotPaid), People::One).await.unwrap();
    assert_not_paid_and_paid_again(&world, payment).await;
}

/// A look-up found that it came back: the provider has said so, and need not be asked again.
async fn a_payout_that_was_seen_to_come_back_is_not_paid(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Lost]).await;
    world.go(payment).await;
    world.desk.returns(Asked::Payout);
    assert_eq!(world.go_when_due(payment).await.standing.state, StateName::NeedsReview);
    act_now(&world, payment, Act::Resolve(Outcome::NotPaid), People::One).await.unwrap();
    assert_not_paid_and_paid_again(&world, payment).await;
}

/// It failed, we hold the money, and a retry pays it out with an operation of its own.
async fn assert_not_paid_and_paid_again(world: &World, payment: PaymentId) {
    let row = world.row(payment).await;
    let failed = (StateName::Failed, Some(Reason::PayoutRefused), None);
    assert_eq!((row.standing.state, row.standing.reason, row.standing.due_at), failed);
    let payout = world.operations(payment).await.pop().unwrap();
    assert_eq!((payout.status, payout.is_live), (OperationStatus::Returned, false), "its word is kept");
    assert_books_agree(world).await;
    act_now(world, payment, Act::Retry, People::One).await.unwrap();
    assert_eq!(world.go(payment).await.standing.state, StateName::Completed);
    assert_eq!((world.desk.executed(Asked::Payout).len(), world.settled().await), (2, 1));
    assert_books_agree(world).await;
}

pub(crate) async fn assert_books_agree(world: &World) {
    let checked = settle_engine::books::check(&*world.store, &*world.clock).await.unwrap();
    assert_eq!(checked.disagreements, []);
}

async fn a_conversion_that_is_called_returned_needs_two_people(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    world.desk.lies(Asked::Conversion, &[Lie::Lost]);
    let payment = world.paying(&[]).await;
    assert_eq!(world.go(payment).await.standing.state, StateName::Converting);
    world.desk.returns(Asked::Conversion);
    let not_converted = Act::Resolve(Outcome::NotConverted);
    let alone = act_now(&world, payment, not_converted, People::One).await;
    assert!(matches!(alone, Err(ActError::Unconfirmed)), "{alone:?}");
    let done = act_now(&world, payment, not_converted, People::Two).await.unwrap();
    assert_eq!(done.payment.state.name(), StateName::Failed);
}

/// 184.162062 USDC were quoted for 1000.00 BRL.
async fn what_was_bought_is_an_amount_and_near_the_quote_or_two_people_say_so(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    world.desk.lies(Asked::Conversion, &[Lie::Lost]);
    let payment = world.paying(&[]).await;
    assert_eq!(world.go(payment).await.standing.state, StateName::Converting);
    let version = world.row(payment).await.version;
    let say = async |bought: &str, people| {
        let amount = Some(bought.parse().unwrap());
        let deed = Deed { amount, ..deed(Act::Resolve(Outcome::Converted)) };
        act(&world.means, &world.wake, (world.merchant, payment), version, &deed, people).await
    };
    for none in ["0", "0.000000", "0.0000001", &"9".repeat(25)] {
        let refused = say(none, People::Two).await;
        let Err(ActError::Given(fault)) = refused else { panic!("{none}: {refused:?}") };
        assert_eq!(fault.field, "amount", "{none}");
    }
    for off in ["182.320441", "186.003683", "0.000001", "1841.62062"] {
        let alone = say(off, People::One).await;
        assert!(matches!(alone, Err(ActError::OffQuote)), "{off}: {alone:?}");
    }
    assert_eq!(world.row(payment).await.version, version, "nothing was done");
    let done = say("0.000001", People::Two).await.unwrap();
    assert_eq!(done.payment.state.name(), StateName::Converted);
    assert_eq!(world.go(payment).await.standing.state, StateName::Completed, "it can be recorded");
    assert_eq!((world.desk.executed(Asked::Payout).len(), world.settled().await), (1, 1));
    assert_books_agree(&world).await;
}

/// The provider says that it did otherwise: the quote's own amount is one person's word all the same.
async fn nobody_alone_says_that_more_was_bought_than_the_provider_says(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    world.desk.lies(Asked::Conversion, &[Lie::Short]);
    let payment = world.paying(&[]).await;
    world.go(payment).await;
    while world.row(payment).await.standing.state != StateName::NeedsReview {
        world.go_when_due(payment).await;
    }
    let version = world.row(payment).await.version;
    let amount = Some("184.162062".parse().unwrap());
    let deed = Deed { amount, ..deed(Act::Resolve(Outcome::Converted)) };
    let say = |people| act(&world.means, &world.wake, (world.merchant, payment), version, &deed, people);
    let alone = say(People::One).await;
    assert!(matches!(alone, Err(ActError::OffQuote)), "{alone:?}");
    assert_eq!(say(People::Two).await.unwrap().payment.state.name(), StateName::Converted);
}

/// 181.149631 USDC are owed: whoever has less has not been paid, and who has more was paid by the house.
async fn what_was_paid_is_all_that_was_owed_and_more_is_the_houses_loss(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Dropped]).await;
    assert_eq!(world.go(payment).await.standing.state, StateName::PayingOut);
    let version = world.row(payment).await.version;
    let say = async |paid: &str, people| {
        let amount = Some(paid.parse().unwrap());
        let deed = Deed { amount, ..deed(Act::Resolve(Outcome::Paid)) };
        act(&world.means, &world.wake, (world.merchant, payment), version, &deed, people).await
    };
    let owed = "181.149631".parse().unwrap();
    for (less, problem) in [
        ("0", Problem::NotAnAmount),
        ("163.03", Problem::LessThanOwed(owed)),
        ("181.149630", Problem::LessThanOwed(owed)),
    ] {
        let refused = say(less, People::Two).await;
        let Err(ActError::Given(fault)) = refused else { panic!("{less}: {refused:?}") };
        assert_eq!((fault.field, fault.problem), ("amount", problem), "{less}");
    }
    let alone = say("181.249631", People::One).await;
    assert!(matches!(alone, Err(ActError::OffQuote)), "{alone:?}");
    assert_eq!(world.row(payment).await.version, version, "nothing was done");
    let done = say("181.249631", People::Two).await.unwrap();
    assert_eq!(done.payment.state.name(), StateName::Completed);
    for (account, stands) in
        [(Account::Paid, "181.149631"), (Account::HouseLoss, "-0.100000"), (Account::Astray, "0.100000")]
    {
        assert_eq!(world.balance(account, "USDC").await, stands, "{account}");
    }
    assert_books_agree(&world).await;
}

async fn of_what_did_not_move_nobody_says_how_much(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Dropped]).await;
    world.go(payment).await;
    let version = world.row(payment).await.version;
    let amount = Some("181.149631".parse().unwrap());
    let say = async |outcome| {
        let deed = Deed { amount, ..deed(Act::Resolve(outcome)) };
        act(&world.means, &world.wake, (world.merchant, payment), version, &deed, People::Two).await
    };
    let refused = say(Outcome::NotPaid).await;
    let Err(ActError::Given(fault)) = refused else { panic!("{refused:?}") };
    assert_eq!((fault.field, fault.problem), ("amount", Problem::Needless));
    assert_eq!(world.desk.voids(), 0, "nobody was asked");
    let refused = say(Outcome::Refunded).await;
    assert!(matches!(refused, Err(ActError::Illegal(_))), "no refund is in question: {refused:?}");
    assert_eq!(say(Outcome::Paid).await.unwrap().payment.state.name(), StateName::Completed);
}

async fn a_provider_that_hangs_leaves_the_word_to_two_people(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Dropped]).await;
    world.go(payment).await;
    world.desk.keep_voids_back(true);
    let means = Means { answer_wait: Duration::from_millis(20), ..world.means.clone() };
    let version = world.row(payment).await.version;
    let not_paid = deed(Act::Resolve(Outcome::NotPaid));
    let say = |people| act(&means, &world.wake, (world.merchant, payment), version, &not_paid, people);
    let alone = say(People::One).await;
    assert!(matches!(alone, Err(ActError::Unconfirmed)), "{alone:?}");
    assert_eq!(say(People::Two).await.unwrap().payment.state.name(), StateName::Failed);
    assert_eq!(world.desk.voids(), 2, "it was asked each time");
}

/// The payout would go out and could never be recorded.
async fn so_little_that_no_rate_can_tell_it_was_not_bought(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    world.corridor("JPY", "DAI", "0").await;
    world.desk.lies(Asked::Conversion, &[Lie::Lost]);
    let incoming = "JPY".parse().unwrap();
    let incoming_amount = "9".repeat(30).parse().unwrap();
    let order = PaymentOrder { incoming, incoming_amount, ..world.order("pix", "DAI") };
    let payment = world.receive(order).await.unwrap();
    assert_eq!(world.go(payment).await.standing.state, StateName::Converting);
    let version = world.row(payment).await.version;
    let amount = Some("0.000000000000000001".parse().unwrap());
    let deed = Deed { amount, ..deed(Act::Resolve(Outcome::Converted)) };
    let refused =
        act(&world.means, &world.wake, (world.merchant, payment), version, &deed, People::Two).await;
    let Err(ActError::Given(fault)) = refused else { panic!("{refused:?}") };
    assert_eq!(fault.to_string(), "amount: is too little for what was sold");
}

/// Its answer was lost. Had it forgotten the payout later, that it once had it would be all that is known.
async fn what_a_provider_is_at_is_kept_although_the_act_does_nothing(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[Lie::PendingUnheard]).await;
    assert_eq!(world.go(payment).await.standing.state, StateName::PayingOut);
    let not_paid = act_now(&world, payment, Act::Resolve(Outcome::NotPaid), People::Two).await;
    assert!(matches!(not_paid, Err(ActError::StillProcessing)), "{not_paid:?}");
    assert_eq!(world.operations(payment).await[1].status, OperationStatus::Accepted);
    assert_eq!(world.row(payment).await.standing.reason, Some(Reason::ProviderStillProcessing));
    world.go_when_due(payment).await;
    world.go_when_due(payment).await;
    world.assert_completed_once(payment).await;
}

/// An operator acts on what it saw before two look-ups that told nothing new; not on what it saw before the
/// payment came under review, nor on what nobody has seen yet.
async fn looking_it_up_again_does_not_refuse_an_act(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Short]).await;
    let mut before = world.go(payment).await.version;
    while world.row(payment).await.standing.state != StateName::NeedsReview {
        before = world.row(payment).await.version;
        world.go_when_due(payment).await;
    }
    let seen = world.row(payment).await.version;
    world.go_when_due(payment).await;
    let now = world.go_when_due(payment).await.version;
    assert!(now > seen, "each look-up is written");
    let paid = Act::Resolve(Outcome::Paid);
    for wrong in [before, now + 1] {
        let refused = try_act(&world, payment, wrong, paid, People::One).await;
        let Err(ActError::Stale { state, version }) = refused else { panic!("{refused:?}") };
        assert_eq!((state, version), (StateName::NeedsReview, now));
    }
    try_act(&world, payment, seen, paid, People::One).await.unwrap();
    assert_eq!(world.row(payment).await.standing.state, StateName::Completed);
    let again = try_act(&world, payment, seen, paid, People::One).await;
    assert!(matches!(again, Err(ActError::Stale { state: StateName::Completed, .. })), "{again:?}");
}

/// While the provider is asked never to begin the payout, the engine looks it up, in vain.
async fn a_look_up_while_an_operator_acts_does_not_refuse_it(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Dropped]).await;
    world.desk.silent(true);
    let seen = world.go(payment).await.version;
    world.desk.keep_voids_back(true);
    let act = try_act(&world, payment, seen, Act::Resolve(Outcome::NotPaid), People::One);
    let look_up = async {
        world.desk.until(|desk| desk.voids() == 1).await;
        assert_eq!(world.go_when_due(payment).await.version, seen + 1);
        world.desk.keep_voids_back(false);
    };
    let (done, ()) = tokio::join!(act, look_up);
    assert_eq!(done.unwrap().payment.state.name(), StateName::Failed);
    assert_eq!(world.row(payment).await.standing.state, StateName::Failed);
}

/// Who says that nothing was paid changes nothing of what the provider says, nor makes it forgotten.
async fn what_the_provider_did_otherwise_is_told_once_and_kept(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Short]).await;
    world.go(payment).await;
    while world.row(payment).await.standing.state != StateName::NeedsReview {
        world.go_when_due(payment).await;
    }
    let said = "asked to pay 181.149631 USDC to wallet of pix, \
                the provider says that it paid 0.01 USDC to wallet of pix";
    world.go_when_due(payment).await;
    let not_paid = Act::Resolve(Outcome::NotPaid);
    act_now(&world, payment, not_paid, People::One).await.unwrap();
    assert_eq!(
        world.row(payment).await.standing.state,
        StateName::NeedsReview,
        "the provider's word decides"
    );
    let told = [
        "the answer does not fit what was asked; it is looked up, and nothing else is sent",
        said,
        "the bank's statement; but the provider says that it did something else",
    ];
    assert_eq!(world.notes(payment).await, told, "each look-up says the same");
    // Without an answer two people may say it.
    world.desk.deaf(true);
    act_now(&world, payment, not_paid, People::Two).await.unwrap();
    let case = world.means.read(world.merchant, payment).await.unwrap().unwrap();
    let payout = &case.operations[1].operation;
    assert_eq!((payout.memory.status, payout.deviation.as_deref()), (OperationStatus::GivenUp, Some(said)));
    assert_eq!(world.go_when_due(payment).await.standing.state, StateName::NeedsReview, "it is said again");
}
