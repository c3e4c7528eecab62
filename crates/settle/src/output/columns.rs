//! Tables that fit the terminal: a command says which columns may be cut, and which go first when all of them
//! are too many.

use std::io;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::{harmless_line, table};

/// Blanks between two columns.
pub(super) const GAP: usize = 2;

/// A column of a table.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// Its heading.
    pub head: &'static str,
    /// Columns with a higher rank are left out first.
    pub rank: u8,
    /// How narrow its cells may be cut; `None` if a cut would make them useless, as it does an id.
    pub cut_to: Option<usize>,
}

/// A table that fits.
#[derive(Debug, PartialEq, Eq)]
pub struct Fitted {
    /// The table.
    pub text: String,
    /// The headings of the columns that had no room.
    pub left_out: Vec<&'static str>,
}

/// The width of the terminal that shows standard output; `None` where there is none, as in a pipe.
#[must_use]
pub fn terminal_width() -> Option<usize> {
    let (terminal_size::Width(width), _) = terminal_size::terminal_size_of(io::stdout())?;
    Some(usize::from(width))
}

/// How many columns of a terminal a text takes.
pub(super) fn width(text: &str) -> usize {
    text.width()
}

/// The table in the given width, or whole if there is none.
#[must_use]
pub fn fitted(columns: &[Column], rows: &[Vec<String>], terminal_width: Option<usize>) -> Fitted {
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| harmless_line(cell).into_owned()).collect()).collect();
    let whole: Vec<usize> = (0..columns.len())
        .map(|place| {
            let cells = rows.iter().filter_map(|row| row.get(place)).map(|cell| width(cell));
            cells.chain([width(columns[place].head)]).max().unwrap_or(0)
        })
        .collect();
    let widths = match terminal_width {
        Some(room) if total(&whole) > room => share(columns, &whole, room),
        _ => whole.into_iter().map(Some).collect(),
    };
    let shown: Vec<(usize, usize)> =
        widths.iter().enumerate().filter_map(|(place, width)| Some((place, (*width)?))).collect();
    let head: Vec<&str> = shown.iter().map(|(place, _)| columns[*place].head).collect();
    let cells = |row: &Vec<String>| -> Vec<String> {
        shown.iter().map(|(place, width)| cut(row.get(*place).map_or("", String::as_str), *width)).collect()
    };
    let text = table(&head, &rows.iter().map(cells).collect::<Vec<_>>());
    let left_out = columns.iter().zip(&widths).filter(|(_, width)| width.is_none());
    Fitted { text, left_out: left_out.map(|(column, _)| column.head).collect() }
}

fn total(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
}

/// The width of each column in this room, or `None` for a column that gets no place. Each column first gets
/// its least width, in the order of their ranks; what is left then goes to the cut ones, in the same order.
fn share(columns: &[Column], whole: &[usize], room: usize) -> Vec<Option<usize>> {
    let least = |place: usize| match columns[place].cut_to {
        Some(cut_to) => whole[place].min(cut_to.max(width(columns[place].head))),
        None => whole[place],
    };
    let mut order: Vec<usize> = (0..columns.len()).collect();
    order.sort_by_key(|place| columns[*place].rank);
    let mut widths: Vec<Option<usize>> = vec![None; columns.len()];
    let mut left = room + GAP;
    for place in &order {
        // The first column is shown even where it does not fit: an empty table would help nobody.
        let is_first = order.first() == Some(place);
        if is_first || least(*place) + GAP <= left {
            widths[*place] = Some(least(*place));
            left = left.saturating_sub(least(*place) + GAP);
        }
    }
    for place in &order {
        if let Some(width) = &mut widths[*place] {
            let more = left.min(whole[*place] - *width);
            *width += more;
            left -= more;
        }
    }
    widths
}

/// The text in this width; a mark stands for what was cut off.
fn cut(text: &str, room: usize) -> String {
    if width(text) <= room {
        return text.to_owned();
    }
    let (mut shown, mut used) = (String::new(), 1);
    for character in text.chars() {
        used += character.width().unwrap_or(0);
        if used > room {
            break;
        }
        shown.push(character);
    }
    shown + "…"
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 4] = [
        Column { head: "ID", rank: 0, cut_to: None },
        Column { head: "TIME", rank: 2, cut_to: None },
        Column { head: "ERROR", rank: 1, cut_to: Some(6) },
        Column { head: "URL", rank: 3, cut_to: Some(4) },
    ];

    fn at(width: Option<usize>) -> (Vec<String>, Vec<&'static str>) {
        let row = |cells: [&str; 4]| cells.map(str::to_owned).to_vec();
        let rows = [
            row(["id-1", "12:00:00", "漢字 is wrong", "https://one"]),
            row(["id-2", "12:00:01", "-", "x\u{1b}[2J"]),
        ];
        let fitted = fitted(&COLUMNS, &rows, width);
        if let Some(width) = width.filter(|width| *width >= 4) {
            assert!(fitted.text.lines().all(|line| super::width(line) <= width), "{width}: {}", fitted.text);
        }
        (fitted.text.lines().map(str::to_owned).collect(), fitted.left_out)
    }

    #[test]
    fn nothing_is_cut_where_there_is_no_terminal_or_room_enough() {
        let whole = at(None);
        assert_eq!(whole.0[1], "id-1  12:00:00  漢字 is wrong  https://one");
        assert_eq!(whole.0[2], "id-2  12:00:01  -              x\\u{1b}[2J");
        assert_eq!(at(Some(42)), whole);
        assert_eq!(whole.1, Vec::<&str>::new());
    }

    #[test]
    fn columns_are_cut_and_then_left_out() {
        let (lines, left_out) = at(Some(41));
        assert_eq!(lines[1], "id-1  12:00:00  漢字 is wrong  https://o…");
        assert!(left_out.is_empty());
        assert_eq!(at(Some(28)).0[1], "id-1  12:00:00  漢字 …  htt…");
        let (lines, left_out) = at(Some(22));
        assert_eq!((lines[1].as_str(), left_out), ("id-1  12:00:00  漢字 …", vec!["URL"]));
        let (lines, left_out) = at(Some(21));
        assert_eq!((lines[1].as_str(), left_out), ("id-1  漢字 is …  htt…", vec!["TIME"]));
        let (lines, left_out) = at(Some(1));
        assert_eq!((lines[1].as_str(), left_out), ("id-1", vec!["TIME", "ERROR", "URL"]));
    }
}
