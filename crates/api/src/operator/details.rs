//! The problems of a request, in words: the first ones one by one, of the others only the number.

/// Most problems listed; the others are only counted.
const LISTED_MAX: usize = 20;

/// A bounded list of problems.
#[derive(Default)]
pub(super) struct Details {
    listed: Vec<String>,
    unlisted: usize,
}

impl Details {
    /// Adds a problem.
    pub(super) fn push(&mut self, problem: impl FnOnce() -> String) {
        if self.listed.len() < LISTED_MAX {
            self.listed.push(problem());
        } else {
            self.unlisted += 1;
        }
    }

    /// Whether nothing is wrong.
    pub(super) fn is_empty(&self) -> bool {
        self.listed.is_empty()
    }

    /// The list as the answer carries it.
    pub(super) fn into_list(mut self) -> Vec<String> {
        if self.unlisted > 0 {
            self.listed.push(format!("and {} more", self.unlisted));
        }
        self.listed
    }
}
