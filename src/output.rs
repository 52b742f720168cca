//! The only place that writes to stdout, and the one line of an error on stderr.
#![expect(clippy::print_stderr, reason = "this module is the program's voice")]

use std::io::Write;

use serde::Serialize;

/// One line on stdout.
pub(crate) fn line(text: impl AsRef<str>) {
    written(writeln!(std::io::stdout(), "{}", text.as_ref()));
}

/// Ends the program where nobody reads on (`mneme … | head`), and where stdout cannot be written.
fn written(result: std::io::Result<()>) {
    let Err(error) = result else { return };
    if error.kind() == std::io::ErrorKind::BrokenPipe {
        std::process::exit(0);
    }
    eprintln!("error: stdout cannot be written: {error}");
    std::process::exit(1);
}

/// Text without an end of line, shown at once.
pub(crate) fn piece(text: &str) {
    let mut out = std::io::stdout();
    written(write!(out, "{text}").and_then(|()| out.flush()));
}

/// One JSON value on one line of stdout.
pub(crate) fn json(value: &impl Serialize) -> anyhow::Result<()> {
    line(serde_json::to_string(value)?);
    Ok(())
}

/// Stdout for whoever writes it as a whole.
pub(crate) fn stdout() -> impl Write {
    std::io::stdout().lock()
}

/// The error and its causes on one line of stderr; a cause that its parent already quotes is left out.
pub(crate) fn error(error: &anyhow::Error) {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.contains(&cause) {
            continue;
        }
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&cause);
    }
    eprintln!("error: {}", text.replace('\n', " "));
}

/// Rows as aligned columns; the first row is the head.
pub(crate) fn table(rows: &[Vec<String>]) {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
    };
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    for row in rows {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        line(cells.join("  ").trim_end());
    }
}

/// Bytes for eyes: `469 MiB`.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 || value >= 100.0 {
        format!("{value:.0} {}", UNITS[unit])
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn bytes_are_short() {
        assert_eq!(super::bytes(0), "0 B");
        assert_eq!(super::bytes(1023), "1023 B");
        assert_eq!(super::bytes(1536), "1.5 KiB");
        assert_eq!(super::bytes(491_400_064), "469 MiB");
    }
}
