//! The problems of a request, in words: the first ones one by one, of the others only the number.

use crate::error::ApiError;
use crate::http::{Excerpt, Parameters};

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

    /// Adds the parameters of a query that a list does not have: a misspelt filter must not look like one
    /// that finds everything.
    pub(super) fn unknown(&mut self, parameters: &Parameters, known: &[&str]) {
        for name in parameters.others(known) {
            self.push(|| format!("{}: is not a parameter of this list", Excerpt(name)));
        }
    }

    /// Refuses the request if something is wrong.
    pub(super) fn end(self) -> Result<(), ApiError> {
        if self.is_empty() { Ok(()) } else { Err(ApiError::AdminValidation(self.into_list())) }
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
