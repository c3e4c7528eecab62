//! What a release is built with: cargo's own profile would let a sum that overflows wrap around.

use crate::Violation;
use crate::manifest::has;
use crate::tree::File;

/// The manifest of the workspace; cargo ignores the profiles of every other one.
const WORKSPACE: &str = "Cargo.toml";

/// Finds that a release does not notice overflows.
fn unchecked_overflows(manifest: &File) -> Vec<Violation> {
    if has(&manifest.text, "profile.release", "overflow-checks", "true") {
        return Vec::new();
    }
    let reason = "`overflow-checks = true` is missing in [profile.release]: what overflows is an error in \
                  tests, and would be another amount of money in a release";
    vec![Violation::new(&manifest.path, 1, reason)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::files;
    use crate::{assert_lines, assert_none};

    #[test]
    fn a_release_notices_overflows() {
        let workspace = files().iter().find(|file| file.path == WORKSPACE);
        assert_none(&unchecked_overflows(workspace.expect("the workspace has a manifest")));
    }

    #[test]
    fn a_release_that_does_not_notice_overflows_is_found() {
        let found = |text: &str| unchecked_overflows(&File::new(WORKSPACE, text));
        assert_lines(&found("[profile.release]\nlto = \"thin\"\noverflow-checks = true\n"), &[]);
        for text in [
            "",
            "[profile.release]\nlto = \"thin\"\n",
            "[profile.release]\noverflow-checks = false\n",
            "[profile.release]\n# overflow-checks = true\n",
            "[profile.dev]\noverflow-checks = true\n[profile.release]\nlto = \"thin\"\n",
        ] {
            assert_lines(&found(text), &[1]);
        }
    }
}
