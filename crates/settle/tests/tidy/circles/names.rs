//! Finds the file that defines the item of a path.

use std::collections::BTreeMap;

use super::source::{Module, Segments};

/// How many imports the search for a name follows: `use serde` leads to itself, and the search must end.
const STEPS_MAX: usize = 8;

/// The modules of a crate, each with its file.
pub struct Names {
    modules: BTreeMap<Segments, (usize, Module)>,
}

/// What a path names.
pub enum Found {
    /// A module of the crate.
    Module(Segments),
    /// An item of a module: the module's path and the item's name.
    Item(Segments, String),
    /// Another crate.
    Outside,
}

impl Names {
    #[must_use]
    pub fn new(modules: impl Iterator<Item = (usize, Module)>) -> Self {
        Self { modules: modules.map(|(file, module)| (module.path.clone(), (file, module))).collect() }
    }

    /// Every module with its file.
    pub fn modules(&self) -> impl Iterator<Item = &(usize, Module)> {
        self.modules.values()
    }

    /// The file that defines what a path names in a module, and the name there; `None` if it is another
    /// crate's.
    #[must_use]
    pub fn definition(&self, module: &Segments, segments: &[String]) -> Option<(usize, String)> {
        let (path, name) = match self.resolve(module, segments, 0) {
            Found::Module(path) => (path.clone(), path.last().cloned().unwrap_or_default()),
            Found::Item(path, name) => (path, name),
            Found::Outside => return None,
        };
        self.modules.get(&path).map(|(file, _)| (*file, name))
    }

    fn resolve(&self, module: &Segments, segments: &[String], steps: usize) -> Found {
        let Some(first) = segments.first() else {
            return Found::Outside;
        };
        let mut rest = &segments[1..];
        let start = match first.as_str() {
            "crate" => Vec::new(),
            "self" => module.clone(),
            "super" => {
                let above = 1 + rest.iter().take_while(|segment| *segment == "super").count();
                rest = &rest[above - 1..];
                module[..module.len().saturating_sub(above)].to_vec()
            }
            name => match self.look_up(module, name, steps) {
                Some(Found::Module(path)) => path,
                Some(found) => return found,
                None => return Found::Outside,
            },
        };
        self.descend(start, rest, steps)
    }

    /// Follows a path down from a module, to the first segment that is not a module.
    fn descend(&self, mut module: Segments, segments: &[String], steps: usize) -> Found {
        for name in segments {
            match self.look_up(&module, name, steps) {
                Some(Found::Module(path)) => module = path,
                Some(found) => return found,
                // A macro may define it.
                None => return Found::Item(module, name.clone()),
            }
        }
        Found::Module(module)
    }

    /// What a name means in a module: an item defined or imported there.
    fn look_up(&self, path: &Segments, name: &str, steps: usize) -> Option<Found> {
        if steps > STEPS_MAX {
            return None;
        }
        let mut child = path.clone();
        child.push(name.to_owned());
        if self.modules.contains_key(&child) {
            return Some(Found::Module(child));
        }
        let (_, module) = self.modules.get(path)?;
        if module.definitions.contains(name) {
            return Some(Found::Item(path.clone(), name.to_owned()));
        }
        let imports = || module.imports.iter().filter(|import| import.is_of_module);
        if let Some(import) = imports().find(|import| import.name.as_deref() == Some(name)) {
            return Some(self.resolve(path, &import.path.segments, steps + 1));
        }
        imports().filter(|import| import.name.is_none()).find_map(|import| {
            match self.resolve(path, &import.path.segments, steps + 1) {
                Found::Module(all_of) => self.look_up(&all_of, name, steps + 1),
                Found::Item(..) | Found::Outside => None,
            }
        })
    }
}
