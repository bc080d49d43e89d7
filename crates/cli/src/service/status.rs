//! How the nodes of the service are: `status`, and what is said when nobody answers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use conclave_client::v1::status_response::Condition;
use conclave_client::v1::{ClockOffset, StatusResponse};
use conclave_client::{Client, Error};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::args::StatusArgs;
use super::table::{Table, wrap};
use super::{client, config, run_client};
use crate::failure::{Failure, Verdict, one_line};
use crate::output;

/// A survey that took longer has answers in it that may not be true any more: those who answered are asked again.
const FRESH: Duration = Duration::from_millis(500);
/// How long they may take then.
const AGAIN: Duration = Duration::from_secs(1);

/// What all nodes said, by address.
pub struct Survey {
    answers: BTreeMap<String, Result<StatusResponse, Error>>,
    /// The numbers of the nodes, as far as anybody knows them.
    ids: BTreeMap<String, u64>,
}

/// Shows how the nodes are.
pub fn status(args: &StatusArgs) -> Result<Verdict, Failure> {
    run_client(async {
        let client = client(&args.endpoints)?;
        let limit = args.endpoints.connect_wait;
        let survey = Survey::make(&client, config::node_ids(&args.endpoints), limit).await;
        if args.json {
            output::show_json(&survey.json())?;
        } else {
            output::show(&survey.text(output::terminal_width()))?;
        }
        Ok(Verdict::of(survey.is_served()))
    })
}

impl Survey {
    /// Asks the endpoints, and the nodes of which they tell, all at a time. Each may take so long to answer. What is
    /// returned is no older than [`FRESH`] or [`AGAIN`], however long some of them are silent.
    pub async fn make(client: &Client, mut ids: BTreeMap<String, u64>, limit: Duration) -> Self {
        let begun = Instant::now();
        let mut answers = BTreeMap::new();
        let mut asked = BTreeSet::new();
        let mut asking = JoinSet::new();
        let mut ask = |asking: &mut JoinSet<_>, address: String| {
            if asked.insert(address.clone()) {
                asking.spawn(ask_one(client.clone(), address, limit));
            }
        };
        client.endpoints().iter().for_each(|address| ask(&mut asking, address.clone()));
        while let Some(answered) = asking.join_next().await {
            let Ok((address, answer)) = answered else { continue };
            if let Ok(status) = &answer {
                for member in &status.members {
                    ids.insert(member.address.clone(), member.node);
                    ask(&mut asking, member.address.clone());
                }
                // It may have been asked at another address than the others use.
                ids.insert(address.clone(), status.node);
            }
            answers.insert(address, answer);
        }
        if begun.elapsed() > FRESH {
            for (address, _) in answers.iter().filter(|(_, answer)| answer.is_ok()) {
                asking.spawn(ask_one(client.clone(), address.clone(), limit.min(AGAIN)));
            }
            while let Some(answered) = asking.join_next().await {
                answers.extend(answered.ok());
            }
        }
        Self { answers, ids }
    }

    fn there(&self) -> impl Iterator<Item = &StatusResponse> {
        self.answers.values().filter_map(|answer| answer.as_ref().ok())
    }

    /// The clusters that the nodes belong to, each with the addresses of its nodes.
    fn clusters(&self) -> BTreeMap<u64, Vec<&str>> {
        let mut clusters = BTreeMap::<u64, Vec<&str>>::new();
        for (address, answer) in &self.answers {
            if let Ok(status) = answer
                && status.cluster != 0
            {
                clusters.entry(status.cluster).or_default().push(address);
            }
        }
        clusters
    }

    /// What is wrong with the endpoints, if anything is.
    fn mixture(&self) -> Option<String> {
        let clusters = self.clusters();
        let of = |(cluster, nodes): (&u64, &Vec<&str>)| format!("{} to {cluster:016x}", nodes.join(", "));
        let list: Vec<String> = clusters.iter().map(of).collect();
        (clusters.len() > 1).then(|| {
            format!(
                "the endpoints belong to different clusters, and each grants the same names: {}",
                list.join("; ")
            )
        })
    }

    /// Whether some node can answer requests, and all that answer belong to one cluster.
    fn is_served(&self) -> bool {
        self.clusters().len() < 2 && self.is_led()
    }

    fn is_led(&self) -> bool {
        self.there().any(|status| matches!(status.condition(), Condition::Leads | Condition::Follows))
    }

    /// Why no request was answered, in one sentence, and what to do about it.
    pub fn explain(&self, error: &Error) -> Failure {
        if let Some(mixture) = self.mixture() {
            return Failure::new(mixture)
                .hint("check --endpoints, CONCLAVE_ENDPOINTS and the configuration file");
        }
        if self.is_served() {
            return Failure::new(format!("the service did not answer in time: {}", reason(error)))
                .hint("try again, or allow it more time with --connect-wait");
        }
        if let Some(forming) = self.there().find(|status| status.condition() == Condition::Forms) {
            return Failure::new(format!("the cluster has not formed yet: a node {}", state(forming)))
                .hint("start the others: a new cluster needs all of its nodes once");
        }
        let nodes = self.there().map(|status| status.members.len()).max().unwrap_or(0);
        let there = self.there().map(|status| status.node).collect::<BTreeSet<_>>().len();
        if there > 0 {
            let verb = if there == 1 { "answers" } else { "answer" };
            let what = match there * 2 > nodes {
                true => "but none of them leads yet",
                false => "which is no majority: nothing can be granted",
            };
            return Failure::new(format!("{there} of {nodes} nodes {verb}, {what}"))
                .hint("'conclave status' shows which nodes are missing");
        }
        let addresses: Vec<&str> = self.answers.keys().map(String::as_str).collect();
        let whys: BTreeSet<String> =
            self.answers.values().filter_map(|a| a.as_ref().err()).map(reason).collect();
        let why = whys.into_iter().collect::<Vec<_>>().join("; ");
        Failure::new(format!("no node answers at {} ({why})", addresses.join(", ")))
            .hint("start one with 'conclave serve', or set CONCLAVE_ENDPOINTS")
    }

    fn text(&self, width: Option<usize>) -> String {
        let header = ["NODE", "ADDRESS", "STATE", "TERM", "LOG", "APPLIED", "SESSIONS", "HELD", "WAITING"];
        let mut table = Table::new(&header)
            .spare(&["LOG", "SESSIONS", "APPLIED", "WAITING", "HELD", "TERM"])
            .elastic(&["STATE", "ADDRESS"]);
        for (address, answer) in &self.answers {
            let id = self.ids.get(address).map_or_else(|| "?".to_owned(), ToString::to_string);
            match answer {
                Err(error) => table.row([id, address.clone(), format!("down ({})", reason(error))]),
                Ok(status) => {
                    let numbers = [
                        status.term,
                        status.last_log,
                        status.applied,
                        status.sessions,
                        status.held,
                        status.waiting,
                    ];
                    let mut row = vec![id, address.clone(), state(status)];
                    row.extend(numbers.iter().map(ToString::to_string));
                    table.row(row);
                }
            }
        }
        let mut text = table.render(width);
        if let Some(mixture) = self.mixture() {
            text.push_str(&format!("{mixture}\n"));
        } else if !self.is_served() {
            text.push_str("not served: nothing can be granted or read at the moment\n");
        }
        text + &self.clocks(width).unwrap_or_default()
    }

    /// How far the clocks of the nodes are apart, in one sentence: beside that of the leader, or of whoever knows.
    fn clocks(&self, width: Option<usize>) -> Option<String> {
        let leads = |status: &&StatusResponse| status.condition() == Condition::Leads;
        let knows = |status: &&StatusResponse| !status.clocks.is_empty();
        let one = self.there().find(leads).or_else(|| self.there().find(knows))?;
        let beside = |node: u64| format!("node {node} {}", one_clock(clock_of(one, node)));
        let others: Vec<String> = others(one).map(beside).collect();
        let sentence = format!("clocks beside node {}: {}", one.node, others.join(", "));
        (!others.is_empty()).then(|| wrap(&sentence, 2, width))
    }

    fn json(&self) -> Value {
        let nodes: Vec<Value> = self
            .answers
            .iter()
            .map(|(address, answer)| node_json(address, self.ids.get(address).copied(), answer.as_ref()))
            .collect();
        json!({ "served": self.is_served(), "nodes": nodes })
    }
}

async fn ask_one(
    client: Client,
    address: String,
    limit: Duration,
) -> (String, Result<StatusResponse, Error>) {
    let late = |_| Err(Error::Unavailable("it does not answer".into()));
    let answer = timeout(limit, client.status(&address)).await.unwrap_or_else(late);
    (address, answer)
}

/// What a node does, in words, and what is wrong with it.
fn state(status: &StatusResponse) -> String {
    let (doing, silent) = (doing(status), Duration::from_millis(status.disk_silent_ms));
    if silent.is_zero() {
        return doing;
    }
    let disk = format!("its disk has not answered for {} s", silent.as_secs().max(1));
    match status.condition() {
        Condition::LeadsWithoutMajority => format!("leads, but {disk}"),
        _ => format!("{doing}; {disk}"),
    }
}

/// What a node does, in words.
fn doing(status: &StatusResponse) -> String {
    let (nodes, there) = (status.members.len(), status.members.len() - status.silent.len());
    match status.condition() {
        Condition::Leads => "leads".to_owned(),
        Condition::LeadsWithoutMajority => format!("leads, but no majority answers ({there} of {nodes})"),
        Condition::Follows => format!("follows {}", status.leader),
        Condition::FollowsInVain => "follows a leader that no majority answers".to_owned(),
        Condition::Elects => "no leader yet".to_owned(),
        Condition::NoMajority => format!("no leader: no majority answers ({there} of {nodes})"),
        Condition::Forms if status.silent.is_empty() => "forms the cluster (first start)".to_owned(),
        Condition::Forms => format!("waits for {} (first start)", nodes_text(&status.silent)),
        Condition::CatchesUp => "catching up".to_owned(),
        Condition::Unspecified => "in a state that this version does not know".to_owned(),
    }
}

fn nodes_text(ids: &[u64]) -> String {
    let word = if ids.len() == 1 { "node" } else { "nodes" };
    format!("{word} {}", ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
}

/// The members of the cluster besides this node.
fn others(status: &StatusResponse) -> impl Iterator<Item = u64> + '_ {
    status.members.iter().map(|member| member.node).filter(|node| *node != status.node)
}

/// What a node knows of the clock of another one.
fn clock_of(status: &StatusResponse, node: u64) -> Option<&ClockOffset> {
    status.clocks.iter().find(|clock| clock.node == node)
}

/// How far a clock is ahead, and how exactly that is known.
fn one_clock(clock: Option<&ClockOffset>) -> String {
    let Some(ClockOffset { ahead_ns, error_ns, .. }) = clock else { return "-".to_owned() };
    let (nanos, unit) = if ahead_ns.unsigned_abs() < 10_000_000_000 { (1e6, "ms") } else { (1e9, "s") };
    // What is not exact is not shown as if it were.
    let error = (*error_ns as f64 / nanos * 100.0).ceil() / 100.0;
    format!("{:+.2} ± {error:.2} {unit}", *ahead_ns as f64 / nanos)
}

fn clock_json(status: &StatusResponse, node: u64) -> Value {
    let known = clock_of(status, node);
    let ahead = known.map(|clock| clock.ahead_ns as f64 / 1e6);
    let error = known.map(|clock| clock.error_ns as f64 / 1e6);
    json!({ "node": node, "ahead_ms": ahead, "error_ms": error })
}

/// Why a node did not answer, in a few words.
fn reason(error: &Error) -> String {
    let text = match error {
        Error::Unavailable(why) => why.to_string(),
        other => other.to_string(),
    };
    let text = one_line(text.split(" (os error").next().unwrap_or(&text));
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_lowercase().chain(letters).collect(),
        None => "it does not answer".to_owned(),
    }
}

fn node_json(address: &str, id: Option<u64>, answer: Result<&StatusResponse, &Error>) -> Value {
    match answer {
        Err(error) => json!({ "address": address, "node": id, "state": "down", "error": reason(error) }),
        Ok(status) => json!({
            "address": address,
            "node": status.node,
            "state": condition(status),
            "silent": status.silent,
            "disk_silent_ms": status.disk_silent_ms,
            "cluster": cluster(status),
            "leader": status.leader,
            "term": status.term,
            "last_log": status.last_log,
            "applied": status.applied,
            "sessions": status.sessions,
            "names": status.names,
            "held": status.held,
            "waiting": status.waiting,
            "grants": status.grants,
            "version": status.version,
            "clocks": others(status).map(|node| clock_json(status, node)).collect::<Vec<_>>(),
        }),
    }
}

/// Which cluster a node belongs to, if it knows.
fn cluster(status: &StatusResponse) -> Option<String> {
    (status.cluster != 0).then(|| format!("{:016x}", status.cluster))
}

/// What a node does, for programs.
fn condition(status: &StatusResponse) -> &'static str {
    match status.condition() {
        Condition::Leads => "leads",
        Condition::LeadsWithoutMajority => "leads_without_majority",
        Condition::Follows => "follows",
        Condition::FollowsInVain => "follows_without_majority",
        Condition::Elects => "elects",
        Condition::NoMajority => "no_majority",
        Condition::Forms => "forms",
        Condition::CatchesUp => "catches_up",
        Condition::Unspecified => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use conclave_client::v1;

    use super::*;

    fn node(id: u64, condition: Condition, silent: &[u64]) -> (String, Result<StatusResponse, Error>) {
        let members = (1..=3).map(|node| v1::Member { node, address: address(node) }).collect();
        let leader = if matches!(condition, Condition::Leads | Condition::Follows) { 1 } else { 0 };
        let condition = condition.into();
        let silent = silent.to_vec();
        let status =
            StatusResponse { node: id, leader, members, condition, silent, ..StatusResponse::default() };
        (address(id), Ok(status))
    }

    fn down(id: u64) -> (String, Result<StatusResponse, Error>) {
        (address(id), Err(Error::Unavailable("Connection refused (os error 111)".into())))
    }

    fn address(id: u64) -> String {
        format!("127.0.0.1:2941{id}")
    }

    fn survey(answers: [(String, Result<StatusResponse, Error>); 3]) -> Survey {
        let ids = (1..=3).map(|id| (address(id), id)).collect();
        Survey { answers: answers.into(), ids }
    }

    #[test]
    fn the_table_says_what_every_node_is_and_fits_80_columns() {
        let cases = [
            (
                survey([node(1, Condition::Leads, &[]), node(2, Condition::Follows, &[]), down(3)]),
                true,
                "leads",
            ),
            (
                survey([node(1, Condition::LeadsWithoutMajority, &[2, 3]), down(2), down(3)]),
                false,
                "leads, but no majority answers (1 of 3)",
            ),
            (
                survey([node(1, Condition::NoMajority, &[2, 3]), down(2), down(3)]),
                false,
                "no leader: no majority answers (1 of 3)",
            ),
            (
                survey([node(1, Condition::Forms, &[2, 3]), down(2), down(3)]),
                false,
                "waits for nodes 2, 3 (first start)",
            ),
        ];
        for (survey, is_served, words) in cases {
            let text = survey.text(Some(80));
            assert_eq!(survey.is_served(), is_served, "{text}");
            assert_eq!(survey.json()["served"], is_served);
            assert!(
                text.contains(words) && text.contains("3     127.0.0.1:29413  down (connection refused)"),
                "{text}"
            );
            assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
            assert_eq!(text.contains("not served"), !is_served, "{text}");
        }
    }

    #[test]
    fn clocks_are_shown_beside_that_of_the_leader() {
        let clock = |node, ahead_ns, error_ns| ClockOffset { node, ahead_ns, error_ns };
        let (address, answer) = node(1, Condition::Leads, &[]);
        let measured =
            answer.map(|status| StatusResponse { clocks: vec![clock(2, -20_000, 104_001)], ..status });
        let survey = survey([(address, measured), node(2, Condition::Follows, &[]), down(3)]);
        let text = survey.text(Some(80));
        assert!(text.ends_with("clocks beside node 1: node 2 -0.02 ± 0.11 ms, node 3 -\n"), "{text}");
        let json = survey.json();
        let (ahead, error) =
            (&json["nodes"][0]["clocks"][0]["ahead_ms"], &json["nodes"][0]["clocks"][0]["error_ms"]);
        assert_eq!((ahead.as_f64(), error.as_f64()), (Some(-0.02), Some(0.104_001)));
        assert_eq!(json["nodes"][0]["clocks"][1], json!({ "node": 3, "ahead_ms": null, "error_ms": null }));
        assert_eq!(one_clock(Some(&clock(2, 3_600_000_000_000, 500_000))), "+3600.00 ± 0.01 s");
    }

    #[test]
    fn a_disk_that_hangs_is_told_with_the_state() {
        let said = |condition, disk_silent_ms| {
            let (address, answer) = node(1, condition, &[2, 3]);
            let hangs = answer.map(|status| StatusResponse { disk_silent_ms, ..status });
            survey([(address, hangs), down(2), down(3)])
        };
        let follows = said(Condition::Follows, 12_400);
        assert!(follows.text(None).contains("follows 1; its disk has not answered for 12 s"));
        assert_eq!(follows.json()["nodes"][0]["disk_silent_ms"], 12_400);
        let leads = said(Condition::LeadsWithoutMajority, 600).text(None);
        assert!(leads.contains("leads, but its disk has not answered for 1 s"), "{leads}");
        assert!(leads.contains("not served"), "{leads}");
        assert!(!said(Condition::Leads, 0).text(None).contains("disk"));
    }

    #[test]
    fn endpoints_of_different_clusters_are_told_and_not_served() {
        let of = |id, cluster| {
            let (address, answer) = node(id, Condition::Leads, &[]);
            (address, answer.map(|status| StatusResponse { cluster, ..status }))
        };
        let same = survey([of(1, 7), of(2, 7), of(3, 0)]);
        assert!(same.is_served() && same.mixture().is_none());
        let mixed = survey([of(1, 7), of(2, 7), of(3, 8)]);
        let text = mixed.text(None);
        assert!(!mixed.is_served() && mixed.json()["served"] == false, "{text}");
        let said = "the endpoints belong to different clusters, and each grants the same names: 127.0.0.1:29411, \
                    127.0.0.1:29412 to 0000000000000007; 127.0.0.1:29413 to 0000000000000008";
        assert!(text.contains(said), "{text}");
        assert_eq!(mixed.json()["nodes"][2]["cluster"], "0000000000000008");
    }

    #[test]
    fn why_nobody_answers_is_told_with_what_to_do() {
        let error = Error::Unavailable("late".into());
        let said = |survey: Survey| format!("{:?}", survey.explain(&error));
        let nobody = said(survey([down(1), down(2), down(3)]));
        assert!(nobody.contains("no node answers at 127.0.0.1:29411, 127.0.0.1:29412"), "{nobody}");
        assert!(nobody.contains("(connection refused)") && nobody.contains("conclave serve"), "{nobody}");
        let one = said(survey([node(1, Condition::NoMajority, &[2, 3]), down(2), down(3)]));
        assert!(one.contains("1 of 3 nodes answers, which is no majority: nothing can be granted"), "{one}");
        let forms = said(survey([node(1, Condition::Forms, &[2]), down(2), node(3, Condition::Forms, &[2])]));
        assert!(forms.contains("waits for node 2 (first start)"), "{forms}");
    }
}
