//! Reads an import file, one object a line or one array of objects, and names the place and the field of
//! every problem.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek};
use std::path::Path;

use serde_json::Value;
use settle_domain::ids::MerchantId;
use settle_domain::settlement::{CompletedSettlement, UNCHECKED, parse, parse_object};

use super::array::Elements;
use crate::commands::CommandError;
use crate::commands::progress::Progress;

/// The longest line or element, in bytes.
const LINE_BYTES_MAX: usize = 64 * 1_024;
/// Problems that are listed in full; the others are only counted.
const PROBLEMS_LISTED_MAX: usize = 20;

/// The mark that some programs write before the first character of UTF-8.
const MARK: &[u8] = b"\xEF\xBB\xBF";

/// The marks that others, among them PowerShell's `>`, write before UTF-16.
const UTF_16_MARKS: [&[u8]; 2] = [b"\xFF\xFE", b"\xFE\xFF"];

/// How a file holds its settlements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// One object a line.
    Lines,
    /// One array of objects.
    Array,
}

/// Where a settlement stands: in a line, or as an element of the array. Counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    shape: Shape,
    number: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.shape {
            Shape::Lines => "line",
            Shape::Array => "element",
        };
        write!(formatter, "{word} {}", self.number)
    }
}

/// One settlement and its place.
pub(super) struct Line {
    pub place: Place,
    pub settlement: CompletedSettlement,
}

/// An import file that can be read more than once.
pub(super) struct Lines {
    file: File,
    shape: Shape,
    merchant: Option<MerchantId>,
    /// Whether amounts that the figures of a settlement do not allow are let pass.
    unchecked: bool,
}

/// The text of a settlement and its number.
type Numbered = Result<(usize, Vec<u8>), CommandError>;

/// The merchants of a file, each with the first place that names it.
pub(super) struct Merchants(BTreeMap<MerchantId, Place>);

impl Merchants {
    pub fn ids(&self) -> Vec<MerchantId> {
        self.0.keys().copied().collect()
    }

    pub fn refuse_unknown(&self, known: &[MerchantId]) -> Result<(), CommandError> {
        let known: HashSet<&MerchantId> = known.iter().collect();
        let unknown = self.0.iter().filter(|(merchant, _)| !known.contains(merchant));
        let problems =
            unknown.map(|(merchant, place)| format!("{place}: merchant_id: there is no merchant {merchant}"));
        let mut problems: Vec<String> = problems.collect();
        let unlisted = problems.len().saturating_sub(PROBLEMS_LISTED_MAX);
        problems.truncate(PROBLEMS_LISTED_MAX);
        refuse(problems, unlisted)
    }
}

impl Lines {
    /// Opens the file. Standard input, or anything else that can be read only once, is first copied to a
    /// temporary file.
    pub fn open(path: &Path, merchant: Option<MerchantId>, unchecked: bool) -> Result<Lines, CommandError> {
        let refused = |fault: io::Error| CommandError::Refused(format!("{}: {fault}", path.display()));
        let mut file = if path == Path::new("-") {
            spooled(&mut io::stdin().lock()).map_err(refused)?
        } else {
            let mut file = File::open(path).map_err(refused)?;
            let is_file = file.metadata().map_err(refused)?.is_file();
            if is_file { file } else { spooled(&mut file).map_err(refused)? }
        };
        let shape = shape(&mut file).map_err(refused)?;
        Ok(Lines { file, shape, merchant, unchecked })
    }

    pub fn bytes(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Finds every problem in the file, and its merchants.
    pub fn check(&self, progress: &Progress) -> Result<Merchants, CommandError> {
        let mut merchants = BTreeMap::new();
        let (mut problems, mut unlisted) = (Vec::new(), 0);
        self.each(progress, |place, text| {
            match self.parse(&text) {
                Ok(settlement) => {
                    merchants.entry(settlement.merchant_id).or_insert(place);
                }
                Err(found) if problems.len() < PROBLEMS_LISTED_MAX => {
                    problems.extend(found.into_iter().map(|problem| format!("{place}: {problem}")));
                }
                Err(found) => unlisted += found.len(),
            }
            Ok(())
        })?;
        refuse(problems, unlisted)?;
        Ok(Merchants(merchants))
    }

    /// The settlements, in the order of the file.
    pub fn read<'a>(
        &'a self,
        progress: &'a Progress,
    ) -> Result<impl Iterator<Item = Result<Line, CommandError>> + 'a, CommandError> {
        let texts = self.texts()?;
        Ok(texts.filter_map(move |text| {
            let (place, text) = match text {
                Ok(text) => text,
                Err(fault) => return Some(Err(fault)),
            };
            progress.advance(text.len() + 1);
            if text.trim_ascii().is_empty() {
                return None;
            }
            // Pass one accepted this text, so somebody has changed the file since.
            let parsed = self
                .parse(&text)
                .map_err(|_| CommandError::Refused(format!("{place}: the file has changed")));
            Some(parsed.map(|settlement| Line { place, settlement }))
        }))
    }

    fn each(
        &self,
        progress: &Progress,
        mut take: impl FnMut(Place, Vec<u8>) -> Result<(), CommandError>,
    ) -> Result<(), CommandError> {
        for text in self.texts()? {
            let (place, text) = text?;
            progress.advance(text.len() + 1);
            if !text.trim_ascii().is_empty() {
                take(place, text)?;
            }
        }
        Ok(())
    }

    /// The text of each settlement and its place, from the start of the file.
    pub fn texts(
        &self,
    ) -> Result<impl Iterator<Item = Result<(Place, Vec<u8>), CommandError>> + '_, CommandError> {
        let mut file = &self.file;
        file.rewind()?;
        let mut reader = BufReader::with_capacity(LINE_BYTES_MAX, file);
        let numbered: Box<dyn Iterator<Item = Numbered>> = match self.shape {
            Shape::Lines => {
                let mut number = 0;
                Box::new(std::iter::from_fn(move || {
                    number += 1;
                    let line = bounded_line(&mut reader, number).transpose();
                    line.map(|line| line.map(|text| (number, without_mark(number, text))))
                }))
            }
            Shape::Array => {
                skip_blank(&mut reader)?;
                reader.consume(b"[".len());
                Box::new(Elements::new(reader, LINE_BYTES_MAX))
            }
        };
        let shape = self.shape;
        Ok(numbered.map(move |text| text.map(|(number, text)| (Place { shape, number }, text))))
    }

    fn parse(&self, text: &[u8]) -> Result<CompletedSettlement, Vec<String>> {
        let mut object = parse_object(text).map_err(|fault| vec![not_an_object(&fault)])?;
        if let Some(merchant) = self.merchant {
            object.entry("merchant_id").or_insert_with(|| Value::from(merchant.to_string()));
        }
        if self.unchecked {
            object.insert(UNCHECKED.to_owned(), Value::Bool(true));
        }
        parse(&object).map_err(|problems| problems.iter().map(ToString::to_string).collect())
    }
}

/// An array, if the first character that is no white space is its bracket.
fn shape(file: &mut File) -> io::Result<Shape> {
    file.rewind()?;
    let mut reader = BufReader::new(file);
    let start = reader.fill_buf()?;
    if UTF_16_MARKS.iter().any(|mark| start.starts_with(mark)) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is UTF-16: save it as UTF-8"));
    }
    let first = skip_blank(&mut reader)?;
    Ok(if first == Some(b'[') { Shape::Array } else { Shape::Lines })
}

/// Reads to the first byte that is neither part of the mark nor white space, and gives it.
fn skip_blank(reader: &mut impl BufRead) -> io::Result<Option<u8>> {
    if reader.fill_buf()?.starts_with(MARK) {
        reader.consume(MARK.len());
    }
    loop {
        let chunk = reader.fill_buf()?;
        let blank = chunk.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let first = chunk.get(blank).copied();
        let is_end = chunk.is_empty();
        reader.consume(blank);
        if first.is_some() || is_end {
            return Ok(first);
        }
    }
}

/// Why a text is not a JSON object. The parser's own line number is cut off: for the parser each line is line
/// 1, and so is the first line of an element.
fn not_an_object(fault: &serde_json::Error) -> String {
    let text = fault.to_string();
    let reason = text.split(" at line ").next().unwrap_or(&text);
    format!("not a JSON object: {reason} (column {})", fault.column())
}

/// Copies a source to a temporary file, which can be read twice.
fn spooled(source: &mut impl io::Read) -> io::Result<File> {
    let mut file = tempfile::tempfile()?;
    io::copy(source, &mut file)?;
    Ok(file)
}

/// A line without the mark, if it is the first.
fn without_mark(number: usize, text: Vec<u8>) -> Vec<u8> {
    match text.strip_prefix(MARK) {
        Some(rest) if number == 1 => rest.to_vec(),
        _ => text,
    }
}

/// The next line without its end, or `None` after the last.
fn bounded_line(reader: &mut impl BufRead, number: usize) -> Result<Option<Vec<u8>>, CommandError> {
    let mut text = Vec::new();
    let limit = u64::try_from(LINE_BYTES_MAX + 1).unwrap_or(u64::MAX);
    let read = io::Read::take(reader, limit).read_until(b'\n', &mut text)?;
    if read == 0 {
        return Ok(None);
    }
    if text.last() == Some(&b'\n') {
        text.pop();
    }
    if text.len() > LINE_BYTES_MAX {
        return Err(CommandError::Refused(format!("line {number}: is longer than {LINE_BYTES_MAX} bytes")));
    }
    Ok(Some(text))
}

fn refuse(mut problems: Vec<String>, unlisted: usize) -> Result<(), CommandError> {
    if problems.is_empty() {
        return Ok(());
    }
    if unlisted > 0 {
        problems.push(format!("and {unlisted} more problems"));
    }
    Err(CommandError::Refused(format!("nothing was imported:\n  {}", problems.join("\n  "))))
}
