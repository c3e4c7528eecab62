//! The accounts, and which of them may be negative.

use crate::named::named;

named! {
    /// Where money is, or has gone.
    pub enum Account, "an account" {
        /// What payers have paid in, as a negative figure: the world outside.
        Payer = "payer",
        /// What came in and waits.
        ClientFunds = "client_funds",
        /// What is in flight in a conversion.
        Converting = "converting",
        /// What was sold, and as a negative figure what was bought.
        Exchange = "exchange",
        /// What was bought and is reserved for the merchant.
        Payable = "payable",
        /// Fees earned.
        Fees = "fees",
        /// Spread earned.
        Spread = "spread",
        /// The partners' part of the spread.
        Commission = "commission",
        /// What is in flight in a payout.
        PayingOut = "paying_out",
        /// What the merchant has.
        Paid = "paid",
        /// What is in flight back to the payer.
        Refunding = "refunding",
        /// What the payer has back.
        Refunded = "refunded",
        /// What was paid or paid back and has come back to us.
        Returned = "returned",
        /// The house's own stock: what it sold for others less what it kept.
        Inventory = "inventory",
        /// What the house has lost, as a negative figure.
        HouseLoss = "house_loss",
        /// What an operation moved beyond what was owed.
        Astray = "astray",
    }
}

impl Account {
    /// Whether a balance below zero is right: the world outside, the exchange, and the house's own accounts.
    #[must_use]
    pub const fn may_be_negative(self) -> bool {
        match self {
            Self::Payer | Self::Exchange | Self::Inventory | Self::HouseLoss => true,
            Self::ClientFunds
            | Self::Converting
            | Self::Payable
            | Self::Fees
            | Self::Spread
            | Self::Commission
            | Self::PayingOut
            | Self::Paid
            | Self::Refunding
            | Self::Refunded
            | Self::Returned
            | Self::Astray => false,
        }
    }
}
