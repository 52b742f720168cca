//! Checks of usage, refusals, cancelling, constraints and streams.

use std::sync::mpsc::{Sender, channel};

use super::suite::{Suite, ensure, same};
use crate::{
    Constraint, EngineError, FinishReason, Generation, GenerationRequest, GenerationSink, Prompt, Sampling,
};

pub(super) fn namespaces_are_apart(suite: &Suite<'_>) -> Result<(), String> {
    let prompt = suite.tokens(suite.options.stem_tokens);
    suite.run(suite.fresh(), &prompt)?;
    match suite.run(suite.fresh(), &prompt)?.usage.cached_tokens {
        None | Some(0) => Ok(()),
        Some(cached) => Err(format!("{cached} tokens came from another namespace")),
    }
}

pub(super) fn usage_adds_up(suite: &Suite<'_>) -> Result<(), String> {
    let (namespace, prompt) = (suite.fresh(), suite.tokens(suite.options.stem_tokens));
    for _ in 0..2 {
        let reply = suite.run(namespace, &prompt)?;
        let usage = reply.usage;
        same("prompt tokens", &prompt.len(), &usage.prompt_tokens)?;
        if let Some((cached, computed)) = usage.cached_tokens.zip(usage.computed_tokens) {
            same("cached and computed tokens", &prompt.len(), &(cached + computed))?;
        }
        let end = usize::from(reply.finish == FinishReason::End);
        same(
            "generated tokens",
            &(reply.tokens.len() + end),
            &usage.generated_tokens,
        )?;
        if reply.finish == FinishReason::Length {
            same(
                "generated tokens",
                &suite.options.new_tokens,
                &usage.generated_tokens,
            )?;
        }
    }
    Ok(())
}

pub(super) fn logprobs_are_natural(suite: &Suite<'_>) -> Result<(), String> {
    let count = suite.model.info().vocabulary.min(5);
    let request = GenerationRequest {
        logprobs: Some(count),
        ..suite.request(suite.fresh(), &suite.tokens(20))
    };
    let reply = suite.generate(&request)?;
    let logprobs = reply.logprobs.ok_or("no log-probabilities came")?;
    same("entries", &reply.tokens.len(), &logprobs.len())?;
    for (token, entry) in reply.tokens.iter().zip(&logprobs) {
        same("token", token, &entry.token)?;
        same("alternatives", &count, &entry.top.len())?;
        same(
            "the best alternative of a greedy reply",
            &(*token, entry.logprob),
            &entry.top[0],
        )?;
        let total: f64 = entry
            .top
            .iter()
            .map(|(_, logprob)| f64::from(*logprob).exp())
            .sum();
        ensure(total > 0.0 && total < 1.0 + 1e-4, || {
            format!("probabilities add up to {total}")
        })?;
        ensure(entry.top.is_sorted_by(|a, b| a.1 >= b.1), || {
            "alternatives are not best first".into()
        })?;
    }
    Ok(())
}

/// A sink that reports the first text it sees and the end.
struct Listener {
    first: Sender<()>,
    done: Sender<Result<Generation, EngineError>>,
}

impl GenerationSink for Listener {
    fn on_text(&mut self, _delta: &str) {
        // A check that has failed already listens no more.
        let _ = self.first.send(());
    }

    fn on_done(self: Box<Self>, result: Result<Generation, EngineError>) {
        let _ = self.done.send(result);
    }
}

pub(super) fn cancel_works(suite: &Suite<'_>) -> Result<(), String> {
    let prompt = suite.tokens(suite.options.stem_tokens);
    let request = GenerationRequest {
        max_tokens: suite.options.stem_tokens * 3,
        ..suite.request(suite.fresh(), &prompt)
    };
    let (first, _running) = channel();
    let (done, end) = channel();
    let ticket = suite
        .model
        .submit(request, Box::new(Listener { first, done }))
        .map_err(|error| error.to_string())?;
    drop(ticket);
    // A fast backend may have finished before it heard of the cancelling.
    match end.recv() {
        Ok(Ok(_) | Err(EngineError::Cancelled)) => {}
        Ok(Err(error)) => return Err(format!("expected a cancelled request, received: {error}")),
        Err(_) => return Err("the sink was dropped without an end".into()),
    }
    let after = suite.run(suite.fresh(), &prompt)?;
    same(
        "the next reply",
        &suite.run(suite.fresh(), &prompt)?.tokens,
        &after.tokens,
    )
}

pub(super) fn overflow_is_refused(suite: &Suite<'_>) -> Result<(), String> {
    let context = suite.model.info().context_tokens;
    let request = |tokens: usize, max_tokens| GenerationRequest {
        max_tokens,
        ..suite.request(suite.fresh(), &suite.tokens(tokens))
    };
    let refusal = |request| match suite.model.submit(request, Box::new(|_| {})) {
        Ok(_) => Err("a request beyond the context was taken".to_owned()),
        Err(error) => Ok(error),
    };
    let error = refusal(request(context, 1))?;
    let expected = EngineError::PromptTooLong {
        limit_tokens: context - 1,
        actual_tokens: context,
        max_tokens: 1,
    };
    same("error", &expected, &error)?;
    let error = refusal(request(2, context))?;
    let expected = EngineError::PromptTooLong {
        limit_tokens: 0,
        actual_tokens: 2,
        max_tokens: context,
    };
    same("error", &expected, &error)
}

pub(super) fn bad_fields_are_refused(suite: &Suite<'_>) -> Result<(), String> {
    let good = suite.request(suite.fresh(), &suite.tokens(4));
    let sampling = |change: fn(&mut Sampling)| {
        let mut bad = good.clone();
        change(&mut bad.sampling);
        bad
    };
    let cases = [
        (
            "max_tokens",
            GenerationRequest {
                max_tokens: 0,
                ..good.clone()
            },
        ),
        (
            "stop",
            GenerationRequest {
                stop: vec![String::new()],
                ..good.clone()
            },
        ),
        ("temperature", sampling(|sampling| sampling.temperature = -1.0)),
        (
            "temperature",
            sampling(|sampling| sampling.temperature = f32::NAN),
        ),
        ("top_p", sampling(|sampling| sampling.top_p = 0.0)),
        ("min_p", sampling(|sampling| sampling.min_p = 1.0)),
        (
            "repetition_penalty",
            sampling(|sampling| sampling.repetition_penalty = 0.0),
        ),
    ];
    for (name, request) in cases {
        match suite.model.submit(request, Box::new(|_| {})) {
            Err(EngineError::InvalidRequest { field, .. }) => same("the field named", &name, &field)?,
            Err(error) => return Err(format!("{name}: {error}")),
            Ok(_) => return Err(format!("a bad {name} was taken")),
        }
    }
    let empty = GenerationRequest {
        prompt: Prompt::Tokens(Vec::new()),
        ..good.clone()
    };
    ensure(
        matches!(
            suite.model.submit(empty, Box::new(|_| {})),
            Err(EngineError::Prompt { .. })
        ),
        || "an empty prompt was taken".into(),
    )
}

pub(super) fn constraints_hold(suite: &Suite<'_>) -> Result<(), String> {
    let request = |constraint| GenerationRequest {
        constraint,
        max_tokens: 60,
        logprobs: None,
        ..suite.request(suite.fresh(), &suite.tokens(30))
    };
    let schema = serde_json::json!({
        "type": "object",
        "properties": { "enough": { "type": "boolean" }, "id": { "enum": ["D1:3", "D2:7"] } },
        "required": ["enough", "id"],
        "additionalProperties": false,
    });
    let choices = vec!["yes".to_owned(), "not in the conversation".to_owned()];
    let replies = suite.together(vec![
        request(Constraint::JsonSchema(schema)),
        request(Constraint::Choices(choices.clone())),
        request(Constraint::Regex("[0-9]{4}-[0-9]{2}".into())),
        request(Constraint::None),
    ])?;
    let value: serde_json::Value =
        serde_json::from_str(&replies[0].text).map_err(|error| format!("{:?}: {error}", replies[0].text))?;
    ensure(
        value["enough"].is_boolean() && ["D1:3", "D2:7"].contains(&value["id"].as_str().unwrap_or("")),
        || format!("{value} does not satisfy the schema"),
    )?;
    ensure(choices.contains(&replies[1].text), || {
        format!("{:?} is no choice", replies[1].text)
    })?;
    let date = replies[2].text.as_bytes();
    ensure(date.len() == 7 && date[4] == b'-', || {
        format!("{:?} does not match", replies[2].text)
    })?;
    match suite
        .model
        .submit(request(Constraint::Regex("(".into())), Box::new(|_| {}))
    {
        Err(EngineError::InvalidConstraint { .. }) => Ok(()),
        Err(error) => Err(format!("a broken expression: {error}")),
        Ok(_) => Err("a broken expression was taken".into()),
    }
}

/// A sink that collects the streamed text.
struct Collector {
    text: String,
    done: Sender<(String, Result<Generation, EngineError>)>,
}

impl GenerationSink for Collector {
    fn on_text(&mut self, delta: &str) {
        self.text.push_str(delta);
    }

    fn on_done(self: Box<Self>, result: Result<Generation, EngineError>) {
        // A check that has failed already listens no more.
        let _ = self.done.send((self.text, result));
    }
}

pub(super) fn streams_concatenate(suite: &Suite<'_>) -> Result<(), String> {
    let request = suite.request(suite.fresh(), &suite.tokens(25));
    let (done, end) = channel();
    let sink = Box::new(Collector {
        text: String::new(),
        done,
    });
    let ticket = suite
        .model
        .submit(request, sink)
        .map_err(|error| error.to_string())?;
    let (text, result) = end.recv().map_err(|_| "the sink was dropped without an end")?;
    ticket.detach();
    same(
        "streamed text",
        &result.map_err(|error| error.to_string())?.text,
        &text,
    )
}
