//! Adding and listing merchants.

use settle_accounts::merchants;
use settle_accounts::{AccountError, NameFault};
use settle_store::conformance::{ScratchStore, fixtures};

use crate::Setup;

settle_testing::on_both_stores! {
    a_merchant_is_added_under_a_name_that_can_be_read,
}

async fn a_merchant_is_added_under_a_name_that_can_be_read(scratch: ScratchStore) {
    let setup = Setup::on(scratch).await;
    let create = async |name| merchants::create(&*setup.store, &setup.clock, &setup.entropy, name).await;
    let refused = create("").await;
    assert!(matches!(refused, Err(AccountError::Name(NameFault::Empty))), "{refused:?}");
    let bakery = create(" Bäckerei ").await.unwrap();
    assert_eq!((bakery.name.as_str(), bakery.created_at), ("Bäckerei", fixtures::at(1)));
    let listed = merchants::list(&*setup.store).await.unwrap();
    assert!(listed.is_sorted_by_key(|merchant| merchant.merchant_id));
    assert_eq!((listed.len(), listed.contains(&bakery)), (2, true));
}
