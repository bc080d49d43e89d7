//! Those who follow changes.

use super::*;

/// Another node may lead, and this one would never hear of it.
#[tokio::test(start_paused = true)]
async fn whoever_follows_changes_does_not_stay_with_a_leader_without_a_majority() {
    let (lines, wall) = (Lines::default(), Hand::default());
    let mut servers = BTreeMap::new();
    for id in 1..=3 {
        servers.insert(id, start(&lines, id, 3, &MemoryDisk::default(), &wall).await);
    }
    let leader = leader_of(&servers).await;
    servers[&leader].ready().await;
    let channel =
        conclave_wire::channel(&lines.of(99), &lines.address(leader), Duration::from_secs(1)).unwrap();
    let mut node = conclave_wire::versioned(channel);
    let names = v1::WatchRequest::default();
    let mut watched = node.watch(names).await.unwrap().into_inner();
    let election = v1::ObserveRequest { name: "a".to_owned(), ..v1::ObserveRequest::default() };
    let mut observed = node.observe(election).await.unwrap().into_inner();
    assert!(watched.message().await.unwrap().is_some() && observed.message().await.unwrap().is_some());
    // A batch that is refused would send everybody away.
    sleep(Duration::from_secs(2)).await;
    for (_, server) in servers.iter().filter(|(id, _)| **id != leader) {
        server.consensus().shutdown().await;
    }
    let are_sent_away = async {
        while let Ok(Some(_)) = watched.message().await {}
        while let Ok(Some(_)) = observed.message().await {}
    };
    timeout(Duration::from_secs(10), are_sent_away).await.expect("they are sent away");
}

#[test]
fn that_those_who_follow_changes_are_sent_away_is_tested() {
    let test =
        "server::tests::reading::whoever_follows_changes_does_not_stay_with_a_leader_without_a_majority";
    assert_caught(test, Mutant::KeepsReaders, "they are sent away");
}
