//! The reader of import files on whatever a file may hold, read in pieces of any size: nothing panics, and
//! its elements are those that a JSON parser finds in the whole.
//!
//! Texts are random, or near to the corpus: texts that once were, or nearly were, a problem. Add the text of
//! a bug before you mend it.

use std::io::{BufReader, Write};

use proptest::prelude::*;
use serde_json::Value;

use super::array::Elements;
use super::lines::Lines;
use crate::commands::progress::Progress;

/// Longer than any text here.
const BYTES_MAX: usize = 1 << 20;

/// Arrays without their opening bracket.
const CORPUS: [&str; 20] = [
    "]",
    " \r\n\t]\n",
    "1,2]",
    "1,,2]",
    ",1]",
    "1,]",
    "1] 2",
    "] ]",
    "1",
    "\"]",
    "\"\\\"]\",\"\\\\\",\"\\\\\\\"\"]",
    r#"{"a":"x,]\"}\\","b":[1,{"c":2}]},7,"[",[],{}]"#,
    r#"{"a":1]}"#,
    "[[[[]]]],{{]",
    "}]",
    "]]",
    "\"\u{0}\"]",
    "\u{feff}1]",
    "1e400,-0,0.1]",
    "\"é\\u00e9\\ud83d\\ude00\",null,true]",
];

/// Texts of pieces that matter to the splitter, or near to the corpus, or any bytes at all.
fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
    let pieces = ["[", "]", "{", "}", ",", "\"", "\\", " ", "\n", ":", "0", "null", "\"a\"", "\"b\":", "é"];
    let soup = prop::collection::vec(prop::sample::select(pieces.to_vec()), 0..40);
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    let near = (prop::sample::select(CORPUS.to_vec()), changes).prop_map(|(text, changes)| {
        let mut bytes = text.as_bytes().to_vec();
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        bytes
    });
    prop_oneof![
        3 => soup.prop_map(|pieces| pieces.concat().into_bytes()),
        3 => near,
        1 => prop::collection::vec(any::<u8>(), 0..200),
    ]
}

fn any_json() -> impl Strategy<Value = Value> {
    let text = prop_oneof![any::<String>(), "[\\[\\]{},:\"\\\\ ]{0,8}"];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        text.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(text.clone(), inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// The elements of an array behind its bracket, if none is refused and each is JSON.
fn split(bytes: &[u8], bytes_at_once: usize) -> Option<Vec<Value>> {
    let reader = BufReader::with_capacity(bytes_at_once, bytes);
    let mut values = Vec::new();
    for element in Elements::new(reader, BYTES_MAX) {
        let (number, text) = element.ok()?;
        assert!(number == values.len() + 1, "each is counted");
        values.push(serde_json::from_slice(&text).ok()?);
    }
    Some(values)
}

/// A file of these bytes, opened.
fn opened(bytes: &[u8]) -> Option<Lines> {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(bytes).expect("it is written");
    Lines::open(file.path(), None, false).ok()
}

/// The texts of a file, if none is refused.
fn texts(lines: &Lines) -> Option<Vec<Vec<u8>>> {
    let texts = lines.texts().expect("the file is there");
    texts.map(|text| text.ok().map(|(_, text)| text)).collect()
}

fn parsed(texts: &[Vec<u8>]) -> Vec<Value> {
    texts.iter().map(|text| serde_json::from_slice(text).expect("JSON")).collect()
}

/// What a JSON parser finds in the array, and nothing in its place.
fn assert_split_as_json(bytes: &[u8], bytes_at_once: usize) {
    // Only to us, and only between elements, is a form feed white space.
    let bytes: Vec<u8> = bytes.iter().map(|byte| if *byte == b'\x0c' { b' ' } else { *byte }).collect();
    let whole: Option<Vec<Value>> = serde_json::from_slice(&[b"[", bytes.as_slice()].concat()).ok();
    assert_eq!(split(&bytes, bytes_at_once), whole, "{:?}", String::from_utf8_lossy(&bytes));
}

/// Whatever a file holds, it is refused or read, and lines are its bytes between the line breaks.
fn assert_read(bytes: &[u8]) {
    let Some(lines) = opened(bytes) else {
        assert!(bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff"), "{bytes:?}");
        return;
    };
    let _ = lines.check(&Progress::over_bytes(0, "checking"));
    let content = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    if content.trim_ascii_start().first() != Some(&b'[') {
        let ended = content.strip_suffix(b"\n").unwrap_or(content);
        assert_eq!(texts(&lines).expect("no line is long").join(b"\n".as_slice()), ended);
    }
}

#[test]
fn the_corpus() {
    for text in CORPUS {
        for bytes_at_once in [1, 2, 1_000] {
            assert_split_as_json(text.as_bytes(), bytes_at_once);
        }
        assert_read(text.as_bytes());
        assert_read(format!("\u{feff}[{text}").as_bytes());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    #[test]
    fn any_bytes_are_split_as_a_json_parser_splits_them(bytes in any_bytes(), bytes_at_once in 1..50_usize) {
        assert_split_as_json(&bytes, bytes_at_once);
    }

    #[test]
    fn any_array_is_split_into_its_elements(
        values in prop::collection::vec(any_json(), 0..6),
        is_pretty: bool,
        bytes_at_once in 1..50_usize,
    ) {
        let array = Value::from(values.clone());
        let text = if is_pretty { format!("{array:#}") } else { array.to_string() };
        prop_assert_eq!(split(&text.as_bytes()[1..], bytes_at_once), Some(values), "{}", text);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn any_file_is_read_or_refused(bytes in any_bytes(), has_mark: bool) {
        assert_read(&[if has_mark { b"\xef\xbb\xbf".as_slice() } else { b"" }, &bytes].concat());
    }

    /// One a line or one array: a file says the same in both shapes.
    #[test]
    fn lines_and_an_array_hold_the_same(fields in prop::collection::vec(any_json(), 0..6)) {
        let object = |field| serde_json::json!({ "field": field });
        let objects: Vec<Value> = fields.into_iter().map(object).collect();
        let a_line_each: Vec<String> = objects.iter().map(ToString::to_string).collect();
        for file in [a_line_each.join("\n"), Value::from(objects.clone()).to_string()] {
            let lines = opened(file.as_bytes()).expect("UTF-8");
            prop_assert_eq!(&parsed(&texts(&lines).expect("no line is long")), &objects, "{}", file);
        }
    }
}
