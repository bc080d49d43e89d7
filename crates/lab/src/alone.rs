//! The page of one run, in one file that needs no server: the player, its style, and the run.
//!
//! The modules of the page are joined to one script. For that each of them imports on lines of its own, exports only what it declares,
//! and has no name at its top that another has as well.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// The modules of the player, each behind those that it imports.
const MODULES: [&str; 16] = [
    include_str!("../web/texts.js"),
    include_str!("../web/dom.js"),
    include_str!("../web/icons.js"),
    include_str!("../web/theme.js"),
    include_str!("../web/run/colours.js"),
    include_str!("../web/run/model.js"),
    include_str!("../web/run/diagram.js"),
    include_str!("../web/run/menu.js"),
    include_str!("../web/run/waits.js"),
    include_str!("../web/run/words.js"),
    include_str!("../web/run/moment.js"),
    include_str!("../web/run/events.js"),
    include_str!("../web/run/stage.js"),
    include_str!("../web/run/recorded.js"),
    include_str!("../web/player.js"),
    "startPlayer(document.body, JSON.parse(document.getElementById(\"run\").textContent));\n",
];

const STYLE: &str = include_str!("../web/style.css");

/// The file that plays a run: `recorded` has its `summary`, `index`, `events`, and `moments` or none of them.
pub fn page(title: &str, recorded: &Value) -> String {
    let script = script();
    let policy = format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; img-src data: blob:; base-uri 'none'; form-action 'none'",
        digest(&script),
        digest(STYLE)
    );
    // A run may have any text in it; none of it ends the element that it is in.
    let data = recorded.to_string().replace('<', "\\u003c");
    let title = title.replace('&', "&amp;").replace('<', "&lt;");
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
         <script type=\"application/json\" id=\"run\">{data}</script>\n<script type=\"module\">{script}</script>\n</body>\n</html>\n"
    )
}

fn script() -> String {
    let mut script = String::new();
    for line in MODULES.iter().flat_map(|module| module.lines()) {
        if line.starts_with("import ") || line.trim_start().starts_with("//") {
            continue;
        }
        script.push_str(line.strip_prefix("export ").unwrap_or(line));
        script.push('\n');
    }
    script
}

/// What a policy calls a text.
fn digest(text: &str) -> String {
    format!("sha256-{}", BASE64_STANDARD.encode(Sha256::digest(text)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{page, script};

    #[test]
    fn the_script_is_one_module() {
        let script = script();
        for line in script.lines() {
            assert!(!line.starts_with("import ") && !line.starts_with("export "), "left over: {line}");
        }
        assert!(!script.contains("</script"), "it ends where the element ends");
    }

    #[test]
    fn text_of_a_run_stays_text() {
        let file = page("a </title>", &json!({ "summary": { "title": "</script><script>alert(1)" } }));
        assert_eq!(file.matches("</script>").count(), 2, "the run and the script");
        assert!(file.contains("<title>a &lt;/title></title>"), "{file}");
    }
}
