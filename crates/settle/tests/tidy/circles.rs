//! No circle of files. To understand one file of a circle one has to read them all, and none of them can be
//! moved or tested alone.
//!
//! A file uses another if it imports or names an item that the other defines; a re-export is followed to the
//! file that defines the item. `mod name;` uses nothing. A file may use the items of its parent modules: a
//! folder keeps there what its files share.

mod names;
mod source;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::Violation;
use crate::tree::File;
use names::Names;
use source::{Module, Segments, modules};

/// A source file, and the path of its module.
struct Room<'a> {
    file: &'a File,
    path: Segments,
}

/// The items of one file that another file uses.
#[derive(Debug, Default)]
struct Tie {
    line: usize,
    names: BTreeSet<String>,
}

/// Which file uses which: the positions of user and used in the list of files.
type Ties = BTreeMap<(usize, usize), Tie>;

/// The circles in the sources of all crates.
fn circles(files: &[&File]) -> Vec<Violation> {
    let folders: BTreeSet<&str> = files.iter().filter_map(|file| file.crate_folder()).collect();
    let in_crate = |folder: &str| circles_of_crate(&rooms(files, folder));
    folders.into_iter().flat_map(in_crate).collect()
}

/// The source files of a crate. A binary beside a library only uses it, and tests may use what they like.
fn rooms<'a>(files: &[&'a File], folder: &str) -> Vec<Room<'a>> {
    let root = format!("crates/{folder}/src/");
    let has_library = files.iter().any(|file| file.path == format!("{root}lib.rs"));
    let mut rooms = Vec::new();
    for &file in files {
        let Some(path) = file.path.strip_prefix(&root).and_then(|path| path.strip_suffix(".rs")) else {
            continue;
        };
        let mut path: Segments = path.split('/').map(str::to_owned).collect();
        if path == ["main"] && has_library || path[0] == "bin" || path.iter().any(|part| part == "tests") {
            continue;
        }
        let is_root = path == ["lib"] || path == ["main"];
        if is_root || path.last().is_some_and(|last| last == "mod") {
            path.pop();
        }
        rooms.push(Room { file, path });
    }
    rooms
}

fn circles_of_crate(rooms: &[Room]) -> Vec<Violation> {
    let ties = ties(rooms);
    let reached: Vec<BTreeSet<usize>> = (0..rooms.len()).map(|start| reach(start, &ties)).collect();
    let mut violations = Vec::new();
    for (start, reach) in reached.iter().enumerate() {
        let circle: BTreeSet<usize> =
            reach.iter().copied().filter(|&other| reached[other].contains(&start)).collect();
        // Each circle is reported once, at its first file.
        if circle.len() > 1 && circle.first() == Some(&start) {
            violations.push(violation(rooms, &ties, &circle));
        }
    }
    violations
}

/// Finds which file uses which.
fn ties(rooms: &[Room]) -> Ties {
    let read: Vec<(usize, Module)> = rooms
        .iter()
        .enumerate()
        .flat_map(|(index, room)| modules(&room.path, &room.file.text).into_iter().map(move |m| (index, m)))
        .collect();
    let for_tests: Vec<Segments> = read.iter().flat_map(|(_, module)| module.test_modules.clone()).collect();
    let is_test = |module: &Module| for_tests.iter().any(|test| module.path.starts_with(test));
    let names = Names::new(read.into_iter().filter(|(_, module)| !is_test(module)));
    let mut ties = Ties::new();
    for (user, module) in names.modules() {
        for named in module.imports.iter().map(|import| &import.path).chain(&module.named) {
            let Some((used, name)) = names.definition(&module.path, &named.segments) else {
                continue;
            };
            if used != *user && !rooms[*user].path.starts_with(&rooms[used].path) {
                let first = || Tie { line: named.line, ..Tie::default() };
                let tie = ties.entry((*user, used)).or_insert_with(first);
                tie.line = tie.line.min(named.line);
                tie.names.insert(name);
            }
        }
    }
    ties
}

/// The files that a file uses directly.
fn used_by(user: usize, ties: &Ties) -> impl Iterator<Item = usize> {
    ties.range((user, 0)..=(user, usize::MAX)).map(|((_, used), _)| *used)
}

/// The files that a file uses directly or through others.
fn reach(start: usize, ties: &Ties) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut open = vec![start];
    while let Some(user) = open.pop() {
        open.extend(used_by(user, ties).filter(|&used| reached.insert(used)));
    }
    reached
}

/// The shortest path from a file back to itself.
fn way_round(start: usize, ties: &Ties) -> Option<Vec<usize>> {
    let mut seen = BTreeSet::new();
    let mut ways = VecDeque::from([vec![start]]);
    while let Some(way) = ways.pop_front() {
        for used in used_by(*way.last()?, ties) {
            let longer = [way.as_slice(), &[used]].concat();
            if used == start {
                return Some(longer);
            }
            if seen.insert(used) {
                ways.push_back(longer);
            }
        }
    }
    None
}

/// Reports the shortest circle with the items that cause it, and names the other files.
fn violation(rooms: &[Room], ties: &Ties, circle: &BTreeSet<usize>) -> Violation {
    let path = |index: usize| rooms[index].file.path.as_str();
    let ways = circle.iter().filter_map(|&start| way_round(start, ties));
    let way = ways.min_by_key(Vec::len).unwrap_or_default();
    let mut told: Vec<String> = way
        .windows(2)
        .map(|pair| {
            let tie = &ties[&(pair[0], pair[1])];
            let names: Vec<&str> = tie.names.iter().map(String::as_str).collect();
            format!("    {}:{} uses {} of {}", path(pair[0]), tie.line, names.join(", "), path(pair[1]))
        })
        .collect();
    let others: Vec<&str> =
        circle.iter().filter(|index| !way.contains(index)).map(|&index| path(index)).collect();
    if !others.is_empty() {
        told.push(format!("    and round with them: {}", others.join(", ")));
    }
    let reason =
        "a circle: whoever reads one of the files has to read all; give what ties them a file of its own";
    let line = way.first_chunk().map_or(1, |&[user, used]| ties[&(user, used)].line);
    Violation::new(
        way.first().map_or("", |&first| path(first)),
        line,
        format!("{reason}\n{}", told.join("\n")),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assert_none;
    use crate::tree::rust_files;

    /// The uses in the only circle of a sample of `crates/a/src`; empty if there is none.
    fn told(sample: &[(&str, &str)]) -> Vec<String> {
        let file = |(path, text): &(&str, &str)| File::new(&format!("crates/a/src/{path}"), text);
        let files: Vec<File> = sample.iter().map(file).collect();
        let found = circles(&files.iter().collect::<Vec<_>>());
        assert!(found.len() <= 1, "{found:#?}");
        let lines = found.iter().flat_map(|violation| violation.reason.lines().skip(1));
        lines.map(|line| line.trim().replace("crates/a/src/", "")).collect()
    }

    #[test]
    fn the_tree_has_no_circle() {
        assert_none(&circles(&rust_files().collect::<Vec<_>>()));
    }

    #[test]
    fn two_files_that_use_each_other_are_found() {
        let sample = [
            ("lib.rs", "mod key;\nmod lock;\n"),
            ("key.rs", "use std::fmt;\nuse crate::lock::{self, Lock as Door};\npub struct Key;\n"),
            ("lock.rs", "pub struct Lock;\nfn open(key: &crate::key::Key) {}\n"),
        ];
        assert_eq!(told(&sample), ["key.rs:2 uses Lock, lock of lock.rs", "lock.rs:2 uses Key of key.rs"]);
    }

    #[test]
    fn a_circle_through_re_exports_is_found() {
        let sample = [
            ("lib.rs", "pub mod house;\npub use house::*;\n"),
            ("house/mod.rs", "mod key;\nmod lock;\npub use key::Key;\npub use lock::Lock;\n"),
            ("house/key.rs", "use super::Lock;\npub struct Key;\n"),
            ("house/lock.rs", "pub struct Lock(crate::Key);\n"),
        ];
        let ties = ["house/key.rs:1 uses Lock of house/lock.rs", "house/lock.rs:1 uses Key of house/key.rs"];
        assert_eq!(told(&sample), ties);
    }

    #[test]
    fn a_circle_through_super_and_names_of_modules_is_found() {
        let sample = [
            ("main.rs", "mod house;\n"),
            ("house.rs", "mod key;\nmod lock;\nfn enter() { key::turn() }\n"),
            ("house/key.rs", "use super::lock;\npub fn turn() { lock::open::<u8>() }\n"),
            ("house/lock.rs", "pub fn open<T>() { super::super::house::key::turn() }\n"),
        ];
        let ties =
            ["house/key.rs:1 uses lock, open of house/lock.rs", "house/lock.rs:1 uses turn of house/key.rs"];
        assert_eq!(told(&sample), ties);
    }

    #[test]
    fn a_circle_of_three_is_found_and_who_only_uses_it_is_not_in_it() {
        let sample = [
            ("lib.rs", "mod a;\nmod b;\nmod c;\nmod d;\nuse d::D;\n"),
            ("a.rs", "use crate::b::B;\npub struct A;\n"),
            ("b.rs", "pub struct B;\nfn c() {\n    use crate::c::C;\n}\n"),
            ("c.rs", "pub struct C;\nmod inner {\n    use super::super::a::A;\n}\n"),
            ("d.rs", "use crate::{a::A, b::B};\npub struct D;\n"),
        ];
        assert_eq!(
            told(&sample),
            ["a.rs:1 uses B of b.rs", "b.rs:3 uses C of c.rs", "c.rs:3 uses A of a.rs"]
        );
    }

    #[test]
    fn of_a_wide_circle_the_shortest_way_round_is_told() {
        let sample = [
            ("lib.rs", "mod a;\nmod b;\nmod c;\n"),
            ("a.rs", "use crate::b::B;\npub struct A;\n"),
            ("b.rs", "use crate::c::C;\npub struct B;\n"),
            ("c.rs", "use crate::a::A;\nuse crate::b::B;\npub enum C {}\n"),
        ];
        let ties = ["b.rs:1 uses C of c.rs", "c.rs:2 uses B of b.rs", "and round with them: a.rs"];
        assert_eq!(told(&sample), ties);
    }

    #[test]
    fn a_parent_and_its_child_are_no_circle() {
        let sample = [
            ("lib.rs", "mod house;\npub struct Ground;\n"),
            ("house.rs", "mod door;\nuse door::Door;\npub struct Wall;\n"),
            ("house/door.rs", "use super::Wall;\nuse crate::Ground;\npub(in crate::house) struct Door;\n"),
        ];
        assert_eq!(told(&sample), [""; 0]);
    }

    #[test]
    fn tests_comments_and_other_crates_make_no_circle() {
        let sample = [
            ("lib.rs", "mod key;\nmod lock;\n#[cfg(test)]\nmod sample;\n"),
            (
                "key.rs",
                "//! Fits `crate::lock::Lock`.\nuse ::lock::Lock;\npub struct Key;\n\
                 #[cfg(test)]\nmod tests {\n    use crate::lock::Lock;\n}\n",
            ),
            (
                "lock.rs",
                "use crate::key::Key;\npub struct Lock;\n\
                 #[cfg(test)]\n#[derive(Debug)]\nstruct Picked(crate::sample::Pick);\n",
            ),
            ("sample.rs", "mod pick;\npub use pick::Pick;\npub struct Hook;\nuse crate::lock::Lock;\n"),
            ("sample/pick.rs", "use super::tool::Tool;\npub struct Pick;\n"),
            ("sample/tool.rs", "use super::pick::Pick;\npub struct Tool;\n"),
            ("key/tests/turn.rs", "use super::bend::Bend;\npub struct Turn;\n"),
            ("key/tests/bend.rs", "use super::turn::Turn;\npub struct Bend;\n"),
        ];
        assert_eq!(told(&sample), [""; 0]);
    }
}
