//! Resolvers that hold a request up for as long as a test wants.

use std::net::IpAddr;

use settle_notify::guard::{Resolve, ResolveFault};
use tokio::sync::Notify;

/// A resolver that tells when it is asked, and answers when the test says so.
#[derive(Default)]
pub struct Gate {
    pub asked: Notify,
    pub open: Notify,
}

#[async_trait::async_trait]
impl Resolve for Gate {
    async fn addresses(&self, _name: &str) -> Result<Vec<IpAddr>, ResolveFault> {
        self.asked.notify_one();
        self.open.notified().await;
        Ok(vec!["93.184.215.14".parse().expect("an address")])
    }
}
