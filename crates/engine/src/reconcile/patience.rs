//! How long a step goes on with a provider that does not say what became of its operations.
//!
//! A provider may be away for a while, and an operation may be one that it never says anything of. So the
//! first tries end with the first silence, and later ones go on without a word, but not for long: who is
//! silent several times in a row is away, and each silence may take as long as a call may. With each try it
//! is twice as many, so that a step gets on in the end.

use settle_provider::seen::Seen;
use settle_provider::wire::Operation;

use super::{PAGE_TRIES, ReconcileError};
use crate::providers::Station;

/// Silences in a row that the first step to go on without a word bears.
const SILENCES_MAX: u32 = 5;
/// How often that is doubled at most.
const DOUBLINGS_MAX: u32 = 16;

/// Whether the provider said something of the operation, be it from another memory, which teaches nothing.
pub(super) const fn is_word(seen: &Seen<Operation>) -> bool {
    matches!(seen, Seen::Answered(_) | Seen::Absent(_))
}

/// Whether a step can go on without the provider's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    /// Only after some tries: nobody asks again.
    Needed,
    /// It changes nothing of what is found.
    Wanted,
}

/// What a step bears.
#[derive(Debug)]
pub(super) struct Patience {
    silences: u32,
    borne: u32,
}

impl Patience {
    /// That of a step that has failed so often in a row.
    pub(super) fn after(failures: u32) -> Patience {
        let more = (failures + 1).checked_sub(PAGE_TRIES);
        Patience { silences: 0, borne: more.map_or(0, |more| SILENCES_MAX << more.min(DOUBLINGS_MAX)) }
    }

    /// The provider was asked about an operation. An error ends the step.
    pub(super) fn asked(
        &mut self,
        station: &Station,
        seen: &Seen<Operation>,
        word: Word,
    ) -> Result<(), ReconcileError> {
        if is_word(seen) {
            self.silences = 0;
            return Ok(());
        }
        if self.bears_silence(word) {
            return Ok(());
        }
        Err(ReconcileError::NoWord(station.name().clone(), seen.told()))
    }

    fn bears_silence(&mut self, word: Word) -> bool {
        self.silences += 1;
        let borne = match word {
            Word::Needed => self.borne,
            Word::Wanted => self.borne.max(SILENCES_MAX),
        };
        self.silences <= borne
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many silences in a row a step bears.
    fn borne(failures: u32, word: Word) -> usize {
        let mut patience = Patience::after(failures);
        (0..100).take_while(|_| patience.bears_silence(word)).count()
    }

    #[test]
    fn a_step_bears_more_with_each_try_and_never_for_ever() {
        let needed: Vec<usize> = (0..5).map(|failures| borne(failures, Word::Needed)).collect();
        assert_eq!(needed, [0, 0, 5, 10, 20]);
        let wanted: Vec<usize> = (0..5).map(|failures| borne(failures, Word::Wanted)).collect();
        assert_eq!(wanted, [5, 5, 5, 10, 20]);
        assert_eq!(borne(u32::MAX - 1, Word::Needed), 100);
    }
}
