//! What a sandbox knows after it was ended in the middle of anything.

use std::path::Path;
use std::time::Duration;

use settle_provider::provider::Provider;
use settle_provider::seen::Seen;
use settle_provider::wire::OperationStatus;

use crate::stage::Stage;
use crate::{refusal, status};

async fn instance(stage: &Stage) -> String {
    let Seen::Answered(found) = stage.client.capabilities(stage.now()).await else { panic!("capabilities") };
    found.instance
}

/// A sandbox on a copy of the file: what it would know if the first had been killed now.
async fn after_a_kill(file: &Path, copy: &Path) -> Stage {
    std::fs::copy(file, copy).expect("a copy");
    Stage::with_file(Some(copy.to_owned()), 2).await
}

#[tokio::test]
async fn whatever_was_told_is_in_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("sandbox.jsonl");
    let first = Stage::with_file(Some(file.clone()), 1).await;
    let named = instance(&first).await;
    let Seen::Answered(quote) = first.quote("payin").await else { panic!("a quote") };
    let paid = first.pay_out(1, "wallet").await;
    assert_eq!(status(&first.pay_out(2, "sandbox:pending:1m").await), OperationStatus::Pending);
    assert!(matches!(first.pay_out(3, "sandbox:late:1m").await, Seen::NoAnswer(_)));
    assert_eq!(status(&first.void(4).await), OperationStatus::Refused);
    refusal(&first.convert(5, "sandbox:expired").await);
    first.ask("PUT", "/sandbox/gas", r#"{"filled": true}"#).await;
    first.ask("PUT", "/sandbox/rates/BRL/USDC", r#"{"rate":"5"}"#).await;

    let second = after_a_kill(&file, &folder.path().join("copy.jsonl")).await;
    assert_eq!(instance(&second).await, named);
    assert_eq!(second.executions().await, first.executions().await);
    assert_eq!(second.pay_out(1, "wallet").await, paid);
    assert!(matches!(second.pay_out(1, "thief").await, Seen::Conflict(_)));
    assert_eq!(refusal(&second.pay_out(4, "wallet").await).1, "voided");
    assert_eq!(status(&second.pay_out(6, "sandbox:gas").await), OperationStatus::Succeeded);
    assert_eq!(status(&second.convert(7, "sandbox:expired").await), OperationStatus::Succeeded);
    let converted = second.convert_at(8, "payin", quote.quote_id).await;
    let Seen::Answered(converted) = converted else { panic!("the quote holds: {converted:?}") };
    assert_eq!(converted.bought_amount, Some(quote.buy_amount));
    let Seen::Answered(quote) = second.quote("payin").await else { panic!("a quote") };
    assert_eq!(quote.rate.map(|rate| rate.to_string()).as_deref(), Some("5"));
    assert!(matches!(second.look_up(3).await, Seen::Absent(_)));
    second.pass(Duration::from_mins(1));
    assert_eq!((second.times(2).await, second.times(3).await, second.times(1).await), (1, 1, 1));
}

#[tokio::test]
async fn a_stopped_sandbox_goes_on_where_it_was_and_a_new_file_is_another_instance() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("sandbox.jsonl");
    let first = Stage::with_file(Some(file.clone()), 1).await;
    let (named, paid) = (instance(&first).await, first.pay_out(1, "wallet").await);
    first.stop().await;
    // Bytes of a line that was torn by the end.
    let mut bytes = std::fs::read(&file).expect("a file");
    bytes.extend_from_slice(b"{\"operation\":{\"at\":17672256");
    std::fs::write(folder.path().join("torn.jsonl"), bytes).expect("a file");
    let second = Stage::with_file(Some(folder.path().join("torn.jsonl")), 2).await;
    assert_eq!((instance(&second).await, second.look_up(1).await), (named.clone(), paid));
    let other = Stage::with_file(Some(folder.path().join("other.jsonl")), 3).await;
    assert_ne!(instance(&other).await, named);
    assert!(matches!(other.look_up(1).await, Seen::Absent(_)));
}
