//! A layout, written down.

use crate::text::{escape_xml, put};

use super::layout::{Label, Layout, Role};
use super::shapes::Item;
use super::{Theme, theme};

const HATCH: &str = "<defs><pattern id=\"ct-hatch\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" \
    patternTransform=\"rotate(45)\"><rect class=\"hatched\" width=\"6\" height=\"6\"/>\
    <path class=\"hatch\" d=\"M0 0V6\"/></pattern></defs>\n";

pub(super) fn draw(layout: &Layout, colours: Theme) -> String {
    let (width, height) = (layout.width.ceil(), layout.height.ceil());
    let mut out = String::new();
    put(
        &mut out,
        format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"ct\" role=\"img\" width=\"{width}\" \
             height=\"{height}\" viewBox=\"0 0 {width} {height}\">\n"
        ),
    );
    if let Some(title) = layout.labels.iter().find(|label| label.role == Role::Title) {
        put(&mut out, format_args!("<title>{}</title>\n", escape_xml(&title.text)));
    }
    put(&mut out, format_args!("<style>\n{}</style>\n{HATCH}", theme::style(colours)));
    put(&mut out, format_args!("<rect class=\"ground\" width=\"{width}\" height=\"{height}\"/>\n"));
    for item in &layout.items {
        draw_item(item, &mut out);
    }
    for label in &layout.labels {
        draw_label(label, &mut out);
    }
    out + "</svg>\n"
}

fn draw_item(item: &Item, out: &mut String) {
    out.push_str("<g>");
    draw_title(&item.title, out);
    for (class, path) in &item.paths {
        put(out, format_args!("<path class=\"{class}\" d=\"{path}\"/>"));
    }
    out.push_str("</g>\n");
}

fn draw_title(title: &str, out: &mut String) {
    if !title.is_empty() {
        put(out, format_args!("<title>{}</title>", escape_xml(title)));
    }
}

fn draw_label(label: &Label, out: &mut String) {
    let size = label.role.size();
    let (middle, _) = label.area.centre();
    // Most fonts are narrower than the room that is kept: what has something on both sides stands in the middle.
    let (x, anchor) = match label.role {
        Role::Title | Role::Legend | Role::Finding | Role::Cut => (label.area.x, "start"),
        _ => (middle, "middle"),
    };
    let class = match label.role {
        Role::Title | Role::Lane => "strong".to_owned(),
        Role::Tick => "tick".to_owned(),
        Role::Legend => "legend".to_owned(),
        Role::Cut | Role::Finding => "bad halo".to_owned(),
        Role::Fence => "fence strong".to_owned(),
        Role::Note => "halo".to_owned(),
        Role::Stamp => "stamp halo".to_owned(),
        Role::Message(kind) => format!("halo k{}", theme::colour(kind)),
    };
    let baseline = label.area.bottom() - size * 0.28;
    put(
        out,
        format_args!(
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{baseline:.1}\" font-size=\"{size}\" text-anchor=\"{anchor}\">"
        ),
    );
    draw_title(&label.title, out);
    put(out, format_args!("{}</text>\n", escape_xml(&label.text)));
}
