//! What is written down is read while it is written: the token goes round all the time.

use crate::group::Group;
use crate::load::lock_once;

#[test]
fn a_cluster_is_traced_while_it_works_and_fails() {
    let group = Group::start("token-ring", 3, "");
    let lock_and_trace = |id: u32| {
        lock_once(&group.place(id), "backup");
        let output = group.run("trace --diagram never");
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{out}{err}");
    };
    // Not often: the record grows while it is judged, and so does the time that takes.
    lock_and_trace(1);
    group.order("kill 3");
    lock_and_trace(2);
}
