//! Turns text into HTML: the Markdown of the OpenAPI document, and blocks of code with quiet colours.

use minijinja::{HtmlEscape, Value};
use pulldown_cmark::html::push_html;
use pulldown_cmark::{Event, Parser, Tag, TagEnd};

/// Renders a sentence of Markdown without a paragraph around it, for a cell of a table. HTML in a sentence
/// becomes text: the reader sees it, the browser does not obey it.
pub(super) fn inline(sentence: &str) -> Value {
    let events = Parser::new(sentence).filter_map(|event| match event {
        Event::Start(Tag::Paragraph) => None,
        Event::End(TagEnd::Paragraph) => Some(Event::SoftBreak),
        Event::Html(text) | Event::InlineHtml(text) => Some(Event::Text(text)),
        other => Some(other),
    });
    let mut html = String::with_capacity(sentence.len());
    push_html(&mut html, events);
    Value::from_safe_string(html.trim_end().to_owned())
}

/// A block of code. A long line makes it scroll, so `tabindex` lets the keyboard reach it. The page's script
/// puts a button beside it.
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
        "<div class=\"sample\"><pre tabindex=\"0\">\
         <code class=\"language-{language}\">{pieces}</code></pre></div>"
    ))
}

/// A part of a block of code, and the class of its colour.
struct Piece<'a> {
    text: &'a str,
    class: Option<&'static str>,
}

/// Cuts comments, strings and keys of objects out of a text. However it cuts, the pieces put together are the
/// text again.
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

/// Finds the end of the string at the start of a text, behind the closing quote.
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
    fn sentences_are_markdown_without_paragraphs() {
        for (sentence, html) in [
            ("a `<b>` & \"c\"", "a <code>&lt;b&gt;</code> &amp; \"c\""),
            ("`delivery_id` of _one_\ndelivery.", "<code>delivery_id</code> of <em>one</em>\ndelivery."),
            ("One.\n\nTwo.", "One.\nTwo."),
            ("", ""),
        ] {
            assert_eq!(inline(sentence).to_string(), html);
        }
    }

    #[test]
    fn html_in_a_sentence_is_shown_and_not_obeyed() {
        for sentence in ["<script>alert(1)</script>", "a <b onclick=\"x\">b</b>", "<!-- c -->"] {
            let shown = inline(sentence).to_string();
            assert!(!shown.contains('<'), "{shown}");
        }
    }

    #[test]
    fn comments_strings_and_keys_have_a_class_of_their_own() {
        let shown = |text: &str, language: &str| code(text, language).to_string();
        assert_eq!(
            shown("curl 'a#b' # c\n", "sh"),
            "<div class=\"sample\"><pre tabindex=\"0\"><code class=\"language-sh\">curl \
             <span class=\"string\">&#x27;a#b&#x27;</span> \
             <span class=\"comment\"># c</span></code></pre></div>"
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
