//! The colours: every text is readable on everything that it stands on, in light and in dark.

use std::collections::HashMap;

const STYLE: &str = include_str!("../style.css");

/// What the guidelines for accessibility (WCAG 2.2, 1.4.3) ask for.
const CONTRAST_MIN: f64 = 4.5;
const TEXTS: [&str; 9] = ["text", "quiet", "accent", "string", "key", "comment", "get", "post", "put"];
const GROUNDS: [&str; 3] = ["paper", "raised", "accent-soft"];

/// The colours of the rule that this opens.
fn colours(opening: &str) -> HashMap<&'static str, &'static str> {
    let rule = STYLE.split_once(opening).unwrap().1.split_once('}').unwrap().0;
    let line = |line: &'static str| line.trim().strip_prefix("--")?.strip_suffix(';')?.split_once(": #");
    rule.lines().filter_map(line).collect()
}

/// The luminance of six hexadecimal digits.
fn luminance(colour: &str) -> f64 {
    let channel = |from: usize| {
        let value = f64::from(u8::from_str_radix(&colour[from..from + 2], 16).unwrap()) / 255.0;
        if value <= 0.040_45 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * channel(0) + 0.7152 * channel(2) + 0.0722 * channel(4)
}

fn contrast(one: &str, other: &str) -> f64 {
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

#[test]
fn every_text_is_readable_on_every_ground() {
    assert!((contrast("000000", "ffffff") - 21.0).abs() < 0.001);
    let dark = "@media screen and (prefers-color-scheme: dark) {\n  :root {";
    for (scheme, opening) in [("light", ":root {"), ("dark", dark)] {
        let colours = colours(opening);
        for text in TEXTS {
            for ground in GROUNDS {
                let contrast = contrast(colours[text], colours[ground]);
                assert!(contrast >= CONTRAST_MIN, "{scheme}: {text} on {ground} has {contrast:.2}");
            }
        }
    }
}
