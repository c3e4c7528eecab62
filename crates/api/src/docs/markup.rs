//! Text made into HTML: `code` in sentences, and quiet colours in blocks of code.

use minijinja::{HtmlEscape, Value};

/// A sentence with `code` between backticks.
pub(super) fn inline(text: &str) -> Value {
    let marked = text.split('`').enumerate().map(|(index, part)| {
        let is_code = index % 2 == 1;
        let part = HtmlEscape(part);
        if is_code { format!("<code>{part}</code>") } else { part.to_string() }
    });
    Value::from_safe_string(marked.collect())
}

/// A block of code. It can be scrolled, so it can be reached with the keyboard.
pub(super) fn code(text: &str, language: &str) -> Value {
    let pieces = pieces(text.trim(), language).into_iter().map(|piece| {
        let text = HtmlEscape(piece.text);
        match piece.class {
            Some(class) => format!("<span class=\"{class}\">{text}</span>"),
            None => text.to_string(),
        }
    });
    let pieces: String = pieces.collect();
    Value::from_safe_string(format!(
        "<pre tabindex=\"0\"><code class=\"language-{language}\">{pieces}</code></pre>"
    ))
}

/// A part of a block of code, and the class of its colour.
struct Piece<'a> {
    text: &'a str,
    class: Option<&'static str>,
}

/// Takes comments, strings and keys of objects out of the rest. Whatever it makes of a text, the pieces put
/// together are that text.
fn pieces<'a>(text: &'a str, language: &str) -> Vec<Piece<'a>> {
    let comment = match language {
        "sh" | "python" | "ruby" => Some("#"),
        "js" | "go" | "php" => Some("//"),
        _ => None,
    };
    let mut pieces = Vec::new();
    let (mut plain_from, mut position) = (0, 0);
    while let Some(character) = text[position..].chars().next() {
        let rest = &text[position..];
        let starts_word = text[..position].chars().next_back().is_none_or(char::is_whitespace);
        let found = if starts_word && comment.is_some_and(|mark| rest.starts_with(mark)) {
            Some(("comment", rest.find('\n').unwrap_or(rest.len())))
        } else if language != "text" && matches!(character, '"' | '\'' | '`') {
            string_end(rest, character).map(|end| {
                let is_key = language == "json" && rest[end..].starts_with(':');
                (if is_key { "key" } else { "string" }, end)
            })
        } else {
            None
        };
        let Some((class, length)) = found else {
            position += character.len_utf8();
            continue;
        };
        pieces.push(Piece { text: &text[plain_from..position], class: None });
        pieces.push(Piece { text: &rest[..length], class: Some(class) });
        position += length;
        plain_from = position;
    }
    pieces.push(Piece { text: &text[plain_from..], class: None });
    pieces
}

/// Where the string that a text starts with ends, behind its closing quote.
fn string_end(text: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    for (index, character) in text.char_indices().skip(1) {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if character == quote => return Some(index + character.len_utf8()),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_escaped_and_code_is_marked() {
        assert_eq!(inline("a `<b>` & \"c\"").to_string(), "a <code>&lt;b&gt;</code> &amp; &quot;c&quot;");
    }

    #[test]
    fn comments_strings_and_keys_have_a_class_of_their_own() {
        let shown = |text: &str, language: &str| code(text, language).to_string();
        assert_eq!(
            shown("curl 'a#b' # c\n", "sh"),
            "<pre tabindex=\"0\"><code class=\"language-sh\">curl \
             <span class=\"string\">&#x27;a#b&#x27;</span> \
             <span class=\"comment\"># c</span></code></pre>"
        );
        let json = shown("{\"a\": \"b\"}", "json");
        assert!(json.contains("<span class=\"key\">&quot;a&quot;</span>"), "{json}");
        assert!(json.contains("<span class=\"string\">&quot;b&quot;</span>"), "{json}");
        assert!(!shown("it's \"plain\"", "text").contains("span"));
    }

    #[test]
    fn nothing_is_lost_whatever_the_text() {
        for text in ["", "'", "\"\\", "a 'b", "# é 'ü' // \"", "`${x}` 'y\\'z' \u{1f600}\""] {
            for language in ["sh", "js", "json", "text"] {
                let whole: String = pieces(text, language).iter().map(|piece| piece.text).collect();
                assert_eq!(whole, text, "{language}");
            }
        }
    }
}
