//! Everybody dies, and everybody comes back.

use std::collections::BTreeMap;

use conclave_algorithms::mutex::Fence;

use crate::group::Group;
use crate::judge::judge;
use crate::load::lock_once;

const NAMES: [&str; 3] = ["backup", "deploy", "index"];

/// Locks every name through every process of these; each fence is larger than all before it.
fn ask_for_all(group: &Group, ids: &[u32], largest: &mut BTreeMap<&str, Fence>) {
    for id in ids {
        for name in NAMES {
            let fence = lock_once(&group.place(*id), name);
            if let Some(before) = largest.insert(name, fence) {
                assert!(before < fence, "{name} through p{id}: {fence} after {before}");
            }
        }
    }
}

/// Who comes back knows nothing of the locks; fences must grow all the same.
fn forget_everything(algorithm: &str, words: &str) {
    let group = Group::start(algorithm, 3, words);
    let mut largest = BTreeMap::new();
    ask_for_all(&group, &[1, 2, 3], &mut largest);
    for _ in 0..2 {
        // A crash for larger epochs, then all at once.
        group.order("kill 3");
        ask_for_all(&group, &[1, 2], &mut largest);
        group.order("restart 3");
        ask_for_all(&group, &[3, 1], &mut largest);
        for id in 1..=3 {
            group.order(&format!("kill {id}"));
        }
        for id in [2, 3, 1] {
            group.order(&format!("restart {id}"));
        }
        ask_for_all(&group, &[3, 2, 1], &mut largest);
    }
    judge(&group.stop());
}

#[test]
fn fences_grow_over_a_total_loss() {
    forget_everything("ricart-agrawala", "");
}

#[test]
fn fences_of_a_token_grow_over_a_total_loss() {
    forget_everything("token-ring", "");
}

#[test]
fn fences_of_views_grow_over_a_total_loss() {
    forget_everything("majority", "--set mode=view");
}
