//! `mneme models`: list, fetch, check, look into.

use std::path::{Path, PathBuf};

use anyhow::Result;
use indicatif::ProgressBar;
use serde_json::json;
use weights::{ModelState, ModelStore, Pin, PullProgress, PullUpdate, Summary};

use crate::cli::{ModelsArgs, ModelsCommand};
use crate::{output, progress};

pub(crate) fn run(args: ModelsArgs, quiet: bool) -> Result<()> {
    let store = ModelStore::from_env()?;
    match args.command {
        ModelsCommand::List { json } => list(&store, json),
        ModelsCommand::Pull { name } => {
            pull(&store, &name, quiet)?;
            output::line(format!("{name} is in {}", store.locate(&name)?.folder.display()));
            Ok(())
        }
        ModelsCommand::Verify { name } => verify(&store, &name, quiet),
        ModelsCommand::Inspect { path, json } => inspect(&store, &path, json),
    }
}

/// Shows a fetch as a bar of bytes.
struct Bar(ProgressBar);

impl PullProgress for Bar {
    fn update(&mut self, update: &PullUpdate<'_>) {
        self.0
            .set_message(format!("{:?} {}", update.stage, update.file).to_lowercase());
        if let Some(total) = update.total {
            self.0.set_length(total);
        }
        self.0.set_position(update.done);
    }
}

/// Fetches a model unless it is here.
pub(crate) fn pull(store: &ModelStore, name: &str, quiet: bool) -> Result<()> {
    let mut bar = Bar(progress::byte_bar(quiet));
    let result = store.pull(name, &mut bar);
    bar.0.finish_and_clear();
    result?;
    Ok(())
}

fn state_word(state: ModelState) -> &'static str {
    match state {
        ModelState::Present => "here",
        ModelState::Partial => "partly",
        ModelState::Absent => "-",
    }
}

fn list(store: &ModelStore, json: bool) -> Result<()> {
    let models = store.list();
    if json {
        return output::json(&json!({
            "folder": store.folder(),
            "models": models.iter().map(|status| json!({
                "name": status.entry.name,
                "family": format!("{:?}", status.entry.family).to_lowercase(),
                "purpose": format!("{:?}", status.entry.purpose).to_lowercase(),
                "licence": status.entry.licence,
                "bytes": status.entry.bytes(),
                "state": state_word(status.state),
                "folder": store.folder().join(&status.entry.name),
                "files": status.entry.files.iter().map(|file| &file.name).collect::<Vec<_>>(),
            })).collect::<Vec<_>>(),
        }));
    }
    let head = ["model", "purpose", "quantisation", "size", "licence", "state"]
        .map(str::to_owned)
        .to_vec();
    let rows = models.iter().map(|status| {
        vec![
            status.entry.name.clone(),
            format!("{:?}", status.entry.purpose).to_lowercase(),
            status.entry.quantisation.clone(),
            status.entry.bytes().map_or("?".into(), output::bytes),
            status.entry.licence.clone(),
            state_word(status.state).to_owned(),
        ]
    });
    output::table(&std::iter::once(head).chain(rows).collect::<Vec<_>>());
    output::line(format!("models live in {}", store.folder().display()));
    Ok(())
}

fn verify(store: &ModelStore, name: &str, quiet: bool) -> Result<()> {
    let mut bar = Bar(progress::byte_bar(quiet));
    let files = store.verify(name, &mut bar);
    bar.0.finish_and_clear();
    for file in files? {
        let pin = match file.pin {
            Pin::Manifest => "as pinned in the manifest",
            Pin::Receipt => "as it was pulled",
            Pin::None => "not pinned",
        };
        output::line(format!(
            "{}: {} bytes, sha256 {}, {pin}",
            file.name, file.bytes, file.sha256
        ));
    }
    Ok(())
}

fn inspect(store: &ModelStore, given: &str, json: bool) -> Result<()> {
    let path = file_of(store, given)?;
    let summary = weights::inspect(&path)?;
    if json {
        output::json(&as_json(&summary))
    } else {
        print(&summary)
    }
}

/// A path that exists stands for itself; anything else is a model's name.
fn file_of(store: &ModelStore, given: &str) -> Result<PathBuf> {
    if Path::new(given).is_file() {
        return Ok(PathBuf::from(given));
    }
    let files = store.locate(given)?;
    Ok(if files.is_gguf() {
        files.gguf()?
    } else {
        files.file("model.safetensors")?
    })
}

fn as_json(summary: &Summary) -> serde_json::Value {
    json!({
        "path": summary.path,
        "format": format!("{:?}", summary.format),
        "architecture": summary.architecture,
        "name": summary.name,
        "bytes": summary.bytes,
        "parameters": summary.parameters,
        "layers": summary.layers,
        "context": summary.context,
        "vocabulary": summary.vocabulary,
        "tokenizer": summary.tokenizer,
        "chat_template": summary.chat_template,
        "types": summary.types.iter().map(|share| json!({
            "name": share.name, "tensors": share.tensors, "bytes": share.bytes,
        })).collect::<Vec<_>>(),
    })
}

fn print(summary: &Summary) -> Result<()> {
    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".into());
    let number = |value: Option<u32>| value.map_or("-".into(), |n| n.to_string());
    let types = summary
        .types
        .iter()
        .map(|t| format!("{} {} ({})", t.tensors, t.name, output::bytes(t.bytes)));
    let rows = [
        ("file", summary.path.display().to_string()),
        ("format", format!("{:?}", summary.format)),
        ("architecture", text(&summary.architecture)),
        ("name", text(&summary.name)),
        ("size", output::bytes(summary.bytes)),
        (
            "parameters",
            format!("{:.1} million", summary.parameters as f64 / 1e6),
        ),
        ("layers", number(summary.layers)),
        ("context", number(summary.context)),
        ("vocabulary", number(summary.vocabulary)),
        ("tokenizer", text(&summary.tokenizer)),
        (
            "chat template",
            if summary.chat_template { "yes" } else { "no" }.into(),
        ),
        ("tensors", types.collect::<Vec<_>>().join(", ")),
    ];
    output::table(&rows.map(|(name, value)| vec![name.to_owned(), value]));
    Ok(())
}
