//! The arrows of ARCHITECTURE.md, checked against `cargo metadata`: a reversed one fails here.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

type Edges = BTreeSet<(String, String)>;

/// Which crates of ours a crate of ours may depend on.
fn allowed() -> BTreeMap<&'static str, &'static [&'static str]> {
    BTreeMap::from([
        ("engine-contract", &[][..]),
        ("kernels", &[]),
        ("weights", &[]),
        ("engine", &["engine-contract", "weights", "kernels"]),
        ("retrieval", &["engine-contract"]),
        ("agents", &["engine-contract", "retrieval"]),
        ("evaluation", &["engine-contract", "agents", "retrieval"]),
        (
            "mneme",
            &[
                "engine-contract",
                "kernels",
                "weights",
                "engine",
                "retrieval",
                "agents",
                "evaluation",
            ],
        ),
    ])
}

/// Who alone may depend on a foreign crate directly.
fn reserved() -> BTreeMap<&'static str, &'static [&'static str]> {
    BTreeMap::from([
        ("heed", &["retrieval"][..]),
        ("arroy", &["retrieval"]),
        ("candle-core", &["engine", "weights", "kernels"]),
        ("cudarc", &["kernels"]),
        ("hf-hub", &["weights"]),
        ("tokenizers", &["weights"]),
        ("clap", &["mneme"]),
        ("anyhow", &["mneme"]),
        ("axum", &["mneme"]),
        ("tokio", &["mneme", "agents"]),
        ("mistralrs", &["engine-mistralrs"]),
    ])
}

fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo metadata runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON")
}

/// Direct dependencies of the workspace's crates, those of tests and builds left out.
fn edges(metadata: &Value) -> Edges {
    let packages = metadata["packages"].as_array().expect("packages");
    packages
        .iter()
        .flat_map(|package| {
            let from = package["name"].as_str().expect("name").to_owned();
            let dependencies = package["dependencies"].as_array().expect("dependencies");
            dependencies
                .iter()
                .filter(|d| d["kind"].is_null())
                .map(move |d| (from.clone(), d["name"].as_str().expect("name").to_owned()))
        })
        .collect()
}

fn violations(edges: &Edges) -> Vec<String> {
    let (allowed, reserved) = (allowed(), reserved());
    edges
        .iter()
        .filter(|(from, to)| {
            let reversed = allowed.contains_key(to.as_str())
                && !allowed
                    .get(from.as_str())
                    .is_some_and(|targets| targets.contains(&to.as_str()));
            let trespass = reserved
                .get(to.as_str())
                .is_some_and(|owners| !owners.contains(&from.as_str()));
            reversed || trespass
        })
        .map(|(from, to)| format!("{from} -> {to}"))
        .collect()
}

#[test]
fn no_arrow_is_reversed() {
    let edges = edges(&metadata());
    assert!(
        edges.contains(&("engine".into(), "kernels".into())),
        "the metadata lists our crates: {edges:?}"
    );
    assert_eq!(violations(&edges), Vec::<String>::new());
}

#[test]
fn a_reversed_arrow_is_caught() {
    let edge = |from: &str, to: &str| (from.to_owned(), to.to_owned());
    let edges = Edges::from([
        edge("agents", "engine"),
        edge("agents", "heed"),
        edge("kernels", "weights"),
        edge("engine", "kernels"),
    ]);
    assert_eq!(
        violations(&edges),
        ["agents -> engine", "agents -> heed", "kernels -> weights"]
    );
}

#[test]
fn every_workspace_crate_has_a_place_in_the_layers() {
    let metadata = metadata();
    let allowed = allowed();
    for package in metadata["packages"].as_array().expect("packages") {
        let name = package["name"].as_str().expect("name");
        assert!(
            allowed.contains_key(name),
            "{name} is not in the layer table of this test and of ARCHITECTURE.md"
        );
    }
}
