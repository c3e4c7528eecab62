//! What a provider and we may not agree on.

use crate::named::named;

named! {
    /// What does not agree.
    pub enum FindingKind, "a kind of finding" {
        /// The provider did something that we never asked it for.
        UnknownToUs = "unknown_to_us",
        /// The provider does not list what it had accepted.
        UnknownToThem = "unknown_to_them",
        /// Another amount, asset or kind.
        OtherAmounts = "other_amounts",
        /// Another name for it than the one that we hold.
        OtherReference = "other_reference",
        /// Money came back.
        Returned = "returned",
        /// The provider says that it was done, and we did not hold it so.
        SucceededThere = "succeeded_there",
        /// The provider says that it was refused, and we hold it to be done.
        RefusedThere = "refused_there",
        /// The provider says that it is still at it, and we hold it to be ended.
        PendingThere = "pending_there",
        /// We cannot read what we hold of it, or what the provider says of it.
        Unreadable = "unreadable",
    }
}

impl FindingKind {
    /// What a person reads.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::UnknownToUs => "the provider has it, and we never asked for it",
            Self::UnknownToThem => "the provider does not list what it had accepted",
            Self::OtherAmounts => "the provider says another amount, asset or kind than we hold",
            Self::OtherReference => "the provider calls it by another reference than we hold",
            Self::Returned => "the provider says that the money came back",
            Self::SucceededThere => "the provider says that it was done, and we did not hold it so",
            Self::RefusedThere => "the provider says that it was refused, and we hold it to be done",
            Self::PendingThere => "the provider says that it is still at it, and we hold it to be ended",
            Self::Unreadable => "this version cannot read what one of both sides holds",
        }
    }
}
