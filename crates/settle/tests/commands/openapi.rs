//! `settle openapi`.

use settle_testing::binary::Settle;

use crate::BINARY;

#[test]
fn the_printed_documents_are_the_committed_ones() {
    let settle = Settle::sqlite(BINARY);
    let printed = settle.run(&["openapi"]);
    assert_eq!(printed.ok(), include_str!("../../../../openapi.json"));
    for (document, committed) in [
        ("--operator", include_str!("../../../../operator-openapi.json")),
        ("--provider", include_str!("../../../../provider-openapi.json")),
    ] {
        assert_eq!(settle.run(&["openapi", document]).ok(), committed);
    }
    assert!(!settle.data().exists(), "it needs neither settings nor a store");
}
