//! The loop against a scripted model and a small memory.

mod loops;
mod prompts;
mod retries;

use engine_contract::scripted::ScriptedModel;
use engine_contract::{GenerationRequest, Message, Prompt};

use crate::fixture::Notebook;
use crate::{Answered, Driver, Job, Method, Note, Outcome, Question, Settings};

/// One question, played to its end.
struct Played {
    answered: Answered,
    requests: Vec<GenerationRequest>,
}

impl Played {
    fn outcome(&self) -> &Outcome {
        self.answered.result.as_ref().expect("the script is complete")
    }

    fn notes(&self) -> Vec<&Note> {
        self.answered
            .trace
            .steps
            .iter()
            .flat_map(|step| &step.notes)
            .collect()
    }

    /// The user message's parts of each request.
    fn parts(&self) -> Vec<&[String]> {
        self.requests
            .iter()
            .map(|request| user(request).parts.as_slice())
            .collect()
    }
}

fn user(request: &GenerationRequest) -> &Message {
    match &request.prompt {
        Prompt::Chat(messages) => &messages[1],
        Prompt::Text(_) | Prompt::Tokens(_) => panic!("loops send chats"),
    }
}

/// Plays a question over the small memory with these replies, in order.
fn play(question: &str, settings: Settings, replies: &[&'static str]) -> Played {
    play_method(question, Method::Memcot(settings), replies)
}

fn play_method(question: &str, method: Method, replies: &[&'static str]) -> Played {
    let (model, memory) = (ScriptedModel::replies(replies.to_vec()), Notebook::small());
    let job = Job {
        question: Question::new(question),
        method,
        recall: &memory,
    };
    let answered = Driver::new(&model).run(vec![job], &mut |_| {}).remove(0);
    Played {
        answered,
        requests: model.requests(),
    }
}

/// Only what the script picks is taken.
fn as_picked() -> Settings {
    Settings {
        keep_ranked: 0,
        ..Settings::default()
    }
}

/// One hit per query besides: the memory is so small that more would show all of it at once.
fn narrow() -> Settings {
    Settings {
        top_k: 1,
        ..as_picked()
    }
}

fn ids(turns: &[retrieval::TurnRecord]) -> Vec<&str> {
    turns.iter().map(|turn| turn.id.as_str()).collect()
}

/// Two iterations with every stage.
const TWO_ROUNDS: [&str; 8] = [
    r#"{"useful": ["D1:2"]}"#,
    r#"{"add": []}"#,
    r#"{"answer": "", "enough": false}"#,
    r#"{"missing": "when Rex ran away", "action": "decompose", "queries": ["Rex ran away", "Rex found at the lake"]}"#,
    r#"{"useful": ["D2:1"]}"#,
    r#"{"add": ["D2:3"]}"#,
    r#"{"answer": "18 June 2023", "enough": true}"#,
    r#"{"answer": "18 June 2023", "evidence": ["D2:1"], "found": true}"#,
];

const QUESTION: &str = "When did Bob's dog run away?";
