//! `mneme models inspect`: what a model file holds, what memory the model will take, and what it took.

use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Instant;

use anyhow::Result;
use engine::{Engine, EngineConfig, MemoryPlan};
use engine_contract::{EngineStats, GenerationRequest, LanguageModel, Prompt};
use serde_json::json;
use weights::{ModelFiles, ModelStore, Summary};

use crate::cli::InspectArgs;
use crate::output;

const MIB: u64 = 1024 * 1024;
/// Prompts and tokens of each that a loaded model is given: several full batches.
const PROMPTS: u32 = 4;
const PROMPT_TOKENS: u32 = 512;

pub(super) fn run(store: &ModelStore, args: &InspectArgs) -> Result<()> {
    let path = file_of(store, &args.path)?;
    let summary = weights::inspect(&path)?;
    let memory = memory(store, args, &summary)?;
    if args.json {
        let mut object = as_json(&summary);
        if let Some(memory) = memory {
            object["memory"] = memory.as_json();
        }
        return output::json(&object);
    }
    print(&summary);
    if let Some(memory) = memory {
        memory.print();
    }
    Ok(())
}

/// What a language model will take, and what it took when it was loaded.
struct Memory {
    plan: MemoryPlan,
    fact: Option<Fact>,
}

/// Of a loaded model that has answered a few prompts.
struct Fact {
    load_seconds: f64,
    stats: EngineStats,
    /// Of this process, where the system tells.
    peak: Option<u64>,
}

/// `None` for a file that is no language model of ours.
fn memory(store: &ModelStore, args: &InspectArgs, summary: &Summary) -> Result<Option<Memory>> {
    if summary.architecture.as_deref() != Some("qwen2") {
        anyhow::ensure!(
            !args.load,
            "{} is not a language model that mneme runs; leave --load out",
            summary.path.display()
        );
        return Ok(None);
    }
    let files = store.locate(&args.path)?;
    let config = EngineConfig {
        kv_bytes: args.kv_mib.saturating_mul(MIB),
        ..EngineConfig::default()
    };
    let plan = MemoryPlan::of(&files, &config)?;
    let fact = args.load.then(|| Fact::of(&files, config)).transpose()?;
    Ok(Some(Memory { plan, fact }))
}

impl Fact {
    /// Loads the model and lets it read and write enough to touch what it needs.
    fn of(files: &ModelFiles, config: EngineConfig) -> Result<Self> {
        let started = Instant::now();
        let engine = Engine::load(files, config)?;
        let load_seconds = started.elapsed().as_secs_f64();
        let vocabulary = engine.info().vocabulary as u32;
        let (sender, receiver) = mpsc::channel();
        for prompt in 0..PROMPTS {
            // Spread over the vocabulary, so that all embeddings are touched, and without a common beginning.
            let tokens = (0..PROMPT_TOKENS)
                .map(|at| (at * PROMPTS + prompt) * (vocabulary / 8192).max(1) % vocabulary);
            let request = GenerationRequest::new(Prompt::Tokens(tokens.collect()), 8);
            let sender = sender.clone();
            // The receiver lives until all have arrived.
            let sink = move |result| drop(sender.send(result));
            engine.submit(request, Box::new(sink))?.detach();
        }
        drop(sender);
        for reply in receiver {
            reply?;
        }
        Ok(Self {
            load_seconds,
            stats: engine.stats(),
            peak: peak_memory(),
        })
    }
}

/// The most memory this process has had, in bytes.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

impl Memory {
    fn as_json(&self) -> serde_json::Value {
        let plan = &self.plan;
        json!({
            "plan": {
                "weights": plan.weights,
                "embeddings": plan.embeddings,
                "kv_budget": plan.kv_budget,
                "kv_per_token": plan.kv_per_token,
                "kv_tokens": plan.kv_tokens(),
                "rest": plan.rest,
                "total": plan.total(),
            },
            "fact": self.fact.as_ref().map(|fact| json!({
                "load_seconds": fact.load_seconds,
                "weights": fact.stats.weight_bytes,
                "kv_used": fact.stats.kv_bytes_used,
                "peak": fact.peak,
            })),
        })
    }

    fn print(&self) {
        let plan = &self.plan;
        let size = output::bytes;
        output::line(format!(
            "memory: {} weights + {} embeddings (mapped) + {} keys and values ({} tokens) + at most {} = {}",
            size(plan.weights),
            size(plan.embeddings),
            size(plan.kv_budget),
            plan.kv_tokens(),
            size(plan.rest),
            size(plan.total()),
        ));
        if let Some(fact) = &self.fact {
            output::line(format!(
                "loaded: in {:.2} s; peak {} with {} of keys and values in use",
                fact.load_seconds,
                fact.peak.map_or("unknown".into(), size),
                size(fact.stats.kv_bytes_used),
            ));
        }
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

fn print(summary: &Summary) {
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
}
