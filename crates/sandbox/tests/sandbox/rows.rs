//! Each row of the table of behaviours.

use std::time::Duration;

use settle_provider::seen::{AnswerFault, LostFault, Seen};
use settle_provider::wire::{OperationStatus, Problem, ProblemCode};

use crate::stage::Stage;
use crate::{amount, refusal, status};

#[tokio::test]
async fn anything_else_behaves() {
    let stage = Stage::start().await;
    let converted = stage.convert(1, "payin-1").await;
    let Seen::Answered(operation) = &converted else { panic!("{converted:?}") };
    assert_eq!(operation.bought_amount.map(|bought| bought.to_string()).as_deref(), Some("184.162062"));
    assert_eq!(operation.bought_asset.as_deref(), Some("USDC"));
    assert_eq!((status(&converted), amount(&converted)), (OperationStatus::Succeeded, "1000.00".to_owned()));
    let paid = stage.pay_out(2, "wallet-1").await;
    let Seen::Answered(operation) = &paid else { panic!("{paid:?}") };
    assert_eq!(operation.destination_reference.as_deref(), Some("wallet-1"));
    assert_eq!(stage.look_up(2).await, paid);
    assert_eq!(status(&stage.refund(3, "payin-2").await), OperationStatus::Succeeded);
    let text = |number, reference: &str, amount: &str| (number, reference.to_owned(), amount.to_owned(), 1);
    let executed =
        [text(1, "payin-1", "1000.00"), text(2, "wallet-1", "1.500000"), text(3, "payin-2", "1000.00")];
    assert_eq!(stage.executions().await, executed);
}

#[tokio::test]
async fn refuse_refuses_for_good() {
    let stage = Stage::start().await;
    for _ in 0..2 {
        assert_eq!(refusal(&stage.pay_out(1, "sandbox:refuse-1").await).0, "payout_refused");
    }
    assert_eq!(status(&stage.look_up(1).await), OperationStatus::Refused);
    assert!(
        matches!(stage.quote("sandbox:refuse").await, Seen::Refused(found) if found.code == ProblemCode::QuoteRefused)
    );
    assert_eq!(refusal(&stage.convert(2, "sandbox:refuse:conversion").await).0, "conversion_refused");
    assert_eq!(status(&stage.refund(3, "sandbox:refuse").await), OperationStatus::Succeeded);
    assert_eq!(refusal(&stage.refund(4, "sandbox:refuse:refund").await).0, "payout_refused");
    assert_eq!(stage.executions().await.len(), 1);
}

#[tokio::test]
async fn pending_succeeds_after_its_time() {
    let stage = Stage::start().await;
    assert_eq!(status(&stage.pay_out(1, "sandbox:pending:2s").await), OperationStatus::Pending);
    assert_eq!(status(&stage.convert(2, "sandbox:pending:2s").await), OperationStatus::Pending);
    stage.pass(Duration::from_millis(1_999));
    assert_eq!(status(&stage.look_up(1).await), OperationStatus::Pending);
    assert_eq!((stage.times(1).await, status(&stage.void(1).await)), (0, OperationStatus::Pending));
    stage.pass(Duration::from_millis(1));
    assert_eq!(status(&stage.look_up(1).await), OperationStatus::Succeeded);
    assert_eq!(status(&stage.look_up(2).await), OperationStatus::Succeeded);
    assert_eq!((stage.times(1).await, stage.times(2).await), (1, 1));
}

#[tokio::test]
async fn timeout_executes_and_never_answers() {
    let stage = Stage::start().await;
    for again in 0..2 {
        let found = async {
            loop {
                let seen = stage.look_up(1).await;
                if !matches!(seen, Seen::Absent(_)) {
                    return seen;
                }
            }
        };
        tokio::select! {
            answered = stage.pay_out(1, "sandbox:timeout") => panic!("{answered:?}"),
            found = found => assert_eq!(status(&found), OperationStatus::Succeeded),
        }
        assert_eq!(stage.times(1).await, 1, "call {again}");
    }
}

#[tokio::test]
async fn late_cuts_the_call_and_executes_after_a_404() {
    let stage = Stage::start().await;
    for _ in 0..2 {
        assert_eq!(stage.pay_out(1, "sandbox:late:5s").await, Seen::NoAnswer(LostFault::Closed));
        assert!(matches!(stage.look_up(1).await, Seen::Absent(_)));
    }
    assert_eq!(stage.pay_out(2, "sandbox:late:5s").await, Seen::NoAnswer(LostFault::Closed));
    assert_eq!(status(&stage.void(2).await), OperationStatus::Refused);
    stage.pass(Duration::from_secs(5));
    assert_eq!((stage.times(1).await, stage.times(2).await), (1, 0));
    assert_eq!(status(&stage.look_up(1).await), OperationStatus::Succeeded);
    assert_eq!(status(&stage.look_up(2).await), OperationStatus::Refused, "the void holds");
    assert_eq!(status(&stage.pay_out(1, "sandbox:late:5s").await), OperationStatus::Succeeded);
    assert_eq!(stage.times(1).await, 1);
}

#[tokio::test]
async fn ghost_executes_and_answers_500() {
    let stage = Stage::start().await;
    for _ in 0..2 {
        let seen = stage.pay_out(1, "sandbox:ghost").await;
        assert_eq!(seen, Seen::Unusable { status: 500, fault: AnswerFault::Status(500) });
    }
    assert_eq!((stage.times(1).await, status(&stage.look_up(1).await)), (1, OperationStatus::Succeeded));
}

#[tokio::test]
async fn lost_does_not_execute_once() {
    let stage = Stage::start().await;
    assert!(matches!(stage.pay_out(1, "sandbox:lost").await, Seen::Unusable { status: 500, .. }));
    assert!(matches!(stage.look_up(1).await, Seen::Absent(_)));
    assert_eq!(stage.times(1).await, 0);
    assert_eq!(status(&stage.pay_out(1, "sandbox:lost").await), OperationStatus::Succeeded);
    assert!(matches!(stage.pay_out(2, "sandbox:lost").await, Seen::Unusable { status: 500, .. }));
    assert_eq!(stage.times(1).await, 1);
}

#[tokio::test]
async fn garbage_executes_and_answers_no_operation() {
    let stage = Stage::start().await;
    let seen = stage.pay_out(1, "sandbox:garbage").await;
    assert!(matches!(seen, Seen::Unusable { status: 200, fault: AnswerFault::Body(_) }), "{seen:?}");
    assert_eq!((stage.times(1).await, status(&stage.look_up(1).await)), (1, OperationStatus::Succeeded));
}

#[tokio::test]
async fn short_and_more_execute_another_amount() {
    let stage = Stage::start().await;
    assert_eq!(amount(&stage.pay_out(1, "sandbox:short").await), "1.350000");
    assert_eq!(amount(&stage.pay_out(2, "sandbox:more").await), "1.650000");
    for (number, payin, bought) in [(3, "sandbox:short", "165.745855"), (4, "sandbox:more", "202.578268")] {
        let Seen::Answered(operation) = stage.convert(number, payin).await else { panic!("{payin}") };
        assert_eq!(operation.bought_amount.map(|bought| bought.to_string()).as_deref(), Some(bought));
        assert_eq!(operation.amount.map(|sold| sold.to_string()).as_deref(), Some("1000.00"));
    }
    let amounts: Vec<String> = stage.executions().await.into_iter().map(|(_, _, amount, _)| amount).collect();
    assert_eq!(amounts, ["1.350000", "1.650000", "1000.00", "1000.00"]);
}

#[tokio::test]
async fn gas_blocks_until_the_wallet_is_filled() {
    let stage = Stage::start().await;
    for _ in 0..3 {
        let seen = stage.pay_out(1, "sandbox:gas").await;
        let Seen::Blocked { status: 409, problem } = seen else { panic!("{seen:?}") };
        assert_eq!(problem.code, ProblemCode::PayoutWalletOutOfGas);
    }
    assert!(matches!(stage.look_up(1).await, Seen::Absent(_)));
    assert_eq!(stage.ask("PUT", "/sandbox/gas", r#"{"filled": true}"#).await.0, 200);
    assert_eq!(status(&stage.pay_out(1, "sandbox:gas").await), OperationStatus::Succeeded);
    stage.ask("PUT", "/sandbox/gas", r#"{"filled": false}"#).await;
    assert!(matches!(stage.pay_out(2, "sandbox:gas").await, Seen::Blocked { .. }));
    assert_eq!(stage.executions().await.len(), 1);
}

#[tokio::test]
async fn flaky_resets_then_is_unavailable_then_behaves() {
    let stage = Stage::start().await;
    assert_eq!(stage.pay_out(1, "sandbox:flaky").await, Seen::NoAnswer(LostFault::Closed));
    assert!(matches!(stage.pay_out(1, "sandbox:flaky").await, Seen::Blocked { status: 503, .. }));
    assert_eq!(stage.times(1).await, 0);
    assert_eq!(status(&stage.pay_out(1, "sandbox:flaky").await), OperationStatus::Succeeded);
    assert_eq!(
        stage.pay_out(2, "sandbox:flaky").await,
        Seen::NoAnswer(LostFault::Closed),
        "counted for each"
    );
    assert_eq!(stage.times(1).await, 1);
}

#[tokio::test]
async fn expired_refuses_the_first_conversion_of_a_pay_in() {
    let stage = Stage::start().await;
    let expired = ("conversion_refused".to_owned(), Problem::QUOTE_EXPIRED.to_owned());
    assert_eq!(refusal(&stage.convert(1, "sandbox:expired-a").await), expired);
    assert_eq!(
        refusal(&stage.convert(1, "sandbox:expired-a").await),
        expired,
        "the same operation stays refused"
    );
    assert_eq!(status(&stage.convert(2, "sandbox:expired-a").await), OperationStatus::Succeeded);
    assert_eq!(refusal(&stage.convert(3, "sandbox:expired-b").await), expired);
    assert_eq!(stage.executions().await.len(), 1);
}

#[tokio::test]
async fn unregistered_refuses_with_its_own_code() {
    let stage = Stage::start().await;
    let quoted = stage.quote("sandbox:unregistered").await;
    assert!(matches!(quoted, Seen::Refused(found) if found.code == ProblemCode::SenderNotRegistered));
    assert_eq!(refusal(&stage.pay_out(1, "sandbox:unregistered").await).0, "sender_not_registered");
    assert_eq!(stage.executions().await, []);
}

#[tokio::test]
async fn flip_says_refused_and_later_succeeded() {
    let stage = Stage::start().await;
    assert_eq!(refusal(&stage.pay_out(1, "sandbox:flip").await).0, "payout_refused");
    assert_eq!(refusal(&stage.convert(2, "sandbox:flip:3s").await).0, "conversion_refused");
    assert_eq!((status(&stage.look_up(1).await), stage.times(1).await), (OperationStatus::Refused, 0));
    stage.pass(Duration::from_secs(3));
    for number in [1, 2] {
        let seen = stage.look_up(number).await;
        let Seen::Answered(operation) = &seen else { panic!("{seen:?}") };
        assert_eq!((operation.status, &operation.code), (OperationStatus::Succeeded, &None));
        assert_eq!(stage.times(number).await, 1);
    }
}

#[tokio::test]
async fn return_says_succeeded_and_later_returned() {
    let stage = Stage::start().await;
    assert_eq!(status(&stage.pay_out(1, "sandbox:return:10s").await), OperationStatus::Succeeded);
    stage.pass(Duration::from_secs(10));
    assert_eq!((status(&stage.look_up(1).await), stage.times(1).await), (OperationStatus::Returned, 1));
}
