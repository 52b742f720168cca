use super::*;

#[test]
fn numbers_of_ggml_map_back() {
    for format in BlockFormat::ALL {
        assert_eq!(BlockFormat::from_ggml_type(format.ggml_type()), Some(format));
    }
    assert_eq!(BlockFormat::from_ggml_type(10), None);
}
