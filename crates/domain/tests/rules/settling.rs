//! `docs/settling.md` tells of payments what the code does: its picture is drawn from the machine's table,
//! and the page names every state, reason, block and act.

use std::path::Path;

use settle_domain::payment::{Outcome, StateName};
use settle_domain::reason::{Blocked, Reason};

mod picture;

fn document(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|fault| panic!("{}: {fault}", path.display()))
}

/// After a change of the machine the new picture is in the build's folder: look at it, and copy it.
#[test]
fn the_picture_is_the_machines() {
    let drawn = picture::svg();
    if document("settling.svg") != drawn {
        let new = Path::new(env!("CARGO_TARGET_TMPDIR")).join("settling.svg");
        std::fs::write(&new, drawn).unwrap();
        panic!(
            "docs/settling.svg is out of date: look at the new one, and copy it: cp {} docs/",
            new.display()
        );
    }
}

/// A state, a reason and a block have a row of a table each; an outcome stands somewhere.
#[test]
fn the_page_names_everything() {
    let page = document("settling.md");
    assert!(page.contains("(settling.svg)"), "the page shows the picture");
    let states = StateName::ALL.iter().map(|state| state.as_str());
    let reasons = Reason::ALL.iter().map(|reason| reason.as_str());
    let blocks = Blocked::ALL.iter().map(|blocked| blocked.as_str());
    for name in states.chain(reasons).chain(blocks) {
        let row = page.lines().find(|line| line.starts_with(&format!("| `{name}` |")));
        let cells = row.unwrap_or_else(|| panic!("{name} has no row")).split('|').map(str::trim);
        assert!(cells.clone().count() == 5 && cells.skip(1).take(3).all(|cell| !cell.is_empty()), "{name}");
    }
    for outcome in Outcome::ALL {
        assert!(page.contains(&format!("`{outcome}`")), "{outcome}");
    }
    for act in ["retry", "refund", "cancel", "returned", "resolve"] {
        assert!(page.contains(&format!("`{act}`")), "{act}");
    }
}
