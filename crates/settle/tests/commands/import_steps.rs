//! `settle settlement import` of more lines than one transaction records: all of them or none, also when the
//! command is killed.

use std::process::{Child, Stdio};
use std::time::Instant;

use serde_json::json;
use settle_domain::delivery::DeliveryStatus;
use settle_domain::ids::MerchantId;
use settle_store::conformance::fixtures;
use settle_store::{Import, ImportState, ImportStep};
use settle_testing::binary::{Settle, block_on, text};
use settle_testing::serving::{PATIENCE, Serving};

use crate::import::{line, lines, recorded};

on_both_stores! {
    what_is_new_is_recorded_and_notified,
    a_dry_run_of_many_changes_nothing,
    a_dry_run_finds_a_conflict_inside_the_file,
    what_another_import_has_staged_is_in_the_way,
    killed_before_it_is_accepted_nothing_is_there,
    killed_after_it_is_accepted_the_service_records_the_rest,
    killed_after_it_is_accepted_the_next_import_records_the_rest,
}

/// So many lines that an import of them is seen and killed long before its end.
const MANY: usize = 4_000;

fn with_webhook(settle: &Settle, merchant: &str) {
    let id = merchant.parse().unwrap();
    let endpoint = fixtures::endpoint(b"sealed");
    block_on(async { fixtures::put_endpoint(&*settle.store(), id, &endpoint).await });
}

/// A merchant's pending notifications.
fn pending(settle: &Settle, merchant: &str) -> u64 {
    let id: MerchantId = merchant.parse().unwrap();
    let page =
        block_on(async { fixtures::deliveries(&*settle.store(), id, Some(DeliveryStatus::Pending)).await });
    page.total
}

fn imports(settle: &Settle) -> Vec<Import> {
    block_on(async { settle.store().import_list().await.unwrap() })
}

/// Starts an import, waits until it is as wanted, and kills the command.
fn killed_when(settle: &Settle, contents: &str, is_wanted: impl Fn(&Import) -> bool) -> Import {
    let path = settle.write("import.jsonl", contents);
    let mut command = settle.command(&["settlement", "import", text(&path), "--notify"]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut child: Child = child.unwrap();
    let store = settle.store();
    let (began, is_wanted) = (Instant::now(), &is_wanted);
    block_on(async {
        while !store.import_list().await.unwrap().iter().any(is_wanted) {
            assert!(began.elapsed() < PATIENCE && child.try_wait().unwrap().is_none(), "it was not seen");
            tokio::task::yield_now().await;
        }
    });
    child.kill().unwrap();
    child.wait().unwrap();
    let import = imports(settle).into_iter().find(|import| is_wanted(import));
    import.expect("it was killed before its end")
}

/// Makes it look as if nobody had worked on an import for long, as in half a minute.
fn abandon(settle: &Settle, import: &Import) {
    block_on(async {
        let store = settle.store();
        let mut tx = store.begin().await.unwrap();
        tx.import_count(import.import_id, ImportStep::default(), fixtures::at(0)).await.unwrap();
        tx.commit().await.unwrap();
    });
}

fn what_is_new_is_recorded_and_notified(settle: &Settle) {
    let (with, without) = (settle.merchant(), settle.merchant());
    with_webhook(settle, &with);
    let first = settle.write("first.jsonl", &lines(&with, 0..10));
    settle.run(&["settlement", "import", text(&first)]).ok();
    let contents = lines(&with, 0..1_200) + &lines(&without, 0..30) + &lines(&with, 1_190..1_200);
    let path = settle.write("import.jsonl", &contents);
    let arguments = ["settlement", "import", text(&path), "--notify", "--json"];
    let done = settle.run(&arguments).json();
    assert_eq!(done, json!({ "recorded": 1_220, "unchanged": 20, "notified": 1_190 }));
    assert_eq!((recorded(settle, &with).0, recorded(settle, &without).0), (1_200, 30));
    assert_eq!((pending(settle, &with), pending(settle, &without)), (1_190, 0));
    let again = settle.run(&arguments).json();
    assert_eq!(again, json!({ "recorded": 0, "unchanged": 1_240, "notified": 0 }));
    assert_eq!(imports(settle), [], "nothing is left of them");
}

fn a_dry_run_of_many_changes_nothing(settle: &Settle) {
    let merchant = settle.merchant();
    with_webhook(settle, &merchant);
    let first = settle.write("first.jsonl", &lines(&merchant, 0..10));
    settle.run(&["settlement", "import", text(&first)]).ok();
    let contents = lines(&merchant, 0..1_500) + &lines(&merchant, 1_400..1_500);
    let path = settle.write("import.jsonl", &contents);
    let done = settle.run(&["settlement", "import", text(&path), "--notify", "--dry-run", "--json"]).json();
    assert_eq!(done, json!({ "recorded": 1_490, "unchanged": 110, "notified": 1_490 }));
    assert_eq!((recorded(settle, &merchant).0, pending(settle, &merchant)), (10, 0));
    assert_eq!(imports(settle), []);
}

fn a_dry_run_finds_a_conflict_inside_the_file(settle: &Settle) {
    let merchant = settle.merchant();
    let other = line(Some(&merchant), 0, json!({ "payin_reference": "another" }));
    let path = settle.write("import.jsonl", &(lines(&merchant, 0..1_500) + &other));
    let ran = settle.run(&["settlement", "import", text(&path), "--dry-run"]);
    assert!(ran.failed().contains("line 1501: settlement_id: "), "{ran:?}");
}

/// Of two imports with two contents of one settlement the second is refused; with the same content both are
/// fine.
fn what_another_import_has_staged_is_in_the_way(settle: &Settle) {
    let merchant = settle.merchant();
    let contents = lines(&merchant, 0..MANY);
    killed_when(settle, &contents, |import| import.state == ImportState::Staging && import.waiting > 100);
    let small = settle.write("small.jsonl", &line(Some(&merchant), 0, json!({ "fee_fixed": "0" })));
    let large = lines(&merchant, 20_000..22_000) + &line(Some(&merchant), 0, json!({ "fee_fixed": "0" }));
    let large = settle.write("large.jsonl", &large);
    for (path, number) in [(small, 1), (large, 2_001)] {
        let ran = settle.run(&["settlement", "import", text(&path)]);
        let named =
            format!("line {number}: settlement_id: 0190d3c4-7c00-7000-8000-000000000000 is in another");
        assert!(ran.failed().contains(&named), "{ran:?}");
    }
    assert_eq!((recorded(settle, &merchant).0, imports(settle).len()), (0, 1), "only the first is there");
    let same = settle.write("same.jsonl", &lines(&merchant, 0..1_500));
    settle.run(&["settlement", "import", text(&same)]).ok();
    assert_eq!(recorded(settle, &merchant).0, 1_500);
}

fn killed_before_it_is_accepted_nothing_is_there(settle: &Settle) {
    let merchant = settle.merchant();
    let import = killed_when(settle, &lines(&merchant, 0..MANY), |import| {
        import.state == ImportState::Staging && import.waiting > 0
    });
    assert!(import.waiting < MANY as u64, "{import:?}");
    abandon(settle, &import);
    let (mut serving, _, _) = Serving::ready(settle);
    serving.wait_for_once("an abandoned import has ended");
    serving.stop();
    assert_eq!((recorded(settle, &merchant).0, imports(settle)), (0, vec![]));
}

fn killed_after_it_is_accepted_the_service_records_the_rest(settle: &Settle) {
    let (one, two) = (settle.merchant(), settle.merchant());
    let contents = lines(&one, 0..MANY / 2) + &lines(&two, 0..MANY / 2);
    let import = killed_when(settle, &contents, |import| import.state == ImportState::Accepted);
    assert!(import.waiting > 0, "{import:?}");
    abandon(settle, &import);
    let (mut serving, _, _) = Serving::ready(settle);
    serving.wait_for_once("an abandoned import has ended");
    serving.stop();
    let half = MANY as u64 / 2;
    assert_eq!((recorded(settle, &one).0, recorded(settle, &two).0), (half, half), "all of it is there");
    assert_eq!(imports(settle), []);
}

fn killed_after_it_is_accepted_the_next_import_records_the_rest(settle: &Settle) {
    let merchant = settle.merchant();
    with_webhook(settle, &merchant);
    let contents = lines(&merchant, 0..MANY);
    let import = killed_when(settle, &contents, |import| import.state == ImportState::Accepted);
    abandon(settle, &import);
    let path = settle.write("next.jsonl", &lines(&merchant, MANY..MANY + 1_001));
    let done = settle.run(&["settlement", "import", text(&path), "--notify", "--json"]).json();
    assert_eq!(done["recorded"], 1_001);
    let all = MANY as u64 + 1_001;
    assert_eq!(
        (recorded(settle, &merchant).0, pending(settle, &merchant)),
        (all, all),
        "each is notified once"
    );
}
