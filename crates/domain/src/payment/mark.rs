//! What a person's word makes of an operation.

use crate::operation::{Memory, OperationKind, OperationStatus};

/// What a person's word makes of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mark {
    /// The open operation succeeded.
    Succeeded,
    /// The open operation is given up.
    GivenUp,
    /// The late operation of this kind succeeded, and is the payment's own: no longer late.
    Adopted(OperationKind),
}

impl Mark {
    /// What the operation remembers from now on. A person's word is never put in the place of the provider's:
    /// what was done or came back stays so, but a payment that goes on without it makes room for another.
    #[must_use]
    pub const fn apply(self, memory: Memory) -> Memory {
        let is_done = matches!(memory.status, OperationStatus::Succeeded | OperationStatus::Returned);
        match (self, is_done) {
            (Mark::Succeeded, false) => Memory { status: OperationStatus::Succeeded, ..memory },
            (Mark::Succeeded, true) => memory,
            (Mark::GivenUp, false) => Memory { status: OperationStatus::GivenUp, ..memory },
            (Mark::GivenUp, true) => Memory { is_late: true, ..memory },
            (Mark::Adopted(_), false) => {
                Memory { status: OperationStatus::Succeeded, is_late: false, ..memory }
            }
            (Mark::Adopted(_), true) => Memory { is_late: false, ..memory },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(status: OperationStatus) -> Memory {
        Memory { status, was_unknown: true, ..Memory::NEW }
    }

    #[test]
    fn a_persons_word_ends_what_is_open() {
        for status in [OperationStatus::Prepared, OperationStatus::Accepted, OperationStatus::Unknown] {
            let succeeded = Mark::Succeeded.apply(memory(status));
            assert_eq!((succeeded.status, succeeded.is_live()), (OperationStatus::Succeeded, true));
            let given_up = Mark::GivenUp.apply(memory(status));
            assert_eq!((given_up.status, given_up.is_live()), (OperationStatus::GivenUp, false));
            assert!(given_up.was_unknown, "what it remembers stays");
        }
    }

    #[test]
    fn the_providers_word_stays_and_makes_room_when_the_payment_goes_on() {
        for status in [OperationStatus::Succeeded, OperationStatus::Returned] {
            assert_eq!(Mark::Succeeded.apply(memory(status)), memory(status));
            let given_up = Mark::GivenUp.apply(memory(status));
            assert_eq!((given_up.status, given_up.is_live()), (status, false));
        }
    }

    #[test]
    fn what_is_adopted_is_late_no_longer() {
        let adopted = Mark::Adopted(OperationKind::Payout);
        for (before, after) in [
            (OperationStatus::Unknown, OperationStatus::Succeeded),
            (OperationStatus::Accepted, OperationStatus::Succeeded),
            (OperationStatus::Succeeded, OperationStatus::Succeeded),
            (OperationStatus::Returned, OperationStatus::Returned),
        ] {
            let memory = adopted.apply(Memory { is_late: true, ..memory(before) });
            assert_eq!((memory.status, memory.is_late), (after, false), "{before}");
        }
    }
}
