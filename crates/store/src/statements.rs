//! How a backend declares its SQL: every statement has a name, and is hot or gives a reason why it is not.

/// Whether a request or a delivery waits for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heat {
    /// A request or a delivery waits for it: its plan must not scan a table that grows.
    Hot,
    /// An operator or a start-up uses it, for the reason given.
    Cold(&'static str),
}

/// A declared statement.
#[derive(Debug, Clone, Copy)]
pub struct Statement {
    /// The name of its constant.
    pub name: &'static str,
    /// Its text.
    pub sql: &'static str,
    /// Whether a request or a delivery waits for it.
    pub heat: Heat,
}

/// Declares the statements of a file: a `const` for each, and `STATEMENTS`, the list that the plan test
/// reads.
///
/// ```
/// settle_store::statements! {
///     hot FIND = "SELECT 1";
///     cold "an operator's listing" LIST = "SELECT 2";
/// }
/// assert_eq!((FIND, STATEMENTS.len()), ("SELECT 1", 2));
/// ```
#[macro_export]
macro_rules! statements {
    (@heat hot) => { $crate::statements::Heat::Hot };
    (@heat cold $reason:literal) => { $crate::statements::Heat::Cold($reason) };
    ($($heat:ident $($reason:literal)? $name:ident = $sql:expr;)+) => {
        $(const $name: &str = $sql;)+

        /// The statements of this file.
        pub(crate) const STATEMENTS: &[$crate::statements::Statement] = &[
            $($crate::statements::Statement {
                name: stringify!($name),
                sql: $name,
                heat: $crate::statements!(@heat $heat $($reason)?),
            }),+
        ];
    };
}
