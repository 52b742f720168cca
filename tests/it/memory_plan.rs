//! The plan of `mneme models inspect` against what the loaded model takes; the second start.

use crate::fixture;

#[test]
fn the_loaded_model_keeps_to_its_memory_plan() {
    fixture::models();
    let inspect = |arguments: &[&str]| {
        let mut command = fixture::mneme();
        command.args(["models", "inspect", fixture::MODEL, "--json", "--kv-mib", "256"]);
        fixture::json_lines(command.args(arguments)).remove(0)
    };
    let planned = inspect(&[])["memory"].clone();
    assert!(planned["fact"].is_null(), "{planned}");
    let memory = inspect(&["--load"])["memory"].clone();
    let (plan, fact) = (&memory["plan"], &memory["fact"]);
    assert_eq!(plan, &planned["plan"]);
    let number = |value: &serde_json::Value| value.as_u64().unwrap_or_else(|| panic!("a number in {memory}"));
    assert_eq!(
        number(&fact["weights"]),
        number(&plan["weights"]) + number(&plan["embeddings"]),
        "the plan counts every matrix"
    );
    let kv_used = number(&fact["kv_used"]);
    assert!(kv_used >= 4 * 512 * number(&plan["kv_per_token"]), "{memory}");
    let rest = number(&fact["peak"]).saturating_sub(number(&fact["weights"]) + kv_used);
    assert!(rest <= number(&plan["rest"]), "{memory}");
    // The first start of the two has left its tiles beside the model, or found them there.
    let list = fixture::json_lines(fixture::mneme().args(["models", "list", "--json"])).remove(0);
    let models = list["models"].as_array().expect("models");
    let model = models.iter().find(|model| model["name"] == fixture::MODEL);
    let folder = model
        .and_then(|model| model["folder"].as_str())
        .expect("the model's folder");
    let tiles = std::fs::read_dir(folder)
        .expect("the model's folder can be read")
        .filter_map(Result::ok)
        .any(|entry| entry.file_name().to_string_lossy().ends_with(".native.tiles"));
    assert!(tiles, "no tile cache beside the model");
}
