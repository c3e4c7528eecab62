//! `settle openapi`.

use settle_testing::binary::Settle;

use crate::BINARY;

#[test]
fn the_printed_document_is_the_committed_one() {
    let settle = Settle::sqlite(BINARY);
    let printed = settle.run(&["openapi"]);
    assert_eq!(printed.ok(), include_str!("../../../../openapi.json"));
    let printed = settle.run(&["openapi", "--provider"]);
    assert_eq!(printed.ok(), include_str!("../../../../provider-openapi.json"));
    assert!(!settle.data().exists(), "it needs neither settings nor a store");
}
