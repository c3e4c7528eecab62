//! Turns a guide of the repository, a file of Markdown, into a part of the page: headings that can be linked
//! to, tables that a narrow screen can stack, samples, and the picture.

use std::mem::take;

use minijinja::value::Rest;
use minijinja::{HtmlEscape, Value};
use pulldown_cmark::html::push_html;
use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use serde::Serialize;

use super::{markup, tables};

/// A guide on the page.
#[derive(Serialize)]
pub(super) struct Guide {
    /// Its text, without its title.
    pub(super) html: Value,
    /// What the contents list of it.
    pub(super) chapters: Vec<Chapter>,
}

/// A part of a guide.
#[derive(Serialize)]
pub(super) struct Chapter {
    /// Where a link leads to.
    pub(super) id: String,
    pub(super) title: String,
}

/// Renders a guide whose title is written elsewhere. Its chapters get ids that begin with `prefix`.
pub(super) fn guide(markdown: &str, prefix: &str) -> Guide {
    let mut writer = Writer { prefix, ..Writer::default() };
    for event in Parser::new_ext(markdown, Options::ENABLE_TABLES) {
        writer.take(event);
    }
    writer.flush();
    Guide { html: Value::from_safe_string(writer.html), chapters: writer.chapters }
}

#[derive(Default)]
struct Writer<'a> {
    prefix: &'a str,
    html: String,
    chapters: Vec<Chapter>,
    /// What is not written yet.
    held: Vec<Event<'a>>,
    /// The language of the sample that it is in, and its text.
    sample: Option<(String, String)>,
    /// The headings of the table that it is in, and its rows.
    headings: Vec<String>,
    rows: String,
    /// Whether the next cell is the first of its row.
    is_first: bool,
}

impl<'a> Writer<'a> {
    fn take(&mut self, event: Event<'a>) {
        match event {
            Event::Start(Tag::Heading { .. } | Tag::Table(_)) => self.flush(),
            Event::End(TagEnd::Heading(level)) => self.heading(level),
            Event::Start(Tag::CodeBlock(kind)) => {
                self.flush();
                self.sample = Some((language(&kind), String::new()));
            }
            Event::End(TagEnd::CodeBlock) => {
                if let Some((language, text)) = self.sample.take() {
                    self.html.push_str(&markup::code(&text, &language).to_string());
                }
            }
            Event::Text(text) if self.sample.is_some() => {
                if let Some((_, sample)) = &mut self.sample {
                    sample.push_str(&text);
                }
            }
            // On a narrow screen the picture is small: it can be opened alone.
            Event::Start(Tag::Image { link_type, ref dest_url, ref title, ref id }) => {
                let (dest_url, title, id) = (dest_url.clone(), title.clone(), id.clone());
                self.held.extend([Event::Start(Tag::Link { link_type, dest_url, title, id }), event]);
            }
            Event::End(TagEnd::Image) => self.held.extend([event, Event::End(TagEnd::Link)]),
            // A file of the repository that a link leads to is not beside the page.
            Event::Start(Tag::Link { .. } | Tag::TableHead | Tag::TableCell)
            | Event::End(TagEnd::Link | TagEnd::TableHead) => {}
            Event::Start(Tag::TableRow) => {
                self.rows.push_str("<tr>");
                self.is_first = true;
            }
            Event::End(TagEnd::TableRow) => self.rows.push_str("</tr>\n"),
            Event::End(TagEnd::TableCell) => self.cell(),
            Event::End(TagEnd::Table) => {
                let headings = Rest(take(&mut self.headings));
                self.html.push_str(&tables::table(&take(&mut self.rows), headings).to_string());
                self.is_first = false;
            }
            Event::Html(text) | Event::InlineHtml(text) => self.held.push(Event::Text(text)),
            other => self.held.push(other),
        }
    }

    /// Writes what is held.
    fn flush(&mut self) {
        push_html(&mut self.html, take(&mut self.held).into_iter());
    }

    fn heading(&mut self, level: HeadingLevel) {
        let title: String = take(&mut self.held).iter().map(text_of).collect();
        // The title of the whole: the page has one for it.
        if level == HeadingLevel::H1 {
            return;
        }
        let id = format!("{}-{}", self.prefix, slug(&title));
        let shown = HtmlEscape(&title).to_string();
        let heading = format!("<h3 id=\"{id}\"><a class=\"anchor\" href=\"#{id}\">{shown}</a></h3>\n");
        self.html.push_str(&heading);
        self.chapters.push(Chapter { id, title });
    }

    /// A cell ends: of the head, until the first row begins.
    fn cell(&mut self) {
        let cell = take(&mut self.held);
        if self.rows.is_empty() {
            return self.headings.push(cell.iter().map(text_of).collect());
        }
        let (start, end) = if self.is_first { ("<th scope=\"row\">", "</th>") } else { ("<td>", "</td>") };
        self.is_first = false;
        self.rows.push_str(start);
        push_html(&mut self.rows, cell.into_iter());
        self.rows.push_str(end);
    }
}

/// Samples of a terminal show answers too: only what can be pasted is a shell's.
fn language(kind: &CodeBlockKind<'_>) -> String {
    match kind {
        CodeBlockKind::Fenced(language) if !language.is_empty() => language.to_string(),
        CodeBlockKind::Fenced(_) | CodeBlockKind::Indented => "text".to_owned(),
    }
}

fn text_of<'a>(event: &'a Event<'_>) -> &'a str {
    match event {
        Event::Text(text) | Event::Code(text) => text,
        _ => "",
    }
}

fn slug(title: &str) -> String {
    let words = title.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-").to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guide_has_chapters_tables_samples_and_its_picture() {
        let guide = guide(
            "# Title\n\nSee [the file](file.md) <b>.\n\n![States](settling.svg)\n\n## The `a` & b\n\n\
             | one | two |\n|---|---|\n| `x` | y |\n\n```\n$ z\n```\n",
            "guide",
        );
        let html = guide.html.to_string();
        assert_eq!(
            html,
            "<p>See the file &lt;b&gt;.</p>\n\
             <p><a href=\"settling.svg\"><img src=\"settling.svg\" alt=\"States\" /></a></p>\n\
             <h3 id=\"guide-the-a-b\"><a class=\"anchor\" href=\"#guide-the-a-b\">The a &amp; b</a></h3>\n\
             <table class=\"stacking\" role=\"table\">\n\
             <thead role=\"rowgroup\"><tr role=\"row\"><th role=\"columnheader\" scope=\"col\">one</th>\
             <th role=\"columnheader\" scope=\"col\">two</th></tr></thead>\n\
             <tbody role=\"rowgroup\">\n\
             <tr role=\"row\"><th role=\"rowheader\" data-label=\"one\" scope=\"row\">\
             <code>x</code></th><td role=\"cell\" data-label=\"two\">y</td></tr>\n</tbody>\n</table>\
             <div class=\"sample\"><pre tabindex=\"0\"><code class=\"language-text\">$ z</code></pre></div>"
        );
        let chapters: Vec<&str> = guide.chapters.iter().map(|chapter| chapter.title.as_str()).collect();
        assert_eq!(chapters, ["The a & b"]);
    }
}
