//! A search in one namespace or conversation has nothing of another in its reach, whatever they are called.

use std::sync::Arc;

use super::*;
use crate::{Recall, Retriever, SearchRequest, Searcher, namespace_folder, namespaces};

/// Names that would run into each other as paths, as C strings, as prefixes, or before the eye.
const HOSTILE: [&str; 16] = [
    "a",
    "aa",
    "a/b",
    "a/../b",
    "b",
    "..",
    "/",
    "a\0",
    "a\0b",
    "\0",
    "A",
    "а", // Cyrillic
    "é",
    "e\u{301}",
    "a\u{200b}",
    " ",
];

fn request(query: &str, retriever: Retriever) -> SearchRequest {
    SearchRequest {
        query: query.into(),
        limit: 100,
        retriever,
    }
}

/// What one name's conversation says; the numbers are its own.
fn secret(index: usize, id: &str) -> Conversation {
    let (own, shared) = (
        format!("The secret is sesame{index}."),
        format!("We all know the door, says {index}."),
    );
    conversation(id, &[&[("Ann", &own), ("Ben", &shared)]])
}

/// Every hit of any search must be of this name.
fn sees_only(searcher: &Searcher, index: usize, id: &str) {
    for other in 0..HOSTILE.len() {
        for retriever in [Retriever::Dense, Retriever::Bm25, Retriever::Hybrid] {
            let hits = searcher
                .search(&request(&format!("sesame{other} door"), retriever))
                .unwrap();
            for hit in hits {
                assert_eq!(hit.turn.conversation.as_str(), id, "{index} found {hit:?}");
                let own = [format!("sesame{index}."), format!("says {index}.")];
                assert!(
                    own.iter().any(|own| hit.turn.text.ends_with(own)),
                    "{index} found {hit:?}"
                );
            }
        }
    }
    let own = searcher
        .search(&request(&format!("sesame{index}"), Retriever::Bm25))
        .unwrap();
    assert!(own[0].turn.text.contains(&format!("sesame{index}.")));
}

#[test]
fn namespaces_do_not_see_each_other() {
    let root = tempfile::tempdir().unwrap();
    let embedder = Arc::new(HashEmbedder::new(64));
    let open = |name: &str| {
        let folder = namespace_folder(root.path(), name).unwrap();
        assert!(folder.starts_with(root.path()) && folder.components().all(|part| part.as_os_str() != ".."));
        Memory::create_or_open(&folder, settings(&embedder)).unwrap()
    };
    for (index, name) in HOSTILE.iter().enumerate() {
        // The same conversation id everywhere.
        ingest(&open(name), &embedder, &secret(index, "diary"));
    }
    for (index, name) in HOSTILE.iter().enumerate() {
        let memory = open(name);
        assert_eq!(memory.conversations().unwrap().len(), 1);
        let searcher = Searcher::new(memory, Some(embedder.clone())).unwrap();
        sees_only(&searcher, index, "diary");
        assert_eq!(searcher.card().unwrap().turns, 2);
    }
    let mut sorted = HOSTILE.map(str::to_owned);
    sorted.sort_unstable();
    assert_eq!(namespaces(root.path()).unwrap(), sorted);
    for name in ["", &"x".repeat(121)] {
        let error = namespace_folder(root.path(), name).unwrap_err();
        assert!(
            matches!(error, RetrievalError::InvalidNamespace { .. }),
            "{error}"
        );
    }
    assert!(matches!(
        Memory::open(root.path()),
        Err(RetrievalError::NotAMemory { .. })
    ));
}

#[test]
fn conversations_of_one_memory_do_not_see_each_other_within() {
    let folder = tempfile::tempdir().unwrap();
    let embedder = Arc::new(HashEmbedder::new(64));
    let memory = Memory::create_or_open(folder.path(), settings(&embedder)).unwrap();
    for (index, name) in HOSTILE.iter().enumerate() {
        ingest(&memory, &embedder, &secret(index, name));
    }
    let whole = Searcher::new(memory.clone(), Some(embedder.clone())).unwrap();
    for (index, name) in HOSTILE.iter().enumerate() {
        let id = ConversationId::new(*name);
        let within = whole.within(&id).unwrap();
        sees_only(&within, index, name);
        let other = ConversationId::new(HOSTILE[(index + 1) % HOSTILE.len()]);
        assert!(within.window(&other, &TurnId::new("D1:1"), 3).is_err());
        assert_eq!(within.window(&id, &TurnId::new("D1:1"), 3).unwrap().len(), 2);
    }
    // Nor does deleting one touch another.
    memory
        .delete(&Deletion::Conversation(ConversationId::new("a")))
        .unwrap();
    assert!(memory.check().unwrap().is_whole());
    assert_eq!(memory.conversations().unwrap().len(), HOSTILE.len() - 1);
    let empty = secret(0, "");
    let error = memory.ingest(&empty, Some(&*embedder), &mut |_| {}).unwrap_err();
    assert!(
        matches!(error, RetrievalError::InvalidConversation { .. }),
        "{error}"
    );
}
