//! Messages arrive in order and exactly once, whatever becomes of connections.

mod common;

use common::Group;

#[tokio::test]
async fn two_nodes_talk() {
    let mut group = Group::new(2);
    let mut members = group.start_all().await;
    for number in 1..=100 {
        members[0].say(2, number).await;
        members[1].say(1, 1_000 + number).await;
    }
    for number in 1..=100 {
        assert_eq!(members[1].heard().await, (1, number));
        assert_eq!(members[0].heard().await, (2, 1_000 + number));
    }
}
