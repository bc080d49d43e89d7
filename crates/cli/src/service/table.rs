//! Tables and sentences that fit the terminal.

use unicode_width::UnicodeWidthStr as _;

use crate::failure::one_line;

/// Two blanks between columns.
const GAP: usize = 2;
/// A column that is cut has at least this width.
const NARROWEST: usize = 10;

/// A table for people.
pub struct Table {
    header: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    /// Columns that may be left out where there is no room, the first of them first.
    spare: Vec<&'static str>,
    /// Columns that may be cut after that.
    elastic: Vec<&'static str>,
}

impl Table {
    pub fn new(header: &[&'static str]) -> Self {
        Self { header: header.to_vec(), rows: Vec::new(), spare: Vec::new(), elastic: Vec::new() }
    }

    pub fn spare(mut self, columns: &[&'static str]) -> Self {
        self.spare = columns.to_vec();
        self
    }

    pub fn elastic(mut self, columns: &[&'static str]) -> Self {
        self.elastic = columns.to_vec();
        self
    }

    /// Adds a row; cells that are missing at its end are empty.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| one_line(&cell)).collect());
    }

    /// The table in so many columns of the terminal, or as wide as its longest cells: then nothing is left out or cut, and
    /// every column begins at the same place in all lines.
    pub fn render(&self, width: Option<usize>) -> String {
        let mut widths = self.widths();
        if let Some(width) = width {
            self.squeeze(&mut widths, width);
        }
        let header: Vec<String> = self.header.iter().map(|name| (*name).to_owned()).collect();
        let lines = std::iter::once(&header).chain(&self.rows);
        lines.map(|cells| line(cells, &widths, width.is_some())).collect()
    }

    /// How wide each column is.
    fn widths(&self) -> Vec<Option<usize>> {
        let wide = |(index, name): (usize, &&str)| {
            let cells = self.rows.iter().filter_map(|row| row.get(index)).map(|cell| length(cell));
            Some(cells.chain([length(name)]).max().unwrap_or(0))
        };
        self.header.iter().enumerate().map(wide).collect()
    }

    /// Makes room: leaves columns out, then cuts others.
    fn squeeze(&self, widths: &mut [Option<usize>], room: usize) {
        let column = |name: &&str| self.header.iter().position(|header| header == name);
        for index in self.spare.iter().filter_map(column) {
            if total(widths) <= room {
                return;
            }
            widths[index] = None;
        }
        for index in self.elastic.iter().filter_map(column) {
            let excess = total(widths).saturating_sub(room);
            if let Some(width) = &mut widths[index] {
                *width = width.saturating_sub(excess).max(NARROWEST.min(*width));
            }
        }
    }
}

fn total(widths: &[Option<usize>]) -> usize {
    widths.iter().flatten().map(|width| width + GAP).sum::<usize>().saturating_sub(GAP)
}

fn line(cells: &[String], widths: &[Option<usize>], is_cut: bool) -> String {
    let mut line = String::new();
    for (index, width) in widths.iter().enumerate() {
        let Some(width) = *width else { continue };
        let cell = cells.get(index).map_or("", String::as_str);
        let cell = if is_cut { cut(cell, width) } else { cell.to_owned() };
        line.push_str(&cell);
        line.push_str(&" ".repeat(width.saturating_sub(length(&cell)) + GAP));
    }
    format!("{}\n", line.trim_end())
}

/// The columns of a terminal that a text takes: some characters take two, some none.
fn length(text: &str) -> usize {
    text.width()
}

/// As much of a text as has room; the last character tells that there is more.
pub fn cut(text: &str, width: usize) -> String {
    if length(text) <= width {
        return text.to_owned();
    }
    // The width of a text is not always the sum of its characters.
    let fits = |end: &usize| text.get(..*end).is_some_and(|start| length(start) < width);
    let end = text.char_indices().map(|(at, _)| at).take_while(fits).last().unwrap_or(0);
    format!("{}…", text.get(..end).unwrap_or_default())
}

/// A sentence in lines of no more than a width, the following ones indented. A word that is longer than a line is cut.
pub fn wrap(text: &str, indent: usize, width: Option<usize>) -> String {
    let text = one_line(text);
    let Some(width) = width else { return format!("{text}\n") };
    let lead: String = text.chars().take_while(|c| *c == ' ').collect();
    let (mut lines, mut line, mut is_empty) = (String::new(), lead, true);
    // What stands apart by several blanks in the first line stays so.
    for word in text.trim_start().split(' ') {
        let word = cut(word, width.saturating_sub(indent).max(NARROWEST));
        let gap = usize::from(!is_empty);
        if !is_empty && length(&line) + gap + length(&word) > width {
            lines.push_str(line.trim_end());
            lines.push('\n');
            line = " ".repeat(indent);
        } else if gap == 1 {
            line.push(' ');
        }
        line.push_str(&word);
        is_empty = false;
    }
    format!("{lines}{}\n", line.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table =
            Table::new(&["NAME", "HELD BY", "TOKEN"]).spare(&["TOKEN"]).elastic(&["HELD BY", "NAME"]);
        table.row(["a".to_owned(), "x".repeat(30), "17".to_owned()]);
        table.row(["a-longer-name-than-that".to_owned(), "somebody".to_owned()]);
        table
    }

    #[test]
    fn a_table_fits_the_terminal() {
        let widest = |width| table().render(Some(width)).lines().map(length).max();
        assert_eq!(widest(80), Some(23 + 2 + 30 + 2 + 5), "there is room for all");
        for width in [60, 50, 40, 30, 22] {
            assert!(
                widest(width).is_some_and(|widest| widest <= width),
                "{width}: {}",
                table().render(Some(width))
            );
        }
        let narrow = table().render(Some(40));
        assert_eq!(
            narrow,
            format!(
                "NAME                     HELD BY\na                        {}…\na-longer-name-than-that  somebody\n",
                "x".repeat(14)
            )
        );
    }

    #[test]
    fn a_table_in_a_pipe_is_whole() {
        let mut table = table();
        table.row(["y".repeat(100), "z".to_owned(), "1".to_owned()]);
        let text = table.render(None);
        assert!(text.contains(&"x".repeat(30)) && text.contains(&"y".repeat(100)), "{text}");
        assert!(text.lines().all(|line| !line.ends_with(' ')), "{text}");
        let column = |line: &str, at: usize| line.chars().skip(at).take(2).collect::<String>();
        let lines: Vec<&str> = text.lines().collect();
        let second: Vec<String> = lines.iter().map(|line| column(line, 100 + 2)).collect();
        assert_eq!(second, ["HE", "xx", "so", "z "], "{text}");
        let third: Vec<String> = lines.iter().map(|line| column(line, 100 + 2 + 30 + 2)).collect();
        assert_eq!(third, ["TO", "17", "", "1"], "{text}");
    }

    #[test]
    fn wide_characters_take_two_columns() {
        let mut table = Table::new(&["NAME", "HELD BY"]).elastic(&["NAME"]);
        table.row(["日本語".to_owned(), "a".to_owned()]);
        table.row(["e\u{301}".to_owned(), "b".to_owned()]);
        let text = "NAME    HELD BY\n日本語  a\ne\u{301}       b\n";
        assert_eq!(table.render(None), text);
        assert_eq!(table.render(Some(80)), text);
        table.row(["日本語の長い名前".repeat(6), "c".to_owned()]);
        let text = table.render(Some(40));
        assert!(text.lines().all(|line| length(line) <= 40), "{text}");
        assert!(text.ends_with("…  c\n"), "{text}");
        assert_eq!(cut("日本語", 4), "日…");
        assert_eq!(cut("日本語", 5), "日本…");
        assert!(wrap(&"日本 ".repeat(30), 4, Some(30)).lines().all(|line| length(line) <= 30));
    }

    #[test]
    fn sentences_are_wrapped_between_words() {
        let text = "  held by  somebody on a machine, exclusive, token 17";
        assert_eq!(wrap(text, 4, None), format!("{text}\n"));
        assert_eq!(
            wrap(text, 4, Some(30)),
            "  held by  somebody on a\n    machine, exclusive, token\n    17\n"
        );
        assert!(wrap(&"x".repeat(100), 4, Some(30)).lines().all(|line| length(line) <= 30));
    }
}
