//! Which postings each step of a payment makes.
//!
//! | movement | incoming asset | outgoing asset |
//! |---|---|---|
//! | receive | payer → `client_funds` | |
//! | begin a conversion | `client_funds` → converting | |
//! | convert | converting → exchange | exchange → payable, fees, spread, commission |
//! | begin a payout | | payable → `paying_out` |
//! | complete | | `paying_out` → paid |
//!
//! Abandoning goes the same way back. A refund before a conversion takes `client_funds`; after one the house
//! pays it out of its inventory, and keeps there what was bought. What an operation moves after its payment
//! has gone on without it is the house's own: a conversion changes its inventory, a payout or refund is its
//! loss.

use super::{Account, PostingFault, Postings};
use crate::money::{Asset, Decimal};
use crate::named::named;
use crate::operation::OperationKind;
use crate::quote::Quote;
use crate::quoting::Split;

named! {
    /// What we hold of a payment when nothing of it is in flight.
    pub enum Held, "what we hold of a payment: incoming or outgoing" {
        /// What came in, before a conversion.
        Incoming = "incoming",
        /// What was bought, reserved for the merchant.
        Outgoing = "outgoing",
    }
}

/// An operation that moved, or may yet move, after its payment had gone on without it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Late {
    /// What it was.
    pub kind: OperationKind,
    /// Whether it is known that it moved, and stands in the books; if not, it may yet move.
    pub moved: bool,
}

/// How a step of a payment moves money.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Movement {
    /// It does not.
    None,
    /// The pay-in has come.
    Receive,
    /// A conversion is asked for.
    BeginConversion,
    /// It was not done.
    AbandonConversion,
    /// It was done.
    Convert,
    /// What came in is what goes out.
    SkipConversion,
    /// A payout is asked for.
    BeginPayout,
    /// It was not done.
    AbandonPayout,
    /// It was done.
    Complete,
    /// A refund is asked for.
    BeginRefund(Held),
    /// It was not done.
    AbandonRefund(Held),
    /// It was done.
    Refund(Held),
    /// A payout or refund came back later.
    Return(OperationKind),
    /// An operation moved after its payment had gone on.
    MoveLate(OperationKind),
    /// What had moved late came back.
    ReturnLate(OperationKind),
    /// A person says that the late operation was the payment's after all.
    Adopt(Late, Held),
}

/// The amounts that movements post.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Books<'a> {
    /// What came in.
    pub incoming: Asset,
    /// How much of it.
    pub incoming_amount: Decimal,
    /// What goes out.
    pub outgoing: Asset,
    /// The frozen amounts, from the first quote on.
    pub quote: Option<&'a Quote>,
    /// How what was bought is divided, from the conversion on.
    pub split: Option<&'a Split>,
    /// What a late conversion bought.
    pub late_bought: Option<Decimal>,
}

/// The postings of a movement.
pub fn postings(movement: Movement, books: &Books<'_>) -> Result<Postings, PostingFault> {
    use Account::{
        Astray, ClientFunds, Converting, Exchange, HouseLoss, Inventory, Paid, Payable, Payer, PayingOut,
        Refunded, Refunding, Returned,
    };
    match movement {
        Movement::None => Ok(Postings::none()),
        Movement::Receive => books.incoming(Payer, ClientFunds),
        Movement::BeginConversion => books.incoming(ClientFunds, Converting),
        Movement::AbandonConversion => books.incoming(Converting, ClientFunds),
        Movement::Convert => books.incoming(Converting, Exchange)?.merged(books.divided(Exchange)?),
        Movement::SkipConversion => books.divided(ClientFunds),
        Movement::BeginPayout => books.outgoing(Payable, PayingOut),
        Movement::AbandonPayout => books.outgoing(PayingOut, Payable),
        Movement::Complete => books.outgoing(PayingOut, Paid),
        Movement::BeginRefund(held) => books.incoming(refunded_from(held), Refunding),
        Movement::AbandonRefund(held) => books.incoming(Refunding, refunded_from(held)),
        Movement::Refund(held) => books.incoming(Refunding, Refunded)?.merged(books.kept(held)?),
        Movement::Return(kind) => match kind {
            OperationKind::Conversion => Err(PostingFault::AmountsMissing),
            OperationKind::Payout => books.outgoing(Paid, Returned),
            OperationKind::Refund => books.incoming(Refunded, Returned),
        },
        Movement::MoveLate(kind) => match kind {
            OperationKind::Conversion => {
                let bought = books.late_bought.ok_or(PostingFault::AmountsMissing)?;
                books.incoming(Inventory, Exchange)?.and(books.outgoing, Exchange, Inventory, bought)
            }
            OperationKind::Payout => books.outgoing(HouseLoss, Astray),
            OperationKind::Refund => books.incoming(HouseLoss, Astray),
        },
        Movement::ReturnLate(kind) => match kind {
            OperationKind::Conversion => Err(PostingFault::AmountsMissing),
            OperationKind::Payout => books.outgoing(Astray, HouseLoss),
            OperationKind::Refund => books.incoming(Astray, HouseLoss),
        },
        Movement::Adopt(late, held) => adopted(late, held, books),
    }
}

/// Whose money a refund is: the client's before a conversion, the house's after one.
const fn refunded_from(held: Held) -> Account {
    match held {
        Held::Incoming => Account::ClientFunds,
        Held::Outgoing => Account::Inventory,
    }
}

/// A late operation becomes the payment's own. If it stands in the books as the house's, that is undone.
fn adopted(late: Late, held: Held, books: &Books<'_>) -> Result<Postings, PostingFault> {
    use Account::{Astray, ClientFunds, Exchange, HouseLoss, Inventory, Paid, Payable, Refunded};
    match (late.kind, held) {
        (OperationKind::Conversion, Held::Incoming) => {
            let counterpart = if late.moved { Inventory } else { Exchange };
            books.incoming(ClientFunds, counterpart)?.merged(books.divided(counterpart)?)
        }
        // Another conversion has served the payment: the late one stays the house's.
        (OperationKind::Conversion, Held::Outgoing) => Ok(Postings::none()),
        (OperationKind::Payout, _) => {
            let paid = books.outgoing(Payable, Paid)?;
            if late.moved { paid.merged(books.outgoing(Astray, HouseLoss)?) } else { Ok(paid) }
        }
        (OperationKind::Refund, held) => {
            let refunded = books.incoming(refunded_from(held), Refunded)?.merged(books.kept(held)?)?;
            if late.moved { refunded.merged(books.incoming(Astray, HouseLoss)?) } else { Ok(refunded) }
        }
    }
}

/// The postings of what a payout or refund moved beyond what was owed. Refused if it is less: then the
/// destination does not have the whole amount.
pub fn excess(kind: OperationKind, moved: Decimal, books: &Books<'_>) -> Result<Postings, PostingFault> {
    let (asset, owed) = match kind {
        OperationKind::Conversion => return Err(PostingFault::AmountsMissing),
        OperationKind::Payout => (books.outgoing, books.quote()?.outgoing_amount),
        OperationKind::Refund => (books.incoming, books.incoming_amount),
    };
    let moved = asset.amount(moved).ok_or(PostingFault::OutOfRange(asset))?;
    let beyond = moved.coefficient().checked_sub(owed.coefficient()).ok_or(PostingFault::TooLittle(owed))?;
    let beyond = Decimal::new(beyond, asset.decimals()).ok_or(PostingFault::OutOfRange(asset))?;
    Postings::none().and(asset, Account::HouseLoss, Account::Astray, beyond)
}

impl Books<'_> {
    fn quote(&self) -> Result<&Quote, PostingFault> {
        self.quote.ok_or(PostingFault::AmountsMissing)
    }

    fn split(&self) -> Result<&Split, PostingFault> {
        self.split.ok_or(PostingFault::AmountsMissing)
    }

    /// The whole incoming amount.
    fn incoming(&self, from: Account, to: Account) -> Result<Postings, PostingFault> {
        Postings::none().and(self.incoming, from, to, self.incoming_amount)
    }

    /// The whole outgoing amount.
    fn outgoing(&self, from: Account, to: Account) -> Result<Postings, PostingFault> {
        Postings::none().and(self.outgoing, from, to, self.quote()?.outgoing_amount)
    }

    /// Everything that was bought.
    fn bought(&self, from: Account, to: Account) -> Result<Postings, PostingFault> {
        Postings::none().and(self.outgoing, from, to, self.split()?.bought)
    }

    /// What was bought, divided. The house adds what is missing.
    fn divided(&self, from: Account) -> Result<Postings, PostingFault> {
        let split = self.split()?;
        self.bought(from, Account::Payable)?
            .and(self.outgoing, Account::HouseLoss, Account::Payable, split.shortfall)?
            .and(self.outgoing, Account::Payable, Account::Fees, split.fees)?
            .and(self.outgoing, Account::Payable, Account::Spread, split.spread)?
            .and(self.outgoing, Account::Payable, Account::Commission, split.commission)
    }

    /// What was bought and is not paid out becomes the house's: a refund takes no fees.
    fn kept(&self, held: Held) -> Result<Postings, PostingFault> {
        match held {
            Held::Incoming => Ok(Postings::none()),
            Held::Outgoing => {
                let split = self.split()?;
                self.bought(Account::Payable, Account::Inventory)?
                    .and(self.outgoing, Account::Payable, Account::HouseLoss, split.shortfall)?
                    .and(self.outgoing, Account::Fees, Account::Payable, split.fees)?
                    .and(self.outgoing, Account::Spread, Account::Payable, split.spread)?
                    .and(self.outgoing, Account::Commission, Account::Payable, split.commission)
            }
        }
    }
}
