//! How much of the evidence a retriever found, and evidence ids as they were meant.

use std::collections::HashSet;

/// The share of the `evidence` ids that are among the `retrieved` ones, from 0 to 1.
///
/// `None` when there is no evidence: such questions belong in no mean (LoCoMo's own scorer counts them as 1).
/// An id that occurs twice counts twice, as in LoCoMo's scorer. Strict recall passes the ids as the data set spells
/// them, so that an id which names no turn is a miss; repaired recall passes the mended ones.
#[must_use]
pub fn evidence_recall<S: AsRef<str>>(evidence: &[String], retrieved: &[S]) -> Option<f64> {
    if evidence.is_empty() {
        return None;
    }
    let retrieved: HashSet<&str> = retrieved.iter().map(AsRef::as_ref).collect();
    let found = evidence
        .iter()
        .filter(|id| retrieved.contains(id.as_str()))
        .count();
    Some(crate::f1::count(found) / crate::f1::count(evidence.len()))
}

/// Evidence ids as they were meant: several in one string parted at `;`, `,` and white space, `D:11:26` and
/// `D30:05` respelled as `D11:26` and `D30:5`, each once, without those that name none of the `turns`.
#[must_use]
pub fn repair_evidence(evidence: &[String], turns: &HashSet<String>) -> Vec<String> {
    let mut repaired: Vec<String> = Vec::new();
    let pieces = evidence
        .iter()
        .flat_map(|text| text.split(|c: char| c.is_whitespace() || matches!(c, ';' | ',')));
    for piece in pieces {
        let id = if turns.contains(piece) {
            Some(piece.to_owned())
        } else {
            respell(piece)
        };
        if let Some(id) = id.filter(|id| turns.contains(id) && !repaired.contains(id)) {
            repaired.push(id);
        }
    }
    repaired
}

/// `D<session>:<turn>` with one colon and no leading zeros.
fn respell(id: &str) -> Option<String> {
    let (session, turn) = id.strip_prefix('D')?.trim_start_matches(':').split_once(':')?;
    let (session, turn) = (session.parse::<u32>().ok()?, turn.parse::<u32>().ok()?);
    Some(format!("D{session}:{turn}"))
}
