//! Limits on the length of a file, a function and a line: nobody reads as a whole what does not fit a screen.

use crate::Violation;
use crate::code::{code_only, is_word, words};
use crate::tree::File;

const FILE_LINES_MAX: usize = 500;
const FUNCTION_LINES_MAX: usize = 70;
/// As in `rustfmt.toml`; but rustfmt ignores comments, strings and macros.
const LINE_CHARACTERS_MAX: usize = 110;

/// A file that is too long.
fn long_file(file: &File) -> Vec<Violation> {
    let lines = file.text.lines().count();
    if lines <= FILE_LINES_MAX {
        return Vec::new();
    }
    let reason = format!("{lines} lines, at most {FILE_LINES_MAX}: look for a seam and split it");
    vec![Violation::new(&file.path, FILE_LINES_MAX + 1, reason)]
}

/// Functions that are too long, counted from the line of `fn` to the line of the closing brace.
///
/// The body is everything between the first `{` after the name and its matching `}`. A function inside
/// another counts for both.
fn long_functions(file: &File) -> Vec<Violation> {
    let code = code_only(&file.text);
    let mut violations = Vec::new();
    for start in words(&code, "fn") {
        // `fn(…)` is a type.
        let is_item = code[start + 2..].trim_start().starts_with(is_word);
        let Some(lines) = is_item.then(|| body_lines(&code[start..])).flatten() else {
            continue;
        };
        if lines > FUNCTION_LINES_MAX {
            let line = code[..start].matches('\n').count() + 1;
            let reason =
                format!("a function of {lines} lines, at most {FUNCTION_LINES_MAX}: give its parts names");
            violations.push(Violation::new(&file.path, line, reason));
        }
    }
    violations
}

/// The lines of a function from its `fn` on; `None` if it has no body.
fn body_lines(code: &str) -> Option<usize> {
    let (mut brackets, mut braces, mut lines) = (0_i32, 0_i32, 1);
    for character in code.chars() {
        match character {
            '\n' => lines += 1,
            '(' | '[' => brackets += 1,
            ')' | ']' => brackets -= 1,
            '{' => braces += 1,
            '}' if braces == 1 => return Some(lines),
            '}' => braces -= 1,
            ';' if brackets == 0 && braces == 0 => return None,
            _ => {}
        }
    }
    None
}

/// Lines that are too long. A URL or a string cannot always be broken, so lines with part of one are exempt.
fn long_lines(file: &File) -> Vec<Violation> {
    let mut violations = Vec::new();
    for ((number, line), code) in file.lines().zip(code_only(&file.text).lines()) {
        let characters = line.chars().count();
        let within_string = code.trim().is_empty() && !line.trim_start().starts_with("//");
        let cannot_break = line.contains("://") || line.contains('"') || within_string;
        if characters > LINE_CHARACTERS_MAX && !cannot_break {
            let reason = format!("{characters} characters, at most {LINE_CHARACTERS_MAX}: break the line");
            violations.push(Violation::new(&file.path, number, reason));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::rust_files;
    use crate::{assert_lines, assert_none};

    #[test]
    fn files_are_short() {
        assert_none(&rust_files().flat_map(long_file).collect::<Vec<_>>());
    }

    #[test]
    fn functions_are_short() {
        assert_none(&rust_files().flat_map(long_functions).collect::<Vec<_>>());
    }

    #[test]
    fn lines_are_short() {
        assert_none(&rust_files().flat_map(long_lines).collect::<Vec<_>>());
    }

    #[test]
    fn a_long_file_is_found() {
        assert_lines(&long_file(&File::new("a.rs", &"\n".repeat(FILE_LINES_MAX))), &[]);
        assert_lines(&long_file(&File::new("a.rs", &"\n".repeat(FILE_LINES_MAX + 1))), &[FILE_LINES_MAX + 1]);
    }

    #[test]
    fn a_long_function_is_found() {
        let with_body = |body_lines: usize| {
            let body = "    call('{', \"}}}\"); // {\n".repeat(body_lines);
            let text = format!(
                "trait T {{ fn none(a: [u8; 4]); }}\n\nfn long(f: fn() -> u8) {{\n{body}}}\nfn short() {{}}\n"
            );
            File::new("a.rs", &text)
        };
        assert_lines(&long_functions(&with_body(FUNCTION_LINES_MAX - 2)), &[]);
        assert_lines(&long_functions(&with_body(FUNCTION_LINES_MAX - 1)), &[3]);
    }

    #[test]
    fn a_long_line_is_found() {
        let long = "x".repeat(LINE_CHARACTERS_MAX);
        let text = format!(
            "{long}\n{long}x\n// {long}\n// https://example.com/{long}\nlet a = \"\n    SELECT {long}\";\n\"\n{long}x\n\"\n"
        );
        assert_lines(&long_lines(&File::new("a.rs", &text)), &[2, 3]);
    }
}
