//! Certificates: who has one may speak, and only for itself.

use conclave_core::NodeId;
use conclave_net::certificate::{generate, in_dir};
use conclave_net::{Fingerprint, NodeConfig, Options, Refusal, TlsConfig, start};

use crate::chat::{Chat, ChatConfig};
use crate::group::{Group, until};

fn with(config: NodeConfig, tls: TlsConfig) -> NodeConfig {
    NodeConfig { tls: Some(tls), ..config }
}

async fn start_with(group: &mut Group, id: u32, tls: TlsConfig) -> crate::group::Member {
    let options = Options { listener: group.listener(id), ..Options::default() };
    let config = with(group.config(id), tls);
    let (node, events) = start::<Chat>(config, ChatConfig::default(), options).await.unwrap();
    crate::group::Member { node, events }
}

#[tokio::test]
async fn nodes_with_certificates_talk() {
    let mut group = Group::new(2);
    let dir = tempfile::tempdir().unwrap();
    generate(dir.path(), "test", &[NodeId(1), NodeId(2)]).unwrap();
    let first = start_with(&mut group, 1, in_dir(dir.path(), NodeId(1))).await;
    let mut second = start_with(&mut group, 2, in_dir(dir.path(), NodeId(2))).await;
    for number in 1..=1_000 {
        first.say(2, number).await;
    }
    for number in 1..=1_000 {
        assert_eq!(second.heard().await, (1, number));
    }
    first.node.shutdown().await.unwrap();
    assert_eq!(second.next().await, crate::group::down(1, 1));
}

#[tokio::test]
async fn a_certificate_of_another_authority_is_worth_nothing() {
    let mut group = Group::new(2);
    let (ours, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    generate(ours.path(), "test", &[NodeId(1)]).unwrap();
    generate(theirs.path(), "test", &[NodeId(2)]).unwrap();
    let first = start_with(&mut group, 1, in_dir(ours.path(), NodeId(1))).await;
    let second = start_with(&mut group, 2, in_dir(theirs.path(), NodeId(2))).await;
    first.until("somebody was turned away", |status| status.complaints >= 2).await;
    for member in [&first, &second] {
        let status = member.node.status();
        assert!(status.peers.values().all(|peer| peer.life.is_none() && peer.received == 0), "{status:?}");
    }
}

/// One node after the other gets its new certificate: as long as the file of the authorities has both, old and new talk.
#[tokio::test]
async fn certificates_are_replaced_one_by_one() {
    let mut group = Group::new(2);
    let (old, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    generate(old.path(), "test", &[NodeId(1), NodeId(2)]).unwrap();
    generate(new.path(), "test", &[NodeId(1), NodeId(2)]).unwrap();
    let authorities =
        |dir: &tempfile::TempDir| std::fs::read_to_string(dir.path().join("authority.pem")).unwrap();
    let both = group.dir.path().join("both.pem");
    std::fs::write(&both, authorities(&old) + &authorities(&new)).unwrap();
    let trusting_both = |tls| TlsConfig { authority: both.clone(), ..tls };
    let first = start_with(&mut group, 1, trusting_both(in_dir(old.path(), NodeId(1)))).await;
    let mut second = start_with(&mut group, 2, trusting_both(in_dir(new.path(), NodeId(2)))).await;
    first.say(2, 1).await;
    assert_eq!(second.heard().await, (1, 1));
    second.node.kill().await.unwrap();
    // Whoever no longer trusts the old authority turns old certificates away.
    let strict = start_with(&mut group, 2, in_dir(new.path(), NodeId(2))).await;
    strict.until("it was turned away", |status| status.complaints >= 1).await;
    assert_eq!(strict.node.status().peers[&NodeId(1)].received, 0);
}

/// A certificate that was stolen is refused on both ways, although the authority has signed it; others go on.
#[tokio::test]
async fn a_certificate_on_the_list_is_refused() {
    let mut group = Group::new(3);
    let dir = tempfile::tempdir().unwrap();
    generate(dir.path(), "test", &[NodeId(1), NodeId(2), NodeId(3)]).unwrap();
    let of = |id| in_dir(dir.path(), NodeId(id));
    let stolen = Fingerprint::of_file(&of(2).certificate).unwrap();
    let knowing = |id| TlsConfig { refused: [stolen].into(), ..of(id) };
    let first = start_with(&mut group, 1, knowing(1)).await;
    let mut third = start_with(&mut group, 3, knowing(3)).await;
    let second = start_with(&mut group, 2, of(2)).await;
    first.until("it was found out", |s| s.peers[&NodeId(2)].refused_by_us == Some(Refusal::Revoked)).await;
    first.until("it was turned away", |status| status.complaints >= 2).await;
    first.say(3, 1).await;
    assert_eq!(third.heard().await, (1, 1));
    for member in [&first, &third] {
        assert_eq!(member.node.status().peers[&NodeId(2)].life, None);
    }
    assert!(second.node.status().peers.values().all(|peer| peer.received == 0));
}

/// Node 2 calls itself node 3, with its own certificate.
#[tokio::test]
async fn no_certificate_speaks_for_another_node() {
    let mut group = Group::new(3);
    let dir = tempfile::tempdir().unwrap();
    generate(dir.path(), "test", &[NodeId(1), NodeId(2), NodeId(3)]).unwrap();
    let first = start_with(&mut group, 1, in_dir(dir.path(), NodeId(1))).await;
    let liar = start_with(&mut group, 3, in_dir(dir.path(), NodeId(2))).await;
    until("refused on both sides", || {
        liar.node.status().peers[&NodeId(1)].refused_by_it == Some(Refusal::Certificate)
            && first.node.status().peers[&NodeId(3)].refused_by_us == Some(Refusal::Certificate)
    })
    .await;
    assert_eq!(first.node.status().peers[&NodeId(3)].life, None);
}

#[tokio::test]
async fn without_a_certificate_there_is_no_way_in() {
    let mut group = Group::new(2);
    let dir = tempfile::tempdir().unwrap();
    generate(dir.path(), "test", &[NodeId(1)]).unwrap();
    let first = start_with(&mut group, 1, in_dir(dir.path(), NodeId(1))).await;
    let plain = group.start(2).await;
    first.until("it was turned away", |status| status.complaints >= 1).await;
    assert_eq!(plain.node.status().peers[&NodeId(1)].life, None);
}

#[cfg(unix)]
#[test]
fn private_keys_are_private_and_never_overwritten() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    generate(dir.path(), "test", &[NodeId(1)]).unwrap();
    let key = in_dir(dir.path(), NodeId(1)).key;
    assert_eq!(std::fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    let before = std::fs::read(&key).unwrap();
    assert!(generate(dir.path(), "test", &[NodeId(1)]).is_err());
    assert_eq!(std::fs::read(&key).unwrap(), before);
}
