//! From what was typed to a method with its settings, and to the methods of a sweep.

use agents::{FullContextSettings, Method, RagSettings, Settings};
use anyhow::{Context, Result, bail};
use retrieval::Retriever;
use serde_json::{Map, Value};

use crate::cli::{AnsweringArgs, EvalMethod};

/// Tokens kept free for rules, question and answer when a conversation is truncated.
const BESIDE_TURNS: usize = 800;
/// The letters of the paper.
const LETTERS: [(&str, &str); 3] = [("W", "window"), ("J", "max_iterations"), ("K", "top_k")];

/// One run of a command: its name, the method, and the value of the setting that is swept.
#[derive(Debug, Clone)]
pub(super) struct Planned {
    /// `main`, or what sets it apart, such as `W=4`.
    pub(super) name: String,
    pub(super) method: Method,
    /// The sweep it belongs to and its place there.
    pub(super) axis: Option<(String, f64)>,
}

/// The method that was asked for.
pub(super) fn method(
    kind: EvalMethod,
    args: &AnsweringArgs,
    retriever: Retriever,
    abstain: bool,
) -> Result<Method> {
    let method = match kind {
        EvalMethod::Rag => Method::Rag(RagSettings {
            retriever,
            abstain,
            ..RagSettings::default()
        }),
        EvalMethod::Memcot => Method::Memcot(Settings {
            retriever,
            abstain,
            ..Settings::default()
        }),
        EvalMethod::FullContext => Method::FullContext(FullContextSettings {
            truncate: args.truncate,
            abstain,
            ..FullContextSettings::default()
        }),
        EvalMethod::Rime | EvalMethod::Direct => bail!(
            "this method answers from formed memories, which a memory does not hold yet; use memcot, rag or full-context"
        ),
        EvalMethod::Retrieval => bail!("retrieval answers nothing; use memcot, rag or full-context"),
    };
    let set = args.set.iter().map(|text| assignment("--set", text));
    set.collect::<Result<Vec<_>>>()?
        .into_iter()
        .try_fold(method, |method, (name, value)| with(&method, name, scalar(value)))
}

/// Lets truncated conversations fill the model's context.
pub(super) fn fit(method: Method, context_tokens: usize) -> Method {
    match &method {
        Method::FullContext(settings) if settings.truncate => Method::FullContext(FullContextSettings {
            turn_tokens: settings
                .turn_tokens
                .min(context_tokens.saturating_sub(BESIDE_TURNS).max(1)),
            ..settings.clone()
        }),
        Method::FullContext(_) | Method::Memcot(_) | Method::Rag(_) | Method::Rime(_) => method,
    }
}

/// The run itself first, then those of its sweeps and ablations.
pub(super) fn plan(main: &Method, args: &AnsweringArgs) -> Result<Vec<Planned>> {
    let mut planned = vec![Planned {
        name: "main".into(),
        method: main.clone(),
        axis: None,
    }];
    for text in &args.sweep {
        let (name, values) = assignment("--sweep", text)?;
        for (place, value) in values_of(values)?.into_iter().enumerate() {
            let place = value.as_f64().unwrap_or(place as f64);
            let method = with(main, name, value.clone())?;
            planned.push(Planned {
                name: format!("{name}={}", shown(&value)),
                method,
                axis: Some((name.to_owned(), place)),
            });
        }
    }
    if args.ablate {
        for (name, value) in ablations(main)? {
            planned.push(Planned {
                name: format!("{name}={}", shown(&value)),
                method: with(main, name, value)?,
                axis: None,
            });
        }
    }
    Ok(planned)
}

/// What can be taken away from a method.
fn ablations(method: &Method) -> Result<Vec<(&'static str, Value)>> {
    Ok(match method {
        Method::Memcot(_) => vec![
            ("zoom_out", false.into()),
            ("episodic", false.into()),
            ("keep_ranked", 0.into()),
            ("stages", "fused".into()),
            ("time_words", false.into()),
        ],
        Method::Rag(_) | Method::FullContext(_) => vec![("time_words", false.into())],
        Method::Rime(_) => bail!("there are no ablations of RIME here yet"),
    })
}

fn assignment<'a>(option: &str, text: &'a str) -> Result<(&'a str, &'a str)> {
    text.split_once('=')
        .with_context(|| format!("{option} has {text:?}, expected NAME=VALUE, such as W=4"))
}

/// The method with one setting changed; settings go by the names of run.json, or by the paper's letters.
fn with(method: &Method, name: &str, value: Value) -> Result<Method> {
    let mut json = serde_json::to_value(method)?;
    let settings = json.as_object_mut().and_then(|object| object.values_mut().next());
    let settings: &mut Map<String, Value> = settings
        .and_then(Value::as_object_mut)
        .context("a method is written as an object of its settings")?;
    let field = LETTERS
        .iter()
        .find(|(letter, _)| *letter == name)
        .map_or(name, |(_, field)| field);
    let known = settings.keys().cloned().collect::<Vec<_>>().join(", ");
    let place = settings
        .get_mut(field)
        .with_context(|| format!("this method has no setting {name}; it has {known}"))?;
    let shown = shown(&value);
    *place = value;
    let changed: Method =
        serde_json::from_value(json).with_context(|| format!("setting {name} cannot be {shown}"))?;
    let checked = match &changed {
        Method::Memcot(settings) => settings.validate(),
        Method::Rag(settings) => settings.validate(),
        Method::FullContext(settings) => settings.validate(),
        Method::Rime(settings) => settings.validate(),
    };
    checked?;
    Ok(changed)
}

/// `1..15`, `1..15:2`, `5,10,20` or `true,false`.
fn values_of(text: &str) -> Result<Vec<Value>> {
    let Some((first, rest)) = text.split_once("..") else {
        return Ok(text.split(',').map(scalar).collect());
    };
    let (last, step) = rest.split_once(':').unwrap_or((rest, "1"));
    let number = |part: &str| {
        part.parse::<usize>()
            .with_context(|| format!("--sweep has {text:?}, expected whole numbers as in 1..15 or 1..15:2"))
    };
    let (first, last, step) = (number(first)?, number(last)?, number(step)?);
    if first > last || step == 0 {
        bail!("--sweep has {text:?}, expected FIRST..LAST with FIRST up to LAST and a step of 1 or more");
    }
    Ok((first..=last).step_by(step).map(Value::from).collect())
}

fn scalar(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(set: &[&str], sweep: &[&str], ablate: bool) -> AnsweringArgs {
        let owned = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
        AnsweringArgs {
            stratify: false,
            concurrency: 1,
            out: None,
            resume: false,
            set: owned(set),
            sweep: owned(sweep),
            ablate,
            truncate: true,
            judge: vec![],
            judge_model: None,
            audit: None,
        }
    }

    fn memcot(set: &[&str]) -> Result<Method> {
        method(
            EvalMethod::Memcot,
            &args(set, &[], false),
            Retriever::Hybrid,
            false,
        )
    }

    #[test]
    fn settings_go_by_name_or_letter() {
        let Method::Memcot(settings) = memcot(&["W=7", "zoom_out=false", "stages=fused"]).unwrap() else {
            panic!("memcot was asked for")
        };
        assert_eq!(
            (settings.window, settings.zoom_out, settings.abstain),
            (7, false, false)
        );
        let error = |set: &str| format!("{:#}", memcot(&[set]).unwrap_err());
        assert!(error("depth=3").contains("no setting depth; it has max_iterations, top_k"));
        assert!(
            error("W=many").contains("setting W cannot be many"),
            "{}",
            error("W=many")
        );
        assert!(error("W=0").contains("setting window is 0, expected 1 to 100"));
        assert!(error("W").contains("expected NAME=VALUE"));
        let rime = method(EvalMethod::Rime, &args(&[], &[], false), Retriever::Hybrid, true);
        assert!(rime.unwrap_err().to_string().contains("formed memories"));
    }

    #[test]
    fn sweeps_and_ablations_are_runs_of_their_own() {
        let main = memcot(&[]).unwrap();
        let planned = plan(&main, &args(&[], &["W=1..5:2", "K=5,20"], true)).unwrap();
        let names: Vec<&str> = planned.iter().map(|run| run.name.as_str()).collect();
        let expected = [
            "main",
            "W=1",
            "W=3",
            "W=5",
            "K=5",
            "K=20",
            "zoom_out=false",
            "episodic=false",
            "keep_ranked=0",
            "stages=fused",
            "time_words=false",
        ];
        assert_eq!(names, expected);
        assert_eq!(planned[5].axis, Some(("K".into(), 20.0)));
        let wrong = plan(&main, &args(&[], &["W=5..1"], false))
            .unwrap_err()
            .to_string();
        assert!(wrong.contains("FIRST up to LAST"), "{wrong}");
    }

    #[test]
    fn truncated_conversations_fill_the_context() {
        let full = method(
            EvalMethod::FullContext,
            &args(&[], &[], false),
            Retriever::Hybrid,
            true,
        )
        .unwrap();
        let Method::FullContext(settings) = fit(full, 4_096) else {
            panic!("full context was asked for")
        };
        assert_eq!((settings.truncate, settings.turn_tokens), (true, 3_296));
    }
}
