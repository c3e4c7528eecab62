//! Rust source without its comments and literals, so that a rule sees only code.

/// The text with comments, strings and characters replaced by blanks. Lines stay where they are.
#[must_use]
pub fn code_only(text: &str) -> String {
    let characters: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let mut position = 0;
    while position < characters.len() {
        let end = literal_end(&characters, position);
        if end == position {
            code.push(characters[position]);
            position += 1;
        } else {
            for &character in &characters[position..end] {
                code.push(if character == '\n' { '\n' } else { ' ' });
            }
            position = end;
        }
    }
    code
}

/// The end of the comment or literal that starts at `start`; `start` itself if there is none.
fn literal_end(characters: &[char], start: usize) -> usize {
    let next = characters.get(start + 1).copied();
    match (characters[start], next) {
        ('/', Some('/')) => find(characters, start, '\n'),
        ('/', Some('*')) => block_comment_end(characters, start),
        ('"', _) => quoted_end(characters, start + 1, '"'),
        ('r', Some('"' | '#')) if !follows_word(characters, start) => raw_string_end(characters, start),
        ('\'', Some('\\')) => quoted_end(characters, start + 1, '\''),
        // Without the second quote this is a lifetime.
        ('\'', Some(_)) if characters.get(start + 2) == Some(&'\'') => start + 3,
        _ => start,
    }
}

fn follows_word(characters: &[char], position: usize) -> bool {
    // `br"…"` is a raw string too; `for"` is not.
    let before = position.checked_sub(1).map(|index| characters[index]);
    before.is_some_and(|character| is_word(character) && character != 'b')
}

fn find(characters: &[char], start: usize, wanted: char) -> usize {
    let found = characters[start..].iter().position(|&character| character == wanted);
    found.map_or(characters.len(), |offset| start + offset)
}

/// The end of a literal with escapes, searched from behind its opening quote.
fn quoted_end(characters: &[char], mut position: usize, quote: char) -> usize {
    while let Some(&character) = characters.get(position) {
        match character {
            '\\' => position += 2,
            _ if character == quote => return position + 1,
            _ => position += 1,
        }
    }
    characters.len()
}

fn raw_string_end(characters: &[char], start: usize) -> usize {
    let hashes = characters[start + 1..].iter().take_while(|&&character| character == '#').count();
    let mut position = start + 1 + hashes;
    // `r#type` is an identifier.
    if characters.get(position) != Some(&'"') {
        return start;
    }
    loop {
        position = find(characters, position + 1, '"');
        if position == characters.len() {
            return position;
        }
        let closing = characters[position + 1..].iter().take_while(|&&character| character == '#').count();
        if closing >= hashes {
            return position + 1 + hashes;
        }
    }
}

fn block_comment_end(characters: &[char], start: usize) -> usize {
    let mut depth = 0_usize;
    let mut position = start;
    while position < characters.len() {
        match (characters[position], characters.get(position + 1)) {
            ('/', Some('*')) => {
                depth += 1;
                position += 2;
            }
            ('*', Some('/')) => {
                depth -= 1;
                position += 2;
                if depth == 0 {
                    return position;
                }
            }
            _ => position += 1,
        }
    }
    position
}

/// Whether the character can be part of a name.
#[must_use]
pub fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// The byte positions at which `wanted` is a whole word in `line`.
pub fn words<'a>(line: &'a str, wanted: &'a str) -> impl Iterator<Item = usize> + 'a {
    line.match_indices(wanted).map(|(position, _)| position).filter(move |&position| {
        let before = line[..position].chars().next_back();
        let after = line[position + wanted.len()..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_become_blanks() {
        let cases = [
            ("a // {b}\nc", "a       \nc"),
            ("a /* { /* } */ */ b", "a                 b"),
            (r#"f("{\"}")"#, "f(      )"),
            ("f(r#\"{\"}\"#)", "f(        )"),
            ("f(b\"{\")", "f(b   )"),
            ("match '{' { '\\'' => 1 }", "match     {      => 1 }"),
            ("fn f<'a>(x: &'a str) {}", "fn f<'a>(x: &'a str) {}"),
            ("let r#type = 1;", "let r#type = 1;"),
            ("\"two\nlines\"", "    \n      "),
        ];
        for (text, expected) in cases {
            assert_eq!(code_only(text), expected, "{text}");
        }
    }

    #[test]
    fn words_stand_alone() {
        assert_eq!(words("fn fnord(fn_: fn())", "fn").collect::<Vec<_>>(), [0, 14]);
    }
}
