//! `mneme ingest`: conversation files into a memory.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use engine_contract::Embedder;
use indicatif::ProgressBar;
use jiff::civil::{Date, DateTime};
use retrieval::{
    Conversation, ConversationId, IngestProgress, IngestReport, IngestStage, Memory, MemorySettings,
    ReadOptions, ReadReport, SessionId, for_each_conversation,
};
use serde_json::{Value, json};

use crate::cli::{DEFAULT_EMBEDDER, DateOrder, IngestArgs};
use crate::{assemble, output, progress};

/// Turns read before they are stored.
const PENDING_TURNS: usize = 1_024;

/// Every file is read twice: first to the end before anything is written, so that a bad file leaves no trace, then again
/// conversation by conversation, so that a file may be larger than the memory of the machine.
pub(crate) fn run(args: &IngestArgs, quiet: bool) -> Result<()> {
    let options = options(args)?;
    let spinner = progress::spinner(quiet);
    let mut files = Vec::new();
    for file in &args.files {
        spinner.set_message(format!("reading {}", file.display()));
        files.push(Survey::of(file, &options)?);
    }
    spinner.finish_and_clear();
    let folder = match &args.memory {
        Some(memory) if !args.dry_run => assemble::folder(memory, args.namespace.as_deref())?,
        _ => return report_dry_run(args, &files),
    };
    let embedder = choose_embedder(args, &folder)?;
    let embedder = embedder.as_deref();
    let memory = Memory::create_or_open(
        &folder,
        MemorySettings {
            embedder: embedder.map(|embedder| embedder.info().clone()),
            ..MemorySettings::default()
        },
    )?;
    let mut ingesting = Ingesting {
        memory: &memory,
        embedder,
        bar: progress::count_bar(quiet),
        pending: Vec::new(),
        before: 0,
        total: files
            .iter()
            .flat_map(|file| &file.conversations)
            .map(|c| c.turns)
            .sum(),
        reports: Vec::new(),
    };
    for file in &args.files {
        for_each_conversation(file, &options, &mut |piece| ingesting.take(piece))?;
    }
    ingesting.store()?;
    ingesting.bar.finish_and_clear();
    report(args, &folder, &files, &ingesting.reports)
}

fn options(args: &IngestArgs) -> Result<ReadOptions> {
    let date = |text: &String| -> Result<DateTime> {
        let day: Option<Date> = text.parse().ok().filter(|_| !text.contains(['T', ' ']));
        match day {
            Some(day) => Ok(day.at(0, 0, 0, 0)),
            None => text
                .parse()
                .with_context(|| format!("--date is {text}, expected 2023-05-08 or 2023-05-08T13:56")),
        }
    };
    Ok(ReadOptions {
        sample: args.sample.clone(),
        name: args.name.clone(),
        date: args.date.as_ref().map(date).transpose()?,
        date_order: args.date_order.map(|order| match order {
            DateOrder::Dmy => retrieval::DateOrder::DayMonthYear,
            DateOrder::Mdy => retrieval::DateOrder::MonthDayYear,
            DateOrder::Ymd => retrieval::DateOrder::YearMonthDay,
        }),
    })
}

/// The embedder asked for, or else the one that the memory has.
fn choose_embedder(args: &IngestArgs, folder: &Path) -> Result<Option<std::sync::Arc<dyn Embedder>>> {
    let name = match (&args.embedder, Memory::open(folder)) {
        (Some(name), _) => Some(name.clone()),
        (None, Ok(memory)) => memory.embedder().map(|info| info.name.clone()),
        (None, Err(_)) => Some(DEFAULT_EMBEDDER.to_owned()),
    };
    assemble::optional_embedder(args.threads, name.as_deref())
}

/// What a file holds, found out before anything is written.
struct Survey {
    file: PathBuf,
    conversations: Vec<Surveyed>,
    report: ReadReport,
}

struct Surveyed {
    id: ConversationId,
    title: Option<String>,
    speakers: Vec<String>,
    sessions: usize,
    turns: usize,
    first: Option<DateTime>,
    last: Option<DateTime>,
}

impl Survey {
    fn of(file: &Path, options: &ReadOptions) -> Result<Self> {
        let mut conversations: Vec<Surveyed> = Vec::new();
        let mut sessions: HashSet<SessionId> = HashSet::new();
        let report = for_each_conversation(file, options, &mut |piece| {
            if conversations.last().is_none_or(|last| last.id != piece.id) {
                sessions.clear();
                conversations.push(Surveyed::new(&piece));
            }
            if let Some(last) = conversations.last_mut() {
                last.add(&piece, &mut sessions);
            }
            Ok(())
        })?;
        Ok(Self {
            file: file.to_owned(),
            conversations,
            report,
        })
    }

    fn skipped(&self) -> Value {
        let skipped = self.report.skipped.iter();
        skipped
            .map(|s| json!({ "reason": s.reason, "count": s.count, "first": s.first }))
            .collect()
    }

    /// A line per reason.
    fn print_skipped(&self) {
        for skipped in &self.report.skipped {
            output::line(format!(
                "{}: left out {} {} (the first: {})",
                self.file.display(),
                skipped.count,
                skipped.reason,
                one_line(&skipped.first)
            ));
        }
    }
}

fn one_line(text: &str) -> String {
    text.chars()
        .take(80)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

impl Surveyed {
    fn new(piece: &Conversation) -> Self {
        Self {
            id: piece.id.clone(),
            title: piece.title.clone(),
            speakers: Vec::new(),
            sessions: 0,
            turns: 0,
            first: None,
            last: None,
        }
    }

    fn add(&mut self, piece: &Conversation, sessions: &mut HashSet<SessionId>) {
        for session in &piece.sessions {
            self.sessions += usize::from(sessions.insert(session.id.clone()));
            let time = session.time.as_ref().map(|moment| moment.time);
            self.first = [self.first, time].into_iter().flatten().min();
            self.last = self.last.max(time);
            for turn in &session.turns {
                if !self.speakers.contains(&turn.speaker) {
                    self.speakers.push(turn.speaker.clone());
                }
            }
        }
        self.turns += piece.turn_count();
    }
}

fn report_dry_run(args: &IngestArgs, files: &[Survey]) -> Result<()> {
    if args.json {
        let conversation = |c: &Surveyed| {
            json!({
                "id": c.id, "title": c.title, "speakers": c.speakers, "sessions": c.sessions, "turns": c.turns,
                "first": c.first, "last": c.last,
            })
        };
        let file = |file: &Survey| {
            json!({
                "file": file.file,
                "formats": file.report.formats.iter().map(|format| format.name()).collect::<Vec<_>>(),
                "conversations": file.conversations.iter().map(conversation).collect::<Vec<_>>(),
                "skipped": file.skipped(),
            })
        };
        return output::json(
            &json!({ "dry_run": true, "files": files.iter().map(file).collect::<Vec<_>>() }),
        );
    }
    let date = |time: Option<DateTime>| time.map_or("-".to_owned(), |time| time.date().to_string());
    let head = [
        "conversation",
        "sessions",
        "turns",
        "first",
        "last",
        "speakers",
        "title",
    ]
    .map(str::to_owned);
    let rows = files.iter().flat_map(|file| &file.conversations).map(|c| {
        vec![
            c.id.to_string(),
            c.sessions.to_string(),
            c.turns.to_string(),
            date(c.first),
            date(c.last),
            one_line(&c.speakers.join(", ")),
            one_line(c.title.as_deref().unwrap_or_default()),
        ]
    });
    output::table(&std::iter::once(head.to_vec()).chain(rows).collect::<Vec<_>>());
    for file in files {
        let formats: Vec<&str> = file.report.formats.iter().map(|format| format.name()).collect();
        output::line(format!("{}: {}", file.file.display(), formats.join(", ")));
        file.print_skipped();
    }
    output::line("Nothing was written.");
    Ok(())
}

struct Ingesting<'a> {
    memory: &'a Memory,
    embedder: Option<&'a dyn Embedder>,
    bar: ProgressBar,
    pending: Vec<Conversation>,
    /// Turns of the pieces before.
    before: usize,
    total: usize,
    reports: Vec<(ConversationId, IngestReport)>,
}

impl Ingesting<'_> {
    /// Small conversations wait until they are worth a transaction.
    fn take(&mut self, piece: Conversation) -> Result<(), retrieval::RetrievalError> {
        self.pending.push(piece);
        if self.pending.iter().map(Conversation::turn_count).sum::<usize>() >= PENDING_TURNS {
            self.store()?;
        }
        Ok(())
    }

    fn store(&mut self) -> Result<(), retrieval::RetrievalError> {
        let pending = std::mem::take(&mut self.pending);
        let Some(last) = pending.last() else { return Ok(()) };
        let added = self.memory.ingest_all(&pending, self.embedder, &mut |mut step| {
            if step.stage == IngestStage::Turns {
                step.done += self.before;
                step.total = self.total;
            }
            show(&self.bar, &last.id, step);
        })?;
        for (piece, added) in pending.iter().zip(added) {
            self.before += piece.turn_count();
            match self.reports.last_mut() {
                Some((id, report)) if *id == piece.id => report.add(&added),
                _ => self.reports.push((piece.id.clone(), added)),
            }
        }
        Ok(())
    }
}

/// Stores conversations with a progress bar; what is stored already is left as it is. Says how many turns were added.
pub(crate) fn into_memory(
    folder: &Path,
    conversations: &[Conversation],
    embedder: &dyn Embedder,
    quiet: bool,
) -> Result<usize> {
    let memory = Memory::create_or_open(folder, embedder.info())?;
    let mut ingesting = Ingesting {
        memory: &memory,
        embedder: Some(embedder),
        bar: progress::count_bar(quiet),
        pending: Vec::new(),
        before: 0,
        total: conversations.iter().map(Conversation::turn_count).sum(),
        reports: Vec::new(),
    };
    for conversation in conversations {
        ingesting.take(conversation.clone())?;
    }
    ingesting.store()?;
    ingesting.bar.finish_and_clear();
    Ok(ingesting
        .reports
        .iter()
        .map(|(_, report)| report.turns_added)
        .sum())
}

/// Shows what an ingest or a reindexing is doing.
pub(crate) fn show(bar: &ProgressBar, what: &impl std::fmt::Display, step: IngestProgress) {
    let stage = match step.stage {
        IngestStage::Turns => "turns",
        IngestStage::Words => "words",
        IngestStage::Index => "index",
    };
    bar.set_message(format!("{what} {stage}"));
    bar.set_length(step.total as u64);
    bar.set_position(step.done as u64);
}

fn report(
    args: &IngestArgs,
    folder: &Path,
    files: &[Survey],
    reports: &[(ConversationId, IngestReport)],
) -> Result<()> {
    if args.json {
        let skipped = |file: &Survey| json!({ "file": file.file, "skipped": file.skipped() });
        return output::json(&json!({
            "memory": folder,
            "conversations": reports.iter().map(as_json).collect::<Vec<_>>(),
            "files": files.iter().map(skipped).collect::<Vec<_>>(),
        }));
    }
    for report in reports {
        output::line(sentence(report));
    }
    files.iter().for_each(Survey::print_skipped);
    Ok(())
}

/// The object of `--json` for one conversation.
pub(crate) fn as_json((conversation, report): &(ConversationId, IngestReport)) -> Value {
    json!({
        "conversation": conversation,
        "sessions_added": report.sessions_added,
        "turns_added": report.turns_added,
        "turns_changed": report.turns_changed,
        "turns_present": report.turns_present,
    })
}

fn sentence((conversation, report): &(ConversationId, IngestReport)) -> String {
    let mut text = format!(
        "{conversation}: {} turns in {} sessions added",
        report.turns_added, report.sessions_added
    );
    if report.turns_present > 0 {
        text.push_str(&format!(", {} were there already", report.turns_present));
    }
    if report.turns_changed > 0 {
        text.push_str(&format!(", {} changed", report.turns_changed));
    }
    text
}
