//! Ways in which a sandbox can be broken on purpose: what the conformance kit must notice.

/// A fault of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// The same operation again is executed again.
    ExecutesTwice,
    /// The same operation again is taken for a new one.
    ForgetsKeys,
    /// Another body under a known key is answered as if it were the first.
    AcceptsOtherBodies,
    /// While a call is under way, a look-up says that there is no such operation.
    LookUpLies,
    /// What was voided is executed when its request comes.
    VoidDoesNotHold,
    /// A request is believed whoever signed it.
    AcceptsForgedSignatures,
    /// A request is believed whenever it was signed.
    AcceptsOldSignatures,
    /// Amounts are rounded to cents in answers.
    RoundsAmounts,
    /// Answers are not signed.
    AnswersUnsigned,
    /// The list of changes leaves everything out.
    ListsNothing,
}

impl Broken {
    /// Every fault.
    #[cfg(feature = "testing")]
    pub const ALL: [Broken; 10] = [
        Broken::ExecutesTwice,
        Broken::ForgetsKeys,
        Broken::AcceptsOtherBodies,
        Broken::LookUpLies,
        Broken::VoidDoesNotHold,
        Broken::AcceptsForgedSignatures,
        Broken::AcceptsOldSignatures,
        Broken::RoundsAmounts,
        Broken::AnswersUnsigned,
        Broken::ListsNothing,
    ];
}
