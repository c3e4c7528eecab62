//! Reads an import file line by line, and names the line and the field of every problem.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek};
use std::path::Path;

use serde_json::Value;
use settle_domain::ids::MerchantId;
use settle_domain::settlement::{CompletedSettlement, parse, parse_object};

use crate::commands::CommandError;
use crate::commands::progress::Progress;

/// The longest line, in bytes.
const LINE_BYTES_MAX: usize = 64 * 1_024;
/// Problems that are listed in full; the others are only counted.
const PROBLEMS_LISTED_MAX: usize = 20;

/// One settlement and its line number.
pub(super) struct Line {
    pub number: usize,
    pub settlement: CompletedSettlement,
}

/// An import file that can be read more than once.
pub(super) struct Lines {
    file: File,
    merchant: Option<MerchantId>,
}

/// The merchants of a file, each with the first line that names it.
pub(super) struct Merchants(BTreeMap<MerchantId, usize>);

impl Merchants {
    pub fn ids(&self) -> Vec<MerchantId> {
        self.0.keys().copied().collect()
    }

    pub fn refuse_unknown(&self, known: &[MerchantId]) -> Result<(), CommandError> {
        let known: HashSet<&MerchantId> = known.iter().collect();
        let unknown = self.0.iter().filter(|(merchant, _)| !known.contains(merchant));
        let problems = unknown
            .map(|(merchant, line)| format!("line {line}: merchant_id: there is no merchant {merchant}"));
        let mut problems: Vec<String> = problems.collect();
        let unlisted = problems.len().saturating_sub(PROBLEMS_LISTED_MAX);
        problems.truncate(PROBLEMS_LISTED_MAX);
        refuse(problems, unlisted)
    }
}

impl Lines {
    /// Opens the file. Standard input, or anything else that can be read only once, is first copied to a
    /// temporary file.
    pub fn open(path: &Path, merchant: Option<MerchantId>) -> Result<Lines, CommandError> {
        let refused = |fault: io::Error| CommandError::Refused(format!("{}: {fault}", path.display()));
        let file = if path == Path::new("-") {
            spooled(&mut io::stdin().lock()).map_err(refused)?
        } else {
            let mut file = File::open(path).map_err(refused)?;
            let is_file = file.metadata().map_err(refused)?.is_file();
            if is_file { file } else { spooled(&mut file).map_err(refused)? }
        };
        Ok(Lines { file, merchant })
    }

    pub fn bytes(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Finds every problem in the file, and its merchants.
    pub fn check(&self, progress: &Progress) -> Result<Merchants, CommandError> {
        let mut merchants = BTreeMap::new();
        let (mut problems, mut unlisted) = (Vec::new(), 0);
        self.each(progress, |number, text| {
            match self.parse(&text) {
                Ok(settlement) => {
                    merchants.entry(settlement.merchant_id).or_insert(number);
                }
                Err(found) if problems.len() < PROBLEMS_LISTED_MAX => {
                    problems.extend(found.into_iter().map(|problem| format!("line {number}: {problem}")));
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
        let numbered = self.numbered()?;
        Ok(numbered.filter_map(move |numbered| {
            let (number, text) = match numbered {
                Ok(numbered) => numbered,
                Err(fault) => return Some(Err(fault)),
            };
            progress.advance(text.len() + 1);
            if text.trim_ascii().is_empty() {
                return None;
            }
            // Pass one accepted this line, so somebody has changed the file since.
            let parsed = self
                .parse(&text)
                .map_err(|_| CommandError::Refused(format!("line {number}: the file has changed")));
            Some(parsed.map(|settlement| Line { number, settlement }))
        }))
    }

    fn each(
        &self,
        progress: &Progress,
        mut take: impl FnMut(usize, Vec<u8>) -> Result<(), CommandError>,
    ) -> Result<(), CommandError> {
        for numbered in self.numbered()? {
            let (number, text) = numbered?;
            progress.advance(text.len() + 1);
            if !text.trim_ascii().is_empty() {
                take(number, text)?;
            }
        }
        Ok(())
    }

    fn numbered(
        &self,
    ) -> Result<impl Iterator<Item = Result<(usize, Vec<u8>), CommandError>> + '_, CommandError> {
        let mut file = &self.file;
        file.rewind()?;
        let mut reader = BufReader::with_capacity(LINE_BYTES_MAX, file);
        let mut number = 0;
        Ok(std::iter::from_fn(move || {
            number += 1;
            let line = bounded_line(&mut reader, number).transpose();
            line.map(|line| line.map(|text| (number, without_mark(number, text))))
        }))
    }

    fn parse(&self, text: &[u8]) -> Result<CompletedSettlement, Vec<String>> {
        let mut object = parse_object(text).map_err(|fault| vec![not_an_object(&fault)])?;
        if let Some(merchant) = self.merchant {
            object.entry("merchant_id").or_insert_with(|| Value::from(merchant.to_string()));
        }
        parse(&object).map_err(|problems| problems.iter().map(ToString::to_string).collect())
    }
}

/// Why a line is not a JSON object. The parser's own line number is cut off: for the parser each line is line
/// 1.
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

/// The text without the mark that some programs write before the first line of UTF-8.
fn without_mark(number: usize, text: Vec<u8>) -> Vec<u8> {
    match text.strip_prefix(b"\xEF\xBB\xBF") {
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
