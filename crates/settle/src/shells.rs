//! Words for the shells that people paste commands into: bash, zsh and fish read them alike.

use std::borrow::Cow;

/// The word as all three shells take it: bare if none of its characters means anything to any of them, and
/// otherwise in single quotes.
///
/// zsh and fish look for files where a bare word has a `?`, zsh also where it begins with `=`. Inside single
/// quotes fish gives a meaning to `\` and to nothing else, and the others give none to anything; so a quote
/// and a backslash stand outside of them, each behind a backslash.
pub(crate) fn quoted(word: &str) -> Cow<'_, str> {
    let is_bare = |character: char| character.is_ascii_alphanumeric() || "_-./:@+,".contains(character);
    if !word.is_empty() && word.chars().all(is_bare) {
        return Cow::Borrowed(word);
    }
    let mut quoted = String::with_capacity(word.len() + 2);
    quoted.push('\'');
    for character in word.chars() {
        match character {
            '\'' | '\\' => quoted.extend(['\'', '\\', character, '\'']),
            character => quoted.push(character),
        }
    }
    quoted.push('\'');
    Cow::Owned(quoted)
}

/// The words as one line to paste.
pub(crate) fn line(words: &[&str]) -> String {
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn only_what_means_nothing_to_a_shell_is_bare() {
        for bare in ["curl", "-s", "http://127.0.0.1:8080/v1/settlements", "a_b,c+d@e"] {
            assert_eq!(quoted(bare), bare);
        }
        for character in " ?*[]{}()<>|&;~#$`\"!=%^\n\té".chars() {
            assert_eq!(quoted(&format!("a{character}b")), format!("'a{character}b'"));
        }
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted(r"it's a \n"), r"'it'\''s a '\\'n'");
    }

    /// bash is on every machine that runs the tests. What it reads, zsh and fish read too: the rules above
    /// leave out whatever they read in another way.
    #[test]
    fn bash_reads_every_word_back() {
        let all: String = (1..=126).map(char::from).collect();
        let words =
            ["echo", "", all.as_str(), r"\\", r"\'", "'", "!!", "$HOME ~ `ls`", "?limit=2&offset=3", "Ñandú"];
        let script = format!("printf '%s\\0' {}", line(&words));
        let output = Command::new("bash").args(["-c", &script]).output().expect("bash runs");
        let read: Vec<&str> =
            std::str::from_utf8(&output.stdout).expect("UTF-8").split_terminator('\0').collect();
        assert_eq!(read, words);
    }
}
