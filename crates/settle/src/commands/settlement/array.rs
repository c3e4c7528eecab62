//! Splits a JSON array into its elements, one at a time: a file of any size is read in the memory of one
//! element.
//!
//! It only looks for the commas between the elements and for the end. Whether an element is JSON is for its
//! parser to judge.

use std::io::BufRead;

use crate::commands::CommandError;

/// The elements of an array, each with its number, counted from 1.
pub(super) struct Elements<R> {
    reader: R,
    bytes_max: usize,
    number: usize,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Before the first element, which may be missing.
    First,
    /// Behind a comma: an element must follow.
    Next,
    /// Behind the array, or behind a fault.
    Done,
}

/// What ended an element.
enum End {
    Comma,
    Array,
}

impl<R: BufRead> Elements<R> {
    /// The elements of the array that has begun: its opening bracket has been read. No element may have more
    /// than `bytes_max` bytes.
    pub(super) fn new(reader: R, bytes_max: usize) -> Elements<R> {
        Elements { reader, bytes_max, number: 0, stage: Stage::First }
    }

    fn next_element(&mut self) -> Result<Option<Vec<u8>>, CommandError> {
        self.number += 1;
        let (text, end) = self.until_end()?;
        let is_blank = text.trim_ascii().is_empty();
        match (end, is_blank, self.stage) {
            (End::Array, true, Stage::First) => {
                self.stage = Stage::Done;
                self.refuse_more()?;
                return Ok(None);
            }
            (_, true, _) => return Err(self.refused("there is nothing between the commas")),
            (End::Comma, false, _) => self.stage = Stage::Next,
            (End::Array, false, _) => {
                self.stage = Stage::Done;
                self.refuse_more()?;
            }
        }
        Ok(Some(text))
    }

    /// Reads to the comma behind the element, or to the bracket that ends the array.
    fn until_end(&mut self) -> Result<(Vec<u8>, End), CommandError> {
        let (mut text, mut scan) = (Vec::new(), Scan::default());
        loop {
            let chunk = self.reader.fill_buf()?;
            if chunk.is_empty() {
                return Err(self.refused("the array does not end"));
            }
            let end = chunk.iter().position(|byte| scan.is_end(*byte));
            text.extend_from_slice(&chunk[..end.unwrap_or(chunk.len())]);
            let (read, found) = match end {
                Some(end) => (end + 1, Some(chunk[end])),
                None => (chunk.len(), None),
            };
            self.reader.consume(read);
            if text.len() > self.bytes_max {
                return Err(self.refused(&format!("is longer than {} bytes", self.bytes_max)));
            }
            match found {
                Some(b',') => return Ok((text, End::Comma)),
                Some(_) => return Ok((text, End::Array)),
                None => {}
            }
        }
    }

    /// Refuses whatever follows the array, except white space.
    fn refuse_more(&mut self) -> Result<(), CommandError> {
        loop {
            let chunk = self.reader.fill_buf()?;
            if chunk.is_empty() {
                return Ok(());
            }
            if !chunk.trim_ascii().is_empty() {
                let text = "something follows the array: a file is one array, or one object a line";
                return Err(CommandError::Refused(format!("nothing was imported: {text}")));
            }
            let read = chunk.len();
            self.reader.consume(read);
        }
    }

    fn refused(&self, problem: &str) -> CommandError {
        CommandError::Refused(format!("nothing was imported: element {}: {problem}", self.number))
    }
}

impl<R: BufRead> Iterator for Elements<R> {
    type Item = Result<(usize, Vec<u8>), CommandError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.stage == Stage::Done {
            return None;
        }
        let element = self.next_element().transpose()?;
        if element.is_err() {
            self.stage = Stage::Done;
        }
        Some(element.map(|text| (self.number, text)))
    }
}

/// Where the bytes of an element stand: inside a string, or inside how many brackets.
#[derive(Default)]
struct Scan {
    in_string: bool,
    is_escaped: bool,
    depth: usize,
}

impl Scan {
    /// Whether this byte is the comma or the bracket that ends the element.
    fn is_end(&mut self, byte: u8) -> bool {
        if self.in_string {
            let is_escape = byte == b'\\' && !self.is_escaped;
            self.in_string = byte != b'"' || self.is_escaped;
            self.is_escaped = is_escape;
            return false;
        }
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => self.depth += 1,
            b',' | b']' if self.depth == 0 => return true,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    /// The elements of a text, read a few bytes at a time, and the fault that ended them.
    fn split(text: &str, bytes_at_once: usize) -> (Vec<String>, Option<String>) {
        let reader = BufReader::with_capacity(bytes_at_once, text.as_bytes());
        let (mut elements, mut fault) = (Vec::new(), None);
        for element in Elements::new(reader, 40) {
            match element {
                Ok((number, text)) => {
                    elements.push(String::from_utf8(text).unwrap().trim().to_owned());
                    assert_eq!(number, elements.len());
                }
                Err(found) => fault = Some(found.to_string()),
            }
        }
        (elements, fault)
    }

    #[test]
    fn elements_end_at_the_commas_between_them() {
        let text = r#" {"a":"x,]\"}\\","b":[1,{"c":2}]} , 7,
            "[" , [],{}] "#;
        let expected = [r#"{"a":"x,]\"}\\","b":[1,{"c":2}]}"#, "7", r#""[""#, "[]", "{}"];
        for bytes_at_once in [1, 2, 7, 1_000] {
            assert_eq!(split(text, bytes_at_once), (expected.map(String::from).to_vec(), None));
        }
        assert_eq!(split(" ] \n", 3), (Vec::new(), None));
    }

    #[test]
    fn what_is_no_array_is_refused_with_the_element() {
        for (text, elements, fault) in [
            ("", 0, "element 1: the array does not end"),
            ("1, 2", 1, "element 2: the array does not end"),
            ("\"]", 0, "element 1: the array does not end"),
            ("1,]", 1, "element 2: there is nothing between the commas"),
            (",1]", 0, "element 1: there is nothing between the commas"),
            ("1,,2]", 1, "element 2: there is nothing between the commas"),
            ("1, \"01234567890123456789012345678901234567890\"]", 1, "element 2: is longer than 40 bytes"),
            ("1] 2", 0, "something follows the array"),
            ("] ]", 0, "something follows the array"),
        ] {
            for bytes_at_once in [1, 1_000] {
                let (found, refused) = split(text, bytes_at_once);
                assert_eq!(found.len(), elements, "{text}: {found:?}");
                assert!(
                    refused.as_ref().is_some_and(|refused| refused.contains(fault)),
                    "{text}: {refused:?}"
                );
            }
        }
    }
}
