//! Reads the modules of a source file: what they import and define, and which paths they name.

use std::collections::BTreeSet;

use crate::code::{code_only, is_word};

/// The segments of a path, as written.
pub type Segments = Vec<String>;

/// A module, as its own source shows it.
#[derive(Debug, Default)]
pub struct Module {
    /// Its path from the root of the crate.
    pub path: Segments,
    pub imports: Vec<Import>,
    /// Paths in signatures and expressions.
    pub named: Vec<Named>,
    /// What it defines itself.
    pub definitions: BTreeSet<String>,
    /// Modules it declares for tests only.
    pub test_modules: Vec<Segments>,
}

/// One name that a `use` brings into a module.
#[derive(Debug)]
pub struct Import {
    pub path: Named,
    /// The name it has there; `None` for `*`.
    pub name: Option<String>,
    /// Whether the name is valid in the whole module, or only in one function.
    pub is_of_module: bool,
}

/// A path, and its line.
#[derive(Debug, Clone)]
pub struct Named {
    pub segments: Segments,
    pub line: usize,
}

/// The module of a file first, then those written inside it. Code for tests is left out.
#[must_use]
pub fn modules(path: &[String], text: &str) -> Vec<Module> {
    let code = code_only(text);
    let own = Module { path: path.to_vec(), ..Module::default() };
    let mut reader =
        Reader { tokens: tokens(&code), position: 0, modules: vec![own], scopes: vec![Scope::Module(0)] };
    while reader.position < reader.tokens.len() {
        reader.step();
    }
    reader.modules
}

struct Token<'a> {
    text: &'a str,
    line: usize,
}

/// Splits code into words, `::`, and single other characters.
fn tokens(code: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    for (index, line) in code.lines().enumerate() {
        let mut rest = line.trim_start();
        while let Some(first) = rest.chars().next() {
            let length = if is_word(first) {
                rest.find(|character| !is_word(character)).unwrap_or(rest.len())
            } else if rest.starts_with("::") {
                2
            } else {
                first.len_utf8()
            };
            tokens.push(Token { text: &rest[..length], line: index + 1 });
            rest = rest[length..].trim_start();
        }
    }
    tokens
}

/// What a pair of braces holds.
#[derive(Clone, Copy)]
enum Scope {
    /// A module, by its position in the list.
    Module(usize),
    Block,
}

struct Reader<'a> {
    tokens: Vec<Token<'a>>,
    position: usize,
    modules: Vec<Module>,
    scopes: Vec<Scope>,
}

impl<'a> Reader<'a> {
    /// The token `offset` places after the present one.
    fn ahead(&self, offset: usize) -> &'a str {
        self.tokens.get(self.position + offset).map_or("", |token| token.text)
    }

    /// The token `offset` places before the present one.
    fn back(&self, offset: usize) -> &'a str {
        let position = self.position.checked_sub(offset);
        position.and_then(|position| self.tokens.get(position)).map_or("", |token| token.text)
    }

    fn line(&self) -> usize {
        self.tokens.get(self.position).map_or(0, |token| token.line)
    }

    fn starts_with(&self, expected: &[&str]) -> bool {
        expected.iter().enumerate().all(|(offset, text)| self.ahead(offset) == *text)
    }

    /// The innermost module around the present token.
    fn module(&mut self) -> &mut Module {
        let indexes = self.scopes.iter().rev().filter_map(|scope| match scope {
            Scope::Module(index) => Some(*index),
            Scope::Block => None,
        });
        let index = indexes.into_iter().next().unwrap_or(0);
        &mut self.modules[index]
    }

    fn is_at_module_level(&self) -> bool {
        matches!(self.scopes.last(), None | Some(Scope::Module(_)))
    }

    fn step(&mut self) {
        match self.ahead(0) {
            "#" if self.starts_with(&["#", "[", "cfg", "(", "test", ")", "]"]) => self.skip_test(),
            "{" => {
                self.scopes.push(Scope::Block);
                self.position += 1;
            }
            "}" => {
                self.scopes.pop();
                self.position += 1;
            }
            "mod" => self.module_begins(),
            // `use<'a>` is a bound.
            "use" if self.ahead(1) != "<" => {
                self.position += 1;
                self.import(&[]);
            }
            "fn" | "struct" | "enum" | "trait" | "type" | "const" | "static" | "union"
                if self.is_at_module_level() =>
            {
                let name = self.ahead(1).to_owned();
                self.module().definitions.insert(name);
                self.position += 1;
            }
            word if word.starts_with(is_word) && self.ahead(1) == "::" => self.path(),
            _ => self.position += 1,
        }
    }

    /// `mod name {` opens a module; `mod name;` is not a use.
    fn module_begins(&mut self) {
        let name = self.ahead(1).to_owned();
        if self.ahead(2) == "{" {
            let mut path = self.module().path.clone();
            path.push(name);
            self.modules.push(Module { path, ..Module::default() });
            self.scopes.push(Scope::Module(self.modules.len() - 1));
        }
        self.position += 3;
    }

    /// Skips the item behind `#[cfg(test)]`.
    fn skip_test(&mut self) {
        let mut depth = 0_usize;
        let mut is_attribute = true;
        while self.position < self.tokens.len() {
            match self.ahead(0) {
                "mod" if depth == 0 && self.ahead(2) == ";" => {
                    let mut path = self.module().path.clone();
                    path.push(self.ahead(1).to_owned());
                    self.module().test_modules.push(path);
                }
                "(" | "[" | "{" => depth += 1,
                // The end of the block around the item.
                ")" | "]" | "}" if depth == 0 => return,
                "]" if depth == 1 && is_attribute => {
                    depth = 0;
                    is_attribute = self.ahead(1) == "#";
                }
                ")" | "]" => depth -= 1,
                "}" if depth > 1 => depth -= 1,
                "}" => {
                    self.position += 1;
                    return;
                }
                ";" if depth == 0 => {
                    self.position += 1;
                    return;
                }
                _ => {}
            }
            self.position += 1;
        }
    }

    /// Reads a whole path in code.
    fn path(&mut self) {
        let line = self.line();
        // The rest of `::std::fmt` and of `<T as Trait>::Item` is no path of its own, and `pub(in path)` is
        // no use.
        let is_whole = self.back(1) != "::" && !(self.back(1) == "in" && self.back(2) == "(");
        let mut segments = vec![self.ahead(0).to_owned()];
        self.position += 1;
        while self.ahead(0) == "::" && self.ahead(1).starts_with(is_word) {
            segments.push(self.ahead(1).to_owned());
            self.position += 2;
        }
        if is_whole {
            self.module().named.push(Named { segments, line });
        }
    }

    /// Reads one branch of a `use`, after the segments before it.
    fn import(&mut self, before: &[String]) {
        let line = self.line();
        let mut segments = before.to_vec();
        let is_outside = before.is_empty() && self.ahead(0) == "::";
        loop {
            match self.ahead(0) {
                "::" => self.position += 1,
                "{" => return self.branches(&segments),
                word if word == "*" || word.starts_with(is_word) => {
                    segments.push(word.to_owned());
                    self.position += 1;
                    if self.ahead(0) != "::" {
                        break;
                    }
                }
                _ => return,
            }
        }
        let is_all = segments.last().is_some_and(|last| last == "*");
        // `use path::{self}` imports the module of the path.
        if is_all || segments.len() > 1 && segments.last().is_some_and(|last| last == "self") {
            segments.pop();
        }
        let mut name = segments.last().cloned();
        if self.ahead(0) == "as" {
            name = Some(self.ahead(1).to_owned());
            self.position += 2;
        }
        if !is_outside {
            let (name, is_of_module) = (name.filter(|_| !is_all), self.is_at_module_level());
            self.module().imports.push(Import { path: Named { segments, line }, name, is_of_module });
        }
    }

    fn branches(&mut self, before: &[String]) {
        self.position += 1;
        while !matches!(self.ahead(0), "}" | "") {
            if self.ahead(0) == "," {
                self.position += 1;
                continue;
            }
            let start = self.position;
            self.import(before);
            // Unknown tokens must not stop the reader.
            self.position = self.position.max(start + 1);
        }
        self.position += 1;
    }
}
