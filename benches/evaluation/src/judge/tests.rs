//! A judge that leans to one label is set right by known answers; one that tells no probabilities counts as it says.

use engine_contract::scripted::ScriptedModel;
use engine_contract::{EngineStats, FinishReason, GenerationSink, ModelInfo, TokenLogprob, Usage};

use super::*;

/// Says yes to everything, but a little less so where the answer does not share a word with the right answer.
struct Leaning(ModelInfo);

fn part<'a>(text: &'a str, name: &str) -> &'a str {
    text.split_once(name)
        .and_then(|(_, rest)| rest.split('\n').next())
        .unwrap_or_default()
}

impl LanguageModel for Leaning {
    fn info(&self) -> &ModelInfo {
        &self.0
    }

    fn count_tokens(&self, _: &Prompt) -> Result<usize, EngineError> {
        Ok(1)
    }

    fn submit(
        &self,
        request: GenerationRequest,
        sink: Box<dyn GenerationSink>,
    ) -> Result<Ticket, EngineError> {
        let (Prompt::Chat(messages), Constraint::Choices(labels)) = (&request.prompt, &request.constraint)
        else {
            panic!("a judge asks in a dialogue for one of its labels")
        };
        let text = messages[1].text();
        let gold = part(&text, "Right answer: ").to_lowercase();
        let answer = part(&text, "Answer of the system: ").to_lowercase();
        let shares = gold
            .split_whitespace()
            .any(|word| word.len() > 3 && answer.contains(word));
        let right = 5.0 + if shares { 1.0 } else { 0.0 };
        let label = labels.first().cloned().unwrap_or_default();
        let logprob = if label == "CORRECT" { right } else { 0.0 };
        sink.on_done(Ok(Generation {
            text: label,
            tokens: vec![1],
            finish: FinishReason::End,
            usage: Usage::zero(),
            logprobs: Some(vec![TokenLogprob {
                token: 1,
                logprob,
                top: vec![],
            }]),
        }));
        Ok(Ticket::new(|| {}))
    }

    fn stats(&self) -> EngineStats {
        EngineStats::default()
    }
}

fn case<'a>(gold: &'a str, answer: &'a str) -> Case<'a> {
    Case {
        question: "Which boat is it?",
        gold,
        answer,
        kind: None,
        unanswerable: false,
        declined: false,
    }
}

#[test]
fn a_leaning_judge_is_set_right_by_known_answers() {
    let model = Leaning(ModelInfo {
        name: "leaning".into(),
        context_tokens: 100,
        vocabulary: 2,
    });
    let cases = [
        case("the green boat", "a green one"),
        case("the green boat", "a red car"),
    ];
    assert_eq!(judge(&model, Rules::Strict, &cases, None).unwrap(), [true, false]);
}

#[test]
fn without_probabilities_the_label_counts_and_declining_is_settled_first() {
    let model = ScriptedModel::new(|_| Ok("WRONG".into()));
    let declined = Case {
        declined: true,
        ..case("x", "not mentioned")
    };
    let unanswerable = Case {
        unanswerable: true,
        ..declined
    };
    let cases = [case("x", "x"), declined, unanswerable];
    assert_eq!(
        judge(&model, Rules::Strict, &cases, None).unwrap(),
        [false, false, true]
    );
    let requests = model.requests();
    assert_eq!(requests.len(), 3, "the odds of one case, then its label");
    assert!(requests.iter().all(|request| request.sampling.temperature == 0.0));
    let stop = AtomicBool::new(true);
    assert!(judge(&model, Rules::Strict, &[], Some(&stop)).unwrap().is_empty());
}
