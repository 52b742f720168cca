//! `mneme generate`: one prompt, one reply, no memory.

use std::fs;
use std::sync::mpsc;

use anyhow::{Context, Result};
use engine_contract::{
    Constraint, EngineError, Generation, GenerationRequest, GenerationSink, LanguageModel, Message, Prompt,
    Role, Sampling,
};
use serde_json::json;

use crate::cli::GenerateArgs;
use crate::{assemble, output, progress};

pub(crate) fn run(args: &GenerateArgs, quiet: bool) -> Result<()> {
    let request = request(args)?;
    let spinner = progress::spinner(quiet);
    spinner.set_message(format!("loading {}", args.model.model));
    let loaded = assemble::language_model(assemble::cpu(args.model.threads)?, &args.model, None)?;
    spinner.finish_and_clear();
    if args.json {
        let generation = loaded.engine.generate(request)?;
        return output::json(&json!({
            "text": generation.text,
            "tokens": generation.tokens,
            "finish": generation.finish,
            "usage": generation.usage,
        }));
    }
    let (sender, receiver) = mpsc::channel();
    let ticket = loaded.engine.submit(request, Box::new(Stream(sender)))?;
    for piece in receiver {
        match piece {
            Piece::Text(text) => output::piece(&text),
            Piece::Done(result) => {
                ticket.detach();
                output::line("");
                result?;
                return Ok(());
            }
        }
    }
    Err(EngineError::ShutDown.into())
}

fn request(args: &GenerateArgs) -> Result<GenerationRequest> {
    let prompt = if args.raw {
        Prompt::Text(args.prompt.clone())
    } else {
        let system = args.system.iter().map(|rules| Message::new(Role::System, rules));
        Prompt::Chat(system.chain([Message::new(Role::User, &args.prompt)]).collect())
    };
    let mut request = GenerationRequest::new(prompt, args.max_tokens);
    request.sampling = Sampling::seeded(args.temperature, args.seed);
    if let Some(path) = &args.schema {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let schema =
            serde_json::from_str(&text).with_context(|| format!("{} is not JSON", path.display()))?;
        request.constraint = Constraint::JsonSchema(schema);
    }
    Ok(request)
}

enum Piece {
    Text(String),
    Done(Result<Generation, EngineError>),
}

/// Hands text to the printing thread; when that is gone, nobody wants it.
struct Stream(mpsc::Sender<Piece>);

impl GenerationSink for Stream {
    fn on_text(&mut self, delta: &str) {
        let _ = self.0.send(Piece::Text(delta.to_owned()));
    }

    fn on_done(self: Box<Self>, result: Result<Generation, EngineError>) {
        let _ = self.0.send(Piece::Done(result));
    }
}
