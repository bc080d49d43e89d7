//! The master and its workers under test.

use super::*;
use core::time::Duration;

use crate::election::{Bully, ChangRoberts, Election};
use crate::testing::World;
use crate::{Arena, Led, LedConfig, LedMessage, LedTimer, Settings};

fn config<E: Election>(tasks: u32) -> LedConfig<E::Config, WorkersConfig> {
    let settings = Settings::new(&E::ABOUT, Arena::Laboratory, [], None).expect("the defaults");
    LedConfig {
        election: E::configure(&settings, &Members::numbered(5)).expect("they fit"),
        application: WorkersConfig::new(
            Task::split(1..=100, tasks),
            After::exactly(Duration::from_millis(1)),
        ),
    }
}

type Group<E> = World<Led<E, Workers>>;

fn group<E: Election>(n: u32, tasks: u32) -> Group<E> {
    World::numbered(n, &config::<E>(tasks))
}

/// Lets every timer run out and every message arrive until all is quiet.
fn work<E: Election>(world: &mut Group<E>) {
    world.drain();
    for _ in 0..1_000 {
        let Some((id, timer)) = world.armed().into_iter().next() else { return };
        world.expire(id, timer);
        world.drain();
    }
    panic!("the group does not come to rest");
}

/// Who told the outside of which sum.
fn sums<E: Election>(world: &Group<E>) -> Vec<(u32, u64)> {
    let mut sums: Vec<_> = world.events.iter().map(|(id, Event::Finished { sum })| (id.0, *sum)).collect();
    sums.sort_unstable();
    sums
}

fn sent<E: Election>(world: &Group<E>, kind: &str) -> usize {
    world.sent.iter().filter(|(_, _, message)| message.kind() == kind).count()
}

fn tell<E: Election>(world: &mut Group<E>, from: u32, to: u32, message: WorkersMessage) {
    let message = LedMessage::Application(message);
    world.input(NodeId(to), Input::Receive { from: NodeId(from), message });
}

#[test]
fn ranges_are_cut_and_added_up() {
    for (numbers, tasks, expected) in [
        (1..=100, 10, 5050),
        (1..=100, 7, 5050),
        (1..=3, 10, 6),
        (5..=5, 1, 5),
        (u64::MAX..=u64::MAX, 3, u64::MAX),
        (0..=u64::MAX, 1, u64::MAX),
    ] {
        let cut = Task::split(numbers.clone(), tasks);
        assert!(cut.iter().all(|task| task.from <= task.to) && cut.len() <= tasks as usize);
        assert_eq!(cut.first().map(|task| task.from), Some(*numbers.start()));
        assert_eq!(cut.iter().map(|task| task.sum()).sum::<u64>(), expected, "{numbers:?} in {tasks}");
    }
    assert_eq!(Task { from: 2, to: 1 }.sum(), 0);
}

#[test]
fn the_cost_without_crashes() {
    let mut world = group::<ChangRoberts>(5, 10);
    world.request(2, Request::Begin);
    work(&mut world);
    assert_eq!(sums(&world), [(1, 5050), (2, 5050), (3, 5050), (4, 5050), (5, 5050)]);
    let kinds = ["Collect", "Report", "Task", "Result", "Done", "Refuse"];
    assert_eq!(kinds.map(|kind| sent(&world, kind)), [4, 4, 10, 10, 4, 0]);
}

#[test]
fn a_master_alone_does_it_all() {
    let mut world = group::<Bully>(1, 10);
    world.request(1, Request::Begin);
    work(&mut world);
    assert_eq!(sums(&world), [(1, 5050)]);
    assert!(world.sent.is_empty());
}

#[test]
fn the_tasks_of_a_suspect_are_given_to_others() {
    let mut world = group::<ChangRoberts>(3, 2);
    world.request(1, Request::Begin);
    world.drain();
    world.crash(1);
    world.report(1);
    work(&mut world);
    assert_eq!(sums(&world), [(2, 5050), (3, 5050)]);
    assert_eq!(sent(&world, "Task"), 3);
}

#[test]
fn the_next_master_goes_on_with_what_the_workers_have() {
    let mut world = group::<ChangRoberts>(3, 3);
    world.request(1, Request::Begin);
    world.drain();
    // p1 is done with its first task and has the last in hand when the master dies.
    world.expire(NodeId(1), LedTimer::Application(WorkersTimer::Work));
    world.drain();
    world.crash(3);
    world.report(3);
    work(&mut world);
    assert_eq!(sums(&world), [(1, 5050), (2, 5050)]);
    assert_eq!(sent(&world, "Task"), 3, "no task is given twice");
}

/// Channels need not keep the order: p1 is done with its task just after it has reported that it works on it.
#[test]
fn a_result_may_overtake_the_report() {
    let mut world = group::<Bully>(3, 1);
    let number = 1;
    world.request(3, Request::Begin);
    tell(&mut world, 1, 3, Msg::Result { number, id: TaskId(0), value: 5050 });
    assert_eq!(sums(&world), [(3, 5050)]);

    let mut world = group::<Bully>(3, 2);
    world.request(3, Request::Begin);
    let report = |in_hand: &[u32]| Msg::Report {
        number,
        life: Incarnation::FIRST,
        done: BTreeMap::new(),
        in_hand: in_hand.iter().copied().map(TaskId).collect(),
    };
    tell(&mut world, 1, 3, Msg::Result { number, id: TaskId(0), value: 1275 });
    tell(&mut world, 2, 3, report(&[1]));
    tell(&mut world, 1, 3, report(&[0]));
    world.input(NodeId(3), Input::PeerDown { peer: NodeId(2), life: Incarnation::FIRST });
    let last = world.sent.last().expect("p1 is idle");
    let task = Task { from: 51, to: 100 };
    let expected = LedMessage::Application(Msg::Task { number, id: TaskId(1), task });
    assert_eq!(*last, (NodeId(3), NodeId(1), expected));
}

/// The master dies when all is done, and has told one: the next one repeats it, whether it knows or not.
#[test]
fn the_next_master_tells_the_sum_again() {
    for told in [1, 2] {
        let mut world = group::<ChangRoberts>(3, 1);
        world.request(3, Request::Begin);
        world.drain();
        world.expire(NodeId(1), LedTimer::Application(WorkersTimer::Work));
        world.deliver(1, 3);
        let lost = 3 - told;
        world.deliver(3, told);
        // What was in flight to the other is lost with the master.
        let late = world.processes[lost as usize - 1].clone();
        world.drain();
        world.processes[lost as usize - 1] = late;
        world.events.retain(|(id, _)| id.0 != lost);
        world.crash(3);
        world.report(3);
        work(&mut world);
        assert_eq!(sums(&world), [(1, 5050), (2, 5050), (3, 5050)], "p{told} knew it");
    }
}

/// p3 leads, dies, and comes back when all is done, or in the middle of the reign of p2, of which it knows nothing
/// until it is refused.
#[test]
fn who_comes_back_as_master_begins_a_later_reign() {
    let (config, life) = (config::<Bully>(4), Incarnation::FIRST.next());
    for (is_over, refused, number) in [(true, 0, 1), (false, 2, 3)] {
        let mut world = Group::<Bully>::numbered(3, &config);
        world.request(3, Request::Begin);
        world.drain();
        world.crash(3);
        world.report(3);
        let is_vote = |timer: &_| matches!(timer, LedTimer::Election(_));
        let of_p2 = |(id, timer): &(NodeId, _)| *id == NodeId(2) && is_vote(timer);
        while let Some((id, timer)) = world.armed().into_iter().find(of_p2) {
            world.expire(id, timer);
            world.drain();
        }
        let second = Reign { number: 2, leader: NodeId(2) };
        assert_eq!(world.process(1).application().reign(), Some(second));
        if is_over {
            work(&mut world);
        }
        world.revive(3, &config, life);
        for id in [1, 2] {
            world.input(NodeId(id), Input::PeerUp { peer: NodeId(3), life });
        }
        work(&mut world);
        assert_eq!(sums(&world), [(1, 5050), (2, 5050), (3, 5050)]);
        assert_eq!(sent(&world, "Refuse"), refused);
        assert_eq!(world.process(3).application().reign(), Some(Reign { number, leader: NodeId(3) }));
    }
}

#[test]
fn earlier_reigns_are_refused_and_late_results_of_them_ignored() {
    let mut world = group::<ChangRoberts>(3, 1);
    tell(&mut world, 3, 1, Msg::Collect { number: 5 });
    world.drain();
    let before = world.process(1).clone();
    tell(&mut world, 2, 1, Msg::Task { number: 4, id: TaskId(0), task: Task { from: 1, to: 2 } });
    tell(&mut world, 2, 1, Msg::Result { number: 5, id: TaskId(0), value: 7 });
    assert_eq!(*world.process(1), before);
    assert_eq!(world.log().last().map(|line| &line[..]), Some("p1 => p2 Refuse"));
    assert!(world.rejects.is_empty());
}

#[test]
fn a_report_of_an_earlier_life_is_no_worker() {
    let mut world = group::<Bully>(2, 2);
    world.request(2, Request::Begin);
    let second = Incarnation::FIRST.next();
    world.input(NodeId(2), Input::PeerDown { peer: NodeId(1), life: Incarnation::FIRST });
    world.input(NodeId(2), Input::PeerUp { peer: NodeId(1), life: second });
    let report = |life| Msg::Report {
        number: 1,
        life,
        done: BTreeMap::from([(TaskId(0), 1275)]),
        in_hand: [TaskId(1)].into(),
    };
    tell(&mut world, 1, 2, report(Incarnation::FIRST));
    let present = |world: &Group<Bully>| {
        let office = world.process(2).application().office.as_ref().expect("p2 leads");
        office.present.contains(NodeId(1))
    };
    assert!(!present(&world) && world.process(2).application().done.len() == 1);
    tell(&mut world, 1, 2, report(second));
    assert!(present(&world));
}

#[test]
fn nonsense_is_rejected() {
    let mut world = group::<ChangRoberts>(3, 2);
    let (id, task) = (TaskId(2), Task { from: 1, to: 2 });
    let stranger = Reign { number: 1, leader: NodeId(9) };
    for message in [
        Msg::Task { number: 1, id, task },
        Msg::Result { number: 1, id, value: 1 },
        Msg::Report { number: 1, life: Incarnation::FIRST, done: BTreeMap::new(), in_hand: [id].into() },
        Msg::Collect { number: u64::MAX },
        Msg::Refuse { reign: stranger },
    ] {
        tell(&mut world, 2, 1, message);
    }
    tell(&mut world, 9, 1, Msg::Done { sum: 1 });
    assert_eq!(world.rejects.len(), 6);
    assert!(world.sent.is_empty() && world.events.is_empty());
}
