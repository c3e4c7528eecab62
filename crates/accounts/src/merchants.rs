//! Adding and listing merchants.

use settle_domain::ids::MerchantId;
use settle_domain::seams::{Clock, Entropy};
use settle_store::{Merchant, Store};

use crate::AccountError;
use crate::names::checked;

/// Merchants read in one call.
const LIST_PAGE: u32 = 1_000;

/// Adds a merchant.
pub async fn create(
    store: &dyn Store,
    clock: &dyn Clock,
    entropy: &dyn Entropy,
    name: &str,
) -> Result<Merchant, AccountError> {
    let name = checked(name).map_err(AccountError::Name)?;
    let now = clock.now();
    let merchant = Merchant { merchant_id: MerchantId::new(now, entropy), name, created_at: now };
    let mut tx = store.begin().await?;
    tx.merchant_create(&merchant).await?;
    tx.commit().await?;
    Ok(merchant)
}

/// All merchants, in the order of their ids.
pub async fn list(store: &dyn Store) -> Result<Vec<Merchant>, AccountError> {
    let mut merchants: Vec<Merchant> = Vec::new();
    loop {
        let after = merchants.last().map(|last| last.merchant_id);
        let page = store.merchant_list(after, LIST_PAGE).await?;
        if page.is_empty() {
            return Ok(merchants);
        }
        merchants.extend(page);
    }
}
