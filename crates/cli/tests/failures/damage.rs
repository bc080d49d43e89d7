//! A data directory that is no longer what was written.

use crate::group::Group;
use crate::judge::judge;
use crate::load::Load;

/// Damages a file of a process that is down, and tries to start it.
fn damage(file: &str) {
    let group = Group::start("majority", 3, "--set mode=view");
    let load = Load::on(group.places());
    load.serves(&group.ids);
    // Votes are saved when there is something to vote on.
    group.order("kill 3");
    load.serves(&[1, 2]);
    group.order("restart 3");
    load.serves(&group.ids);
    group.order("kill 2");
    let path = group.place(2).1.join(file);
    let sound = std::fs::read(&path).expect("it was written");
    let mut bytes = sound.clone();
    *bytes.last_mut().expect("there is something in it") ^= 1;
    std::fs::write(&path, &bytes).expect("it can be written");

    let refused = group.run("restart 2");
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{words}");
    assert!(words.contains("p2 did not come up") && words.contains("is damaged"), "{words}");
    assert!(words.contains(&path.display().to_string()), "it says which file: {words}");
    assert_eq!(std::fs::read(&path).expect("it is there"), bytes, "it was left as it is");
    load.serves(&[1, 3]);

    // With the file as it was, it comes back.
    std::fs::write(&path, sound).expect("it can be written");
    group.order("restart 2");
    load.finds_one_group(&group.places());
    load.end().never_went_back();
    judge(&group.stop());
}

#[test]
fn a_damaged_life_is_not_begun_again() {
    damage("life");
}

#[test]
fn a_damaged_state_is_not_believed() {
    damage("state");
}
