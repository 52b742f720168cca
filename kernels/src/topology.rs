use std::collections::HashSet;
use std::path::Path;

/// Physical cores this process may use: hardware threads that share a core count once, and neither the affinity
/// mask nor a container's quota is exceeded. At least 1.
pub(crate) fn usable_cores() -> usize {
    let allowed = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    match physical_cores(Path::new("/sys/devices/system/cpu")) {
        0 => allowed,
        cores => allowed.min(cores),
    }
}

/// Distinct sets of sibling threads below `root`, as Linux lists them; 0 where it lists none.
fn physical_cores(root: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(root) else {
        return 0;
    };
    let siblings: HashSet<String> = entries
        .filter_map(|entry| {
            std::fs::read_to_string(entry.ok()?.path().join("topology/thread_siblings_list")).ok()
        })
        .collect();
    siblings.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn siblings_count_once() {
        let root = std::env::temp_dir().join(format!("mneme-topology-{}", std::process::id()));
        for (cpu, siblings) in [
            ("cpu0", "0,2\n"),
            ("cpu1", "1,3\n"),
            ("cpu2", "0,2\n"),
            ("cpu3", "1,3\n"),
        ] {
            let folder = root.join(cpu).join("topology");
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("thread_siblings_list"), siblings).unwrap();
        }
        assert_eq!(physical_cores(&root), 2);
        assert_eq!(physical_cores(&root.join("absent")), 0);
        std::fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn there_is_a_core() {
        assert!(usable_cores() >= 1);
    }
}
