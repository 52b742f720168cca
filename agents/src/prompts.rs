//! The prompt files, rendered with minijinja.

use std::sync::LazyLock;

use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, UndefinedBehavior, Value};

/// Every file of `agents/prompts`, by name.
const FILES: [(&str, &str); 20] = [
    ("card.md", include_str!("../prompts/card.md")),
    ("episode.md", include_str!("../prompts/episode.md")),
    ("evidence.md", include_str!("../prompts/evidence.md")),
    ("excerpts.md", include_str!("../prompts/excerpts.md")),
    ("form.md", include_str!("../prompts/form.md")),
    ("form_memories.md", include_str!("../prompts/form_memories.md")),
    ("form_system.md", include_str!("../prompts/form_system.md")),
    ("fused.md", include_str!("../prompts/fused.md")),
    ("graph.md", include_str!("../prompts/graph.md")),
    ("graph_system.md", include_str!("../prompts/graph_system.md")),
    ("judge.md", include_str!("../prompts/judge.md")),
    ("question.md", include_str!("../prompts/question.md")),
    ("recollect.md", include_str!("../prompts/recollect.md")),
    ("respond.md", include_str!("../prompts/respond.md")),
    ("retry.md", include_str!("../prompts/retry.md")),
    ("rewrite.md", include_str!("../prompts/rewrite.md")),
    ("system.md", include_str!("../prompts/system.md")),
    ("verify.md", include_str!("../prompts/verify.md")),
    ("zoom_in.md", include_str!("../prompts/zoom_in.md")),
    ("zoom_out.md", include_str!("../prompts/zoom_out.md")),
];

static ENVIRONMENT: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    let syntax = SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .keep_trailing_newline(true)
        .build()
        .expect("the default delimiters do not clash");
    environment.set_syntax(syntax);
    for (name, source) in FILES {
        environment
            .add_template(name, source)
            .expect("prompt files are part of the program and parse");
    }
    environment
});

/// Renders a prompt file. Every file is rendered by a test with the fields its callers pass.
pub(crate) fn render(name: &str, fields: Value) -> String {
    ENVIRONMENT
        .get_template(name)
        .and_then(|template| template.render(fields))
        .expect("prompt files are part of the program and use the fields passed to them")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_parses() {
        assert_eq!(ENVIRONMENT.templates().count(), FILES.len());
    }

    #[test]
    fn content_is_never_taken_for_template_code_or_escaped() {
        let text = "{{ 7 * 7 }} {% raw %} <b>&amp;</b>";
        let rendered = render(
            "question.md",
            minijinja::context! { question => text, asked => Value::from(()) },
        );
        assert!(rendered.contains(text), "{rendered}");
    }
}
