//! Real nodes to which things are done, one after the other, while clients write to a file behind a lock: killed, stopped, told
//! to stop, flooded with connections, with few files to open. A few rounds in the ordinary suite, `CONCLAVE_MINUTES` of them
//! by `cargo xtask soak processes`.

use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::fenced::Load;
use crate::nodes::Service;
use crate::until;

/// Rounds of the ordinary suite: each trouble once.
const ROUNDS: u64 = TROUBLES;
/// Minutes of a soak, if it is not told how many.
const MINUTES: u64 = 10;
/// What can be done.
const TROUBLES: u64 = 6;
/// Connections that say nothing: more than there is room for.
const IDLE: usize = 300;

/// A node that may open few files, and makes a snapshot after every MiB.
fn serve(service: &Service, id: u64) -> Command {
    let serve = service.serve(id);
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "ulimit -n 256; exec \"$0\" \"$@\""]);
    command.arg(serve.get_program()).args(serve.get_args()).args(["--snapshot-every", "1"]);
    command
}

fn run(service: &mut Service, id: u64) {
    let command = serve(service, id);
    service.run_by(id, command);
}

/// A sequence that differs from run to run of a soak, and not from run to run of the suite.
struct Dice(u64);

impl Dice {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

#[test]
fn nothing_that_is_done_to_processes_breaks_a_promise() {
    let is_soak = std::env::var_os("CONCLAVE_SOAK").is_some();
    let minutes =
        std::env::var("CONCLAVE_MINUTES").ok().and_then(|text| text.parse().ok()).unwrap_or(MINUTES);
    let until_when = Instant::now() + Duration::from_secs(60 * minutes);
    let mut dice = Dice(if is_soak { u64::from(std::process::id()) } else { 7 });
    let mut service = Service::absent(3);
    for id in 1..=3 {
        run(&mut service, id);
    }
    service.is_settled();
    let load = Load::start(&service, 4);
    let (mut rounds, mut pauses) = ([0_u64; TROUBLES as usize], Vec::new());
    for round in 0.. {
        if if is_soak { Instant::now() >= until_when } else { round >= ROUNDS } {
            break;
        }
        let trouble = if is_soak { dice.next(TROUBLES) } else { round };
        rounds[trouble as usize] += 1;
        one_round(&mut service, &load, trouble, &mut dice);
        load.everybody_is_served();
        pauses.push(load.longest_pause());
    }
    pauses.sort_unstable();
    let tokens = load.finish(&service);
    println!(
        "killed {}, stopped and killed {}, stopped {}, followers killed {}, told to stop {}, flooded {}; {} grants; longest pause \
         of a round: median {:?}, at most {:?}",
        rounds[0],
        rounds[1],
        rounds[2],
        rounds[3],
        rounds[4],
        rounds[5],
        tokens.len(),
        pauses[pauses.len() / 2],
        pauses[pauses.len() - 1]
    );
}

fn one_round(service: &mut Service, load: &Load, trouble: u64, dice: &mut Dice) {
    let (leader, followers) = service.roles();
    let follower = followers[dice.next(2) as usize];
    match trouble {
        0 => {
            service.kill(leader);
            load.everybody_is_served();
            run(service, leader);
        }
        1 => {
            service.signal(leader, Signal::STOP);
            load.everybody_is_served();
            service.kill(leader);
            run(service, leader);
        }
        2 => {
            service.signal(leader, Signal::STOP);
            load.everybody_is_served();
            service.signal(leader, Signal::CONT);
        }
        3 => {
            service.kill(follower);
            load.everybody_is_served();
            run(service, follower);
        }
        4 => {
            assert_eq!(service.stop(leader).code(), Some(0));
            load.everybody_is_served();
            run(service, leader);
        }
        _ => {
            // They are taken in until there is no room, and must not keep the node from its files.
            let idle: Vec<_> =
                (0..IDLE).filter_map(|_| TcpStream::connect(service.address(leader)).ok()).collect();
            assert!(idle.len() > IDLE / 2, "the kernel takes them");
            load.everybody_is_served();
        }
    }
    until("all are there again", || {
        service.unanimous_leader(&service.conclave("status --json").out).is_some()
    });
}
