//! Turns rows into tables that a narrow screen can stack: every cell carries the heading of its column.

use minijinja::value::Rest;
use minijinja::{HtmlEscape, Value};

/// A table of the given rows, `<tr>` with `<th scope="row">` and `<td>` in it, below the given headings.
///
/// A stylesheet that stacks the cells takes their meaning as a table from them, in some browsers also for
/// screen readers; the roles keep it.
#[expect(clippy::needless_pass_by_value, reason = "the template library gives arguments away")]
pub(super) fn table(rows: &str, headings: Rest<String>) -> Value {
    let heading =
        |heading: &String| format!("<th role=\"columnheader\" scope=\"col\">{}</th>", HtmlEscape(heading));
    let head: String = headings.iter().map(heading).collect();
    Value::from_safe_string(format!(
        "<table class=\"stacking\" role=\"table\">\n\
         <thead role=\"rowgroup\"><tr role=\"row\">{head}</tr></thead>\n\
         <tbody role=\"rowgroup\">\n{}\n</tbody>\n</table>",
        labelled(rows.trim(), &headings)
    ))
}

/// The rows, with a role on each row and a role and a label on each cell.
fn labelled(rows: &str, headings: &[String]) -> String {
    let mut html = String::with_capacity(rows.len() * 2);
    let mut columns = headings.iter();
    for (number, tag) in rows.split('<').enumerate() {
        if number > 0 {
            html.push('<');
        }
        let name_length = tag.find([' ', '>']).unwrap_or(tag.len());
        let (name, rest) = tag.split_at(name_length);
        html.push_str(name);
        let role = match name {
            "tr" => {
                columns = headings.iter();
                html.push_str(" role=\"row\"");
                None
            }
            "th" => Some("rowheader"),
            "td" => Some("cell"),
            _ => None,
        };
        if let Some(role) = role {
            let label = columns.next().map(String::as_str).unwrap_or_default();
            let label = HtmlEscape(label).to_string();
            html.extend([" role=\"", role, "\" data-label=\"", &label, "\""]);
        }
        html.push_str(rest);
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_has_the_heading_of_its_column() {
        let rows =
            "<tr id=\"x\"><th scope=\"row\">a < b</th><td class=\"c\">1<br>2</td></tr>\n<tr><td>3</td></tr>";
        let headings = ["Name", "R&D"].map(str::to_owned).to_vec();
        assert_eq!(
            labelled(rows, &headings),
            "<tr role=\"row\" id=\"x\"><th role=\"rowheader\" data-label=\"Name\" scope=\"row\">a < b</th>\
             <td role=\"cell\" data-label=\"R&amp;D\" class=\"c\">1<br>2</td></tr>\n\
             <tr role=\"row\"><td role=\"cell\" data-label=\"Name\">3</td></tr>"
        );
    }
}
