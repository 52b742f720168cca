//! Compiles constraints once and hands out matchers.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use engine_contract::{Constraint, EngineError};
use llguidance::ParserFactory;
use toktrie::{InferenceCapabilities, TokEnv};
use weights::Tokenizer;

use super::grammar::{grammar, invalid, key};
use super::matcher::{Matcher, reason};
use super::vocabulary::token_env;

/// Compiled grammars kept; a grammar takes from 0.1 to a few MB.
const CACHED_GRAMMARS: usize = 64;

/// Sets of tokens whose place in the mask is decided once for all: those that fit into what is left of a JSON string.
/// Both together take a mask inside a string from 1,250 to 80 us; further ones only lengthen the preparation.
const SLICES: [&str; 2] = [r#"[^"\\\x00-\x1F\x7F]{1,10}"#, r#"[^"\\\x00-\x1F\x7F]{1,30}"#];

/// Turns constraints into matchers for one vocabulary; share it between threads.
///
/// The vocabulary's trie is built with the first constraint, and the latest 64 compiled grammars are kept.
pub struct GrammarCompiler {
    vocabulary: Box<VocabularySource>,
    factory: OnceLock<Result<Factory, EngineError>>,
    /// Least recently used first.
    compiled: Mutex<Vec<(String, Arc<Mutex<Matcher>>)>>,
}

type VocabularySource = dyn Fn() -> Result<TokEnv, EngineError> + Send + Sync;

struct Factory {
    parsers: ParserFactory,
    end_tokens: Vec<u32>,
}

impl GrammarCompiler {
    /// A compiler for the vocabulary of this tokenizer.
    #[must_use]
    pub fn new(tokenizer: Arc<Tokenizer>) -> Self {
        Self::from_vocabulary(move || token_env(Arc::clone(&tokenizer)))
    }

    /// A compiler whose vocabulary is made when the first constraint arrives.
    pub(super) fn from_vocabulary(
        vocabulary: impl Fn() -> Result<TokEnv, EngineError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            vocabulary: Box::new(vocabulary),
            factory: OnceLock::new(),
            compiled: Mutex::new(Vec::new()),
        }
    }

    /// Builds the vocabulary's trie now (0.3 s for 152k tokens) instead of with the first constraint.
    ///
    /// # Errors
    /// [`EngineError::Backend`] when the vocabulary has no end token.
    pub fn prepare(&self) -> Result<(), EngineError> {
        self.factory().map(|_| ())
    }

    fn factory(&self) -> Result<&Factory, EngineError> {
        self.factory
            .get_or_init(|| self.build())
            .as_ref()
            .map_err(Clone::clone)
    }

    /// A matcher at the start of a reply; `None` for [`Constraint::None`].
    ///
    /// # Errors
    /// [`EngineError::InvalidConstraint`] when the constraint cannot be compiled or nothing satisfies it,
    /// [`EngineError::Backend`] when the vocabulary has no end token.
    pub fn matcher(&self, constraint: &Constraint) -> Result<Option<Matcher>, EngineError> {
        let Some(grammar) = grammar(constraint)? else {
            return Ok(None);
        };
        let key = key(constraint);
        if let Some(found) = self.lookup(&key) {
            return Ok(Some(lock(&found).fork()));
        }
        let factory = self.factory()?;
        let parser = factory
            .parsers
            .create_parser(grammar)
            .map_err(|error| invalid(reason(&error)))?;
        let template = Matcher::new(llguidance::Matcher::new(Ok(parser)), factory.end_tokens.clone());
        // The first mask shows whether anything at all satisfies the constraint, and warms the lexer.
        let mut probe = template.fork();
        probe.mask()?;
        let matcher = template.fork();
        self.insert(key, template);
        Ok(Some(matcher))
    }

    fn build(&self) -> Result<Factory, EngineError> {
        let env = (self.vocabulary)()?;
        let parsers = ParserFactory::new(&env, InferenceCapabilities::default(), &SLICES.map(String::from));
        let mut parsers = parsers.map_err(|error| EngineError::Backend {
            backend: "constrained decoding".into(),
            reason: format!("the vocabulary could not be prepared: {}", reason(&error)),
        })?;
        parsers.quiet();
        parsers.limits_mut().verbose_errors = false;
        Ok(Factory {
            parsers,
            end_tokens: env.tok_trie().eos_tokens().to_vec(),
        })
    }

    fn lookup(&self, key: &str) -> Option<Arc<Mutex<Matcher>>> {
        let mut compiled = lock(&self.compiled);
        let index = compiled.iter().position(|(known, _)| known == key)?;
        let entry = compiled.remove(index);
        let template = Arc::clone(&entry.1);
        compiled.push(entry);
        Some(template)
    }

    fn insert(&self, key: String, template: Matcher) {
        let mut compiled = lock(&self.compiled);
        // Another thread may have compiled the same constraint meanwhile.
        compiled.retain(|(known, _)| *known != key);
        if compiled.len() == CACHED_GRAMMARS {
            compiled.remove(0);
        }
        compiled.push((key, Arc::new(Mutex::new(template))));
    }
}

impl fmt::Debug for GrammarCompiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrammarCompiler")
            .field("compiled", &lock(&self.compiled).len())
            .finish_non_exhaustive()
    }
}

/// A panic of another thread cannot leave these lists half-changed.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
