//! Names the commit that is built, for reports; `unknown` outside a repository.

use std::process::Command;

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // HEAD names a branch; its own file changes with every commit, the reference's with it.
    let places = ["HEAD", "logs/HEAD"];
    for place in places
        .iter()
        .filter_map(|place| git(&["rev-parse", "--git-path", place]))
    {
        println!("cargo::rerun-if-changed={place}");
    }
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_else(|| "unknown".into());
    println!("cargo::rustc-env=MNEME_COMMIT={commit}");
}
