//! A table of texts, for Markdown and for HTML.

/// Rows below a head. A column of words stands to the left, one of figures to the right.
pub(super) struct Grid {
    pub(super) head: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

impl Grid {
    pub(super) fn new(head: &[&str]) -> Self {
        Self {
            head: head.iter().map(|cell| (*cell).to_owned()).collect(),
            rows: Vec::new(),
        }
    }

    pub(super) fn into_rows(self) -> Vec<Vec<String>> {
        std::iter::once(self.head).chain(self.rows).collect()
    }

    /// The first column, and every column some cell of which begins with a letter.
    fn is_words(&self, column: usize) -> bool {
        let mut cells = self.rows.iter().filter_map(|row| row.get(column));
        column == 0 || cells.any(|cell| cell.starts_with(char::is_alphabetic))
    }

    pub(super) fn markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | ").replace('\n', " "));
        let rule: Vec<String> = (0..self.head.len())
            .map(|column| if self.is_words(column) { "---" } else { "---:" }.to_owned())
            .collect();
        let rows: String = self.rows.iter().map(|row| line(row)).collect();
        format!("{}{}{rows}", line(&self.head), line(&rule))
    }

    pub(super) fn html(&self) -> String {
        let cells = |row: &[String], tag: &str| -> String {
            row.iter()
                .enumerate()
                .map(|(column, cell)| {
                    let class = if self.is_words(column) {
                        " class=\"words\""
                    } else {
                        ""
                    };
                    format!("<{tag}{class}>{}</{tag}>", interval_small(&escape(cell)))
                })
                .collect()
        };
        let rows: String = self
            .rows
            .iter()
            .map(|row| {
                let all = row.first().is_some_and(|cell| cell == "all");
                let class = if all { " class=\"all\"" } else { "" };
                format!("<tr{class}>{}</tr>\n", cells(row, "td"))
            })
            .collect();
        format!(
            "<div class=\"scroll\"><table>\n<thead><tr>{}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table></div>\n",
            cells(&self.head, "th").replace('_', "_<wbr>")
        )
    }
}

/// Text that cannot be taken for markup.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

/// Intervals in brackets step back behind their mean.
fn interval_small(cell: &str) -> String {
    match cell.split_once(" [") {
        Some((mean, rest)) => format!("{mean} <small>[{rest}</small>"),
        None => cell.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_cannot_become_markup() {
        let mut grid = Grid::new(&["a", "b"]);
        grid.rows.push(vec!["<script>".into(), "1.0 [0.5, 1.5]".into()]);
        assert!(
            grid.html()
                .contains("<td class=\"words\">&lt;script&gt;</td><td>1.0 <small>[0.5, 1.5]</small></td>")
        );
        assert_eq!(grid.markdown().lines().count(), 3);
    }
}
