//! The colours.
//!
//! They are chosen after Okabe and Ito's palette, darker on light ground and lighter on dark ground, so that letters
//! in them stay readable and readers who see few colours can tell them apart.

use crate::text::put;

use super::Theme;

/// Name, on light ground, on dark ground.
const COLOURS: [(&str, &str, &str); 19] = [
    ("bg", "#ffffff", "#0d1117"),
    ("ink", "#1f2328", "#e6edf3"),
    ("lane", "#6e7781", "#8b949e"),
    ("faint", "#afb8c1", "#484f58"),
    ("waiting", "#b7791f", "#d9a83a"),
    ("waiting-bg", "#fff6dd", "#2a2410"),
    ("holding", "#e8b33a", "#d9a83a"),
    ("holding-ink", "#2b1d00", "#1d1400"),
    ("paused", "#d0d7de", "#30363d"),
    ("bad", "#cf222e", "#ff7b72"),
    ("good", "#1a7f37", "#56d364"),
    ("k0", "#0b62a4", "#6cb6ff"),
    ("k1", "#b84a00", "#ff9d5c"),
    ("k2", "#00745a", "#4fd1ae"),
    ("k3", "#9c3d7c", "#f3a0d3"),
    ("k4", "#7d6300", "#e5c453"),
    ("k5", "#0e7490", "#67d4e8"),
    ("k6", "#6b4b9a", "#c3a6f5"),
    ("k7", "#5c6670", "#b0bac5"),
];

const KINDS: usize = 8;

/// The colour of a kind of message; after the last comes the first again.
pub(super) fn colour(kind: usize) -> usize {
    kind % KINDS
}

/// How the classes look; `@name` is a colour.
const RULES: &[(&str, &str)] = &[
    ("text", "font-family:ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;fill:@ink"),
    (".halo", "stroke:@bg;stroke-width:4;stroke-linejoin:round;paint-order:stroke"),
    (".ground", "fill:@bg"),
    ("path", "fill:none"),
    (".lane", "stroke:@lane;stroke-width:1.4"),
    (".down", "stroke:@faint;stroke-width:1.4;stroke-dasharray:1.5 4"),
    (".axis", "stroke:@faint;stroke-width:1"),
    (".waiting", "fill:url(#ct-hatch);stroke:@waiting;stroke-width:1"),
    (".hatch", "stroke:@waiting;stroke-width:1.3"),
    (".hatched", "fill:@waiting-bg"),
    (".holding", "fill:@holding;stroke:@waiting;stroke-width:1"),
    (".paused", "fill:@paused"),
    (".dot", "fill:@ink;stroke:@bg;stroke-width:0.8"),
    (".arrow", "stroke-width:1.5"),
    (".plain", "stroke:@ink"),
    (".dashed", "stroke-dasharray:6 4"),
    (".dotted", "stroke-width:1.9;stroke-dasharray:1.5 4;stroke-linecap:round"),
    (".double", "stroke-width:4.4"),
    (".inner", "stroke:@bg;stroke-width:1.6"),
    (".overhead", "stroke-width:0.8;stroke-opacity:0.8"),
    (".reach", "stroke:@bg;stroke-opacity:0;stroke-width:9;pointer-events:stroke"),
    (".cross", "stroke:@bad;stroke-width:2.4;stroke-linecap:round"),
    (".request", "fill:@ink"),
    (".flag", "fill:@good;stroke:@good;stroke-width:1.2"),
    (".timer", "fill:@ink"),
    (".restart", "fill:@bg;stroke:@good;stroke-width:2;stroke-linecap:round;stroke-linejoin:round"),
    (".suspicion", "fill:@waiting-bg;stroke:@waiting;stroke-width:1.5;stroke-linejoin:round"),
    (".trust", "fill:@bg;stroke:@good;stroke-width:1.5;stroke-linejoin:round"),
    (".cut", "fill:@bad;fill-opacity:0.09"),
    (".wall", "stroke:@bad;stroke-width:3"),
    (".healed", "stroke-width:1.5;stroke-dasharray:4 4"),
    (".finding", "stroke:@bad;stroke-width:1.8"),
    (".tick,.legend", "fill:@ink;fill-opacity:0.85"),
    (".fence", "fill:@holding-ink"),
    (".bad", "fill:@bad"),
    (".stamp", "fill:@lane"),
    (".strong", "font-weight:bold"),
];

/// The style sheet. Every colour stands there twice: as such, for programs that know no custom properties, and as a
/// property, which a page around the drawing and the reader's system can change.
pub(super) fn style(theme: Theme) -> String {
    let mut out = String::new();
    put(&mut out, format_args!(".ct{{{}}}\n", properties(theme == Theme::Dark)));
    if theme == Theme::Auto {
        put(&mut out, format_args!("@media (prefers-color-scheme:dark){{.ct{{{}}}}}\n", properties(true)));
    }
    for (selector, rule) in RULES {
        let selector: Vec<_> = selector.split(',').map(|one| format!(".ct {one}")).collect();
        put(&mut out, format_args!("{}{{{}}}\n", selector.join(","), resolve(rule, theme)));
    }
    for kind in 0..KINDS {
        let (stroke, fill) = (format!("stroke:@k{kind}"), format!("fill:@k{kind}"));
        put(&mut out, format_args!(".ct .arrow.k{kind}{{{}}}\n", resolve(&stroke, theme)));
        put(&mut out, format_args!(".ct .head.k{kind},.ct text.k{kind}{{{}}}\n", resolve(&fill, theme)));
    }
    out
}

fn properties(is_dark: bool) -> String {
    let pick = |(name, light, dark): &(&str, &str, &str)| {
        format!("--{name}:{};", if is_dark { dark } else { light })
    };
    COLOURS.iter().map(pick).collect()
}

fn resolve(rule: &str, theme: Theme) -> String {
    let declarations = rule.split(';').map(|declaration| match declaration.split_once(":@") {
        None => declaration.to_owned(),
        Some((property, name)) => {
            let known = COLOURS.iter().find(|(known, ..)| *known == name);
            let plain =
                known.map_or("#808080", |(_, light, dark)| if theme == Theme::Dark { dark } else { light });
            format!("{property}:{plain};{property}:var(--{name})")
        }
    });
    declarations.collect::<Vec<_>>().join(";")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_colour_that_a_rule_names_exists() {
        let named = RULES
            .iter()
            .flat_map(|(_, rule)| rule.split([':', ';']))
            .filter_map(|word| word.strip_prefix('@'));
        for name in named {
            assert!(COLOURS.iter().any(|(known, ..)| *known == name), "{name}");
        }
        assert!(COLOURS.iter().any(|(known, ..)| *known == format!("k{}", KINDS - 1)));
    }
}
