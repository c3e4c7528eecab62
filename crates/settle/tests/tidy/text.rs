//! What no file of the repository may contain, whatever its language.

use crate::Violation;
use crate::code::{is_word, words};
use crate::tree::File;

/// Folders of one developer's machine. Assembled here, so that this file passes its own rule.
const MACHINE_FOLDERS: &[&str] = &[concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];
const OUTSIDE_FOLDER: &str = concat!("../sha", "red");
const MARKS: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

/// Files that people write by hand and no formatter cleans.
const HAND_WRITTEN: &[&str] = &["ftl", "md", "py", "sql", "toml"];

/// Paths that exist on one machine only, and marks of unfinished work.
fn unwanted(file: &File) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (number, line) in file.lines() {
        for folder in MACHINE_FOLDERS.iter().filter(|folder| starts_a_path(line, folder)) {
            let reason = format!("`{folder}` is a folder of one machine: nobody else has it");
            violations.push(Violation::new(&file.path, number, reason));
        }
        if line.contains(OUTSIDE_FOLDER) {
            violations.push(Violation::new(&file.path, number, "a clone has nothing outside of itself"));
        }
        for mark in MARKS.iter().filter(|mark| words(line, mark).next().is_some()) {
            let reason = format!("`{mark}`: do it, or open an issue, where it is found again");
            violations.push(Violation::new(&file.path, number, reason));
        }
    }
    violations
}

/// Whether an absolute path starts here with the folder; inside a URL or a relative path it does not.
fn starts_a_path(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(position, _)| {
        let before = line[..position].chars().next_back();
        !before.is_some_and(|character| is_word(character) || "-.$}*".contains(character))
    })
}

/// Blanks at the end of a line.
fn trailing_blanks(file: &File) -> Vec<Violation> {
    if !HAND_WRITTEN.iter().any(|extension| file.has_extension(extension)) {
        return Vec::new();
    }
    let lines = file.lines().filter(|(_, line)| line.ends_with([' ', '\t']));
    lines.map(|(number, _)| Violation::new(&file.path, number, "blanks at the end of the line")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::files;
    use crate::{assert_lines, assert_none};

    #[test]
    fn no_file_has_unwanted_text() {
        assert_none(&files().iter().flat_map(unwanted).collect::<Vec<_>>());
    }

    #[test]
    fn no_line_ends_with_blanks() {
        assert_none(&files().iter().flat_map(trailing_blanks).collect::<Vec<_>>());
    }

    #[test]
    fn unwanted_text_is_found() {
        for folder in MACHINE_FOLDERS {
            let text = format!("cd {folder}x\nhttps://example.com{folder}x\n\"{folder}x\"\n");
            assert_lines(&unwanted(&File::new("a.md", &text)), &[1, 3]);
        }
        for mark in MARKS {
            let text = format!("{mark}: later\n{mark}S\n# {mark}\n");
            assert_lines(&unwanted(&File::new("a.toml", &text)), &[1, 3]);
        }
        assert_lines(&unwanted(&File::new("a.rs", &format!("see {OUTSIDE_FOLDER}/a.md\n"))), &[1]);
    }

    #[test]
    fn blanks_at_the_end_are_found() {
        let text = "a\nb \n\nc\t\n";
        assert_lines(&trailing_blanks(&File::new("README.md", text)), &[2, 4]);
        assert_lines(&trailing_blanks(&File::new("corpus.tsv", text)), &[]);
    }
}
