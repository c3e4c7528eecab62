//! An `…Error` means that an operation of ours failed; it may have a cause. A `…Fault` is a verdict on
//! something given to us; it has none.

use crate::Violation;
use crate::code::{code_only, is_word, words};
use crate::tree::File;

const REASON: &str = "a `…Fault` is a verdict, complete in itself: what failed for a cause is an `…Error`";

/// Finds causes in types that are called `…Fault`.
fn causes(file: &File) -> Vec<Violation> {
    let code = code_only(&file.text);
    let mut starts: Vec<usize> =
        ["struct", "enum"].into_iter().flat_map(|keyword| words(&code, keyword)).collect();
    starts.sort_unstable();
    let mut violations = Vec::new();
    for start in starts {
        let Some(definition) = fault_definition(&code[start..]) else {
            continue;
        };
        let first = code[..start].matches('\n').count() + 1;
        let with_cause = definition.lines().enumerate().filter(|(_, line)| has_cause(line));
        violations.extend(with_cause.map(|(index, _)| Violation::new(&file.path, first + index, REASON)));
    }
    violations
}

/// A type definition from its keyword to its end, if its name ends with `Fault`.
fn fault_definition(code: &str) -> Option<&str> {
    let name = code.split(|character| !is_word(character)).filter(|word| !word.is_empty()).nth(1)?;
    if !name.ends_with("Fault") {
        return None;
    }
    let mut depth = 0_usize;
    for (position, character) in code.char_indices() {
        match character {
            '(' | '[' | '{' => depth += 1,
            '}' if depth == 1 => return Some(&code[..position]),
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            ';' if depth == 0 => return Some(&code[..position]),
            _ => {}
        }
    }
    None
}

/// Whether a line of a definition marks a cause, has a field with such a name, or holds an error.
fn has_cause(line: &str) -> bool {
    let is_field = |position: usize| {
        let rest = line[position + "source".len()..].trim_start();
        rest.starts_with(':') && !rest.starts_with("::")
    };
    let holds_error = line.split(|character| !is_word(character)).any(|word| word.ends_with("Error"));
    line.contains("#[source]")
        || line.contains("#[from]")
        || words(line, "source").any(is_field)
        || holds_error
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::rust_files;
    use crate::{assert_lines, assert_none};

    #[test]
    fn no_fault_has_a_cause() {
        assert_none(&rust_files().flat_map(causes).collect::<Vec<_>>());
    }

    #[test]
    fn a_fault_with_a_cause_is_found() {
        let text = "#[derive(Debug, thiserror::Error)]\npub enum KeyFault {\n    Bent(#[from] bend::Angle),\n\
                    \x20   Lost(#[source] Thief),\n    Other {\n        source: io::ErrorKind,\n    },\n\
                    \x20   Store(Arc<StoreError>),\n    Late([u8; 4], source::Text),\n}\n\
                    struct LockFault(io::Error);\nstruct DoorFault;\npub struct KeyError(#[source] Thief);\n\
                    pub struct WallFault { pub source: String }\n";
        assert_lines(&causes(&File::new("a.rs", text)), &[3, 4, 6, 8, 11, 14]);
    }

    #[test]
    fn a_fault_of_its_own_is_fine() {
        let text = "#[derive(Debug, thiserror::Error)]\npub enum KeyFault {\n    /// Not an `Error`.\n\
                    \x20   #[error(\"source: {0}\")]\n    Bent(String),\n    Connect(io::ErrorKind),\n}\n\
                    impl From<io::Error> for KeyFault {}\n";
        assert_lines(&causes(&File::new("a.rs", text)), &[]);
    }
}
