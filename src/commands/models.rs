//! `mneme models`: list, fetch, check, look into.

mod inspect;

use anyhow::Result;
use indicatif::ProgressBar;
use serde_json::json;
use weights::{ModelState, ModelStore, Pin, PullProgress, PullUpdate};

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
        ModelsCommand::Inspect(args) => inspect::run(&store, &args),
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
