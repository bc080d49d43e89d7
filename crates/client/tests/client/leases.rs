//! A client never believes in a lock that may be somebody else's: whatever happens to its machine, its process, its runtime
//! and its node, it knows when its lease has run out.

use std::io::BufRead as _;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use conclave_client::v1::command::Act;
use conclave_client::v1::event::Told;
use conclave_client::v1::failed::Code;
use conclave_client::{
    Client, Clock, Guard, Lost, Moment, Options, Request, Session, SessionOptions, SystemClock, v1,
};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::time::timeout;

use crate::fake::{Fake, PATIENCE, refusal, well};

fn session(ttl: Duration) -> SessionOptions {
    SessionOptions::default().ttl(ttl)
}

async fn hold(client: &Client, ttl: Duration) -> (Session, Guard) {
    let session = client.session(session(ttl)).await.expect("it opens");
    let guard = session.acquire(Request::lock("a")).await.expect("it is free");
    (session, guard)
}

#[track_caller]
fn is_lost(guard: &Guard) {
    let token = guard.token();
    let lost = guard.check().expect_err("it is lost");
    assert_eq!(lost, Lost { token, why: "it could not be renewed in time".to_owned() });
    assert!(guard.is_lost() && guard.cancellation().is_cancelled());
    assert_eq!(guard.remaining(), Duration::ZERO);
}

/// The clock of the machine, and how far it has jumped: as if the machine had slept. It may fail, too.
#[derive(Default)]
struct Jumping {
    by_ms: AtomicU64,
    fails: AtomicBool,
}

impl Clock for Jumping {
    fn now(&self) -> Moment {
        assert!(!self.fails.swap(false, Ordering::SeqCst), "the clock is broken");
        SystemClock.now() + Duration::from_millis(self.by_ms.load(Ordering::SeqCst))
    }
}

fn jumping(address: String) -> (Client, Arc<Jumping>) {
    let clock = Arc::new(Jumping::default());
    let mut options = Options::new([address]);
    options.clock = Arc::clone(&clock) as Arc<dyn Clock>;
    (Client::with(options).expect("the address is right"), clock)
}

#[tokio::test]
async fn after_a_suspend_it_is_lost_at_the_first_look() {
    let (_, address) = Fake::start(well).await;
    let (client, clock) = jumping(address);
    let (session, guard) = hold(&client, Duration::from_secs(60)).await;
    assert_eq!(guard.check(), Ok(guard.token()));
    assert!(guard.remaining() > Duration::from_secs(50));
    // A short sleep is survived.
    clock.by_ms.store(30_000, Ordering::SeqCst);
    assert!(!guard.is_lost() && guard.remaining() < Duration::from_secs(30));
    clock.by_ms.store(90_000, Ordering::SeqCst);
    // Nothing has been awaited: no timer has run, and no task.
    is_lost(&guard);
    assert_eq!(session.remaining(), Duration::ZERO);
    timeout(PATIENCE, session.over()).await.expect("the session is over");
    let again = timeout(PATIENCE, session.acquire(Request::lock("b"))).await.expect("it is answered");
    assert!(again.map(|guard| guard.token()).is_err(), "for good");
}

#[tokio::test]
async fn after_a_suspend_whoever_waits_for_the_loss_is_told() {
    let (_, address) = Fake::start(well).await;
    let (client, clock) = jumping(address);
    let (session, guard) = hold(&client, Duration::from_secs(60)).await;
    let cancellation = guard.cancellation();
    // By its own timer, and by that of the client; neither can be set to when the machine wakes up.
    let jump = async { clock.by_ms.store(90_000, Ordering::SeqCst) };
    timeout(PATIENCE, async { tokio::join!(guard.lost(), cancellation.cancelled(), session.over(), jump) })
        .await
        .expect("they are told");
}

#[tokio::test]
async fn a_runtime_that_was_blocked_finds_out_at_the_first_look() {
    let (_, address) = Fake::start(well).await;
    // One that works here can do nothing meanwhile.
    let client = Client::with(Options::new([address]).in_this_runtime()).expect("the address is right");
    let (_session, guard) = hold(&client, Duration::from_millis(1_500)).await;
    assert!(!guard.is_lost());
    std::thread::sleep(Duration::from_millis(1_500));
    is_lost(&guard);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn if_the_clients_task_panics_its_sessions_are_over() {
    let (_, address) = Fake::start(well).await;
    let (client, clock) = jumping(address);
    let (session, guard) = hold(&client, Duration::from_secs(60)).await;
    let lost = guard.cancellation();
    // The next who looks at the clock is the task that renews sessions.
    clock.fails.store(true, Ordering::SeqCst);
    timeout(PATIENCE, async { tokio::join!(session.over(), lost.cancelled()) }).await.expect("it is over");
    assert!(guard.is_lost());
    assert!(guard.check().is_err());
}

#[tokio::test]
async fn only_what_renewed_a_session_extends_it_and_giving_up_closes_nothing() {
    let refused = Arc::new(AtomicUsize::new(0));
    let (counter, first) = (Arc::clone(&refused), Arc::new(AtomicU64::new(0)));
    // A node that is cut off: it refuses by itself what it can, for the first session.
    let (node, address) = Fake::start(move |command| match command.act {
        Some(Act::Open(_)) => {
            let _ = first.compare_exchange(0, command.session, Ordering::SeqCst, Ordering::SeqCst);
            well(command)
        }
        Some(Act::Renew(_)) if command.session == first.load(Ordering::SeqCst) => {
            counter.fetch_add(1, Ordering::SeqCst);
            vec![refusal(command, Code::Limit)]
        }
        _ => well(command),
    })
    .await;
    let client = Client::new([address]).expect("the address is right");
    let (session, guard) = hold(&client, Duration::from_secs(1)).await;
    let safe_until = session.safe_until();
    // It has heard of the first refusal when it tries again.
    node.hears(2, |act| matches!(act, Act::Renew(_))).await;
    assert_eq!(session.safe_until(), safe_until, "a refusal extends nothing");
    timeout(PATIENCE, guard.lost()).await.expect("it runs out");
    assert!(refused.load(Ordering::SeqCst) > 1, "it tried to renew it");
    assert_eq!(session.safe_until(), safe_until, "a refusal extends nothing");
    is_lost(&guard);
    drop((guard, session));
    // What is sent after this has passed everything that was sent before.
    let other = client.session(self::session(Duration::from_secs(60))).await.expect("it opens");
    assert_eq!(
        node.count(|act| matches!(act, Act::Close(_) | Act::Release(_))),
        0,
        "the lease is left to run out"
    );
    other.close().await.expect("it is there");
    assert_eq!(node.count(|act| matches!(act, Act::Close(_))), 1, "one that is closed on purpose is closed");
}

/// A clock at each look of which somebody asks for something: whoever looks at it has never nothing to do.
struct Restless(Mutex<Option<Session>>);

impl Clock for Restless {
    fn now(&self) -> Moment {
        // To ask may be to look at the clock.
        if let Ok(session) = self.0.try_lock()
            && let Some(session) = &*session
        {
            let mut asking = std::pin::pin!(session.acquire(Request::lock("more")));
            let _ = asking.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        }
        SystemClock.now()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_are_renewed_however_much_there_is_to_do() {
    let (node, address) = Fake::start(well).await;
    let clock = Arc::new(Restless(Mutex::default()));
    let mut options = Options::new([address]);
    options.clock = Arc::clone(&clock) as Arc<dyn Clock>;
    let client = Client::with(options).expect("the address is right");
    let (_session, guard) = hold(&client, Duration::from_secs(3)).await;
    // A session that is closed: the client answers by itself what is asked of it.
    let busy = client.session(session(Duration::from_secs(60))).await.expect("it opens");
    busy.clone().close().await.expect("it is there");
    *clock.0.lock().expect("no panic") = Some(busy);
    let is_renewal = |act: &Act| matches!(act, Act::Renew(_));
    let is_renewed = tokio::select! {
        () = node.hears(node.count(is_renewal) + 1, is_renewal) => true,
        () = guard.lost() => false,
    };
    *clock.0.lock().expect("no panic") = None;
    assert!(is_renewed, "nobody found the time to renew it");
}

#[tokio::test]
async fn a_node_that_does_not_take_a_session_up_again_does_not_end_it() {
    let refusals = AtomicUsize::new(0);
    let (node, address) = Fake::start(move |command| match &command.act {
        Some(Act::Open(open)) if open.reopens && refusals.fetch_add(1, Ordering::SeqCst) < 2 => {
            vec![refusal(command, Code::Limit)]
        }
        _ => well(command),
    })
    .await;
    let client = Client::new([address]).expect("the address is right");
    let (session, guard) = hold(&client, Duration::from_secs(6)).await;
    let reopens = |act: &Act| matches!(act, Act::Open(open) if open.reopens);
    node.send_away();
    node.hears(3, reopens).await;
    for times in 4..20 {
        node.send_away();
        node.hears(times, reopens).await;
    }
    assert_eq!(session.why_over(), None);
    timeout(PATIENCE, guard.release()).await.expect("it is answered").expect("it is held");
}

#[tokio::test]
async fn what_is_told_to_a_former_life_is_not_taken_for_ones_own() {
    let (node, address) = Fake::start(well).await;
    let client = Client::new([address]).expect("the address is right");
    let (session, guard) = hold(&client, Duration::from_secs(60)).await;
    let life = node.heard()[0].life;
    let ended = |life| {
        let told = Some(Told::Ended(v1::Ended { why: "expired".to_owned() }));
        v1::Event { session: session.id(), life, told }
    };
    let lost = Told::Lost(v1::Lost { token: guard.token(), why: "forced".to_owned() });
    node.tell(&ended(life ^ 1));
    node.tell(&v1::Event { told: Some(lost), ..ended(life ^ 1) });
    // An answer that comes after it shows that it has been heard.
    session.acquire(Request::lock("b")).await.expect("it lives").release().await.expect("it is held");
    assert!(!guard.is_lost() && session.why_over().is_none());
    node.tell(&ended(life));
    timeout(PATIENCE, session.over()).await.expect("that one was meant");
    assert_eq!(guard.why_lost().as_deref(), Some("expired"));
}

/// Another process that holds a lock of this node, and looks again and again whether it still does.
const CHILD: &str = "CONCLAVE_TEST_NODE";
const CHILD_TTL: Duration = Duration::from_secs(1);

/// Says whether it holds the lock at the first look after it was stopped for longer than its session lives.
async fn look_again_and_again(address: String) {
    let client = Client::new([address]).expect("the address is right");
    let (_session, guard) = hold(&client, CHILD_TTL).await;
    println!("\nheld: true");
    let mut last = SystemClock.now();
    // On this thread, and without a rest, so that nobody else can look first; the runtime has others to run on.
    loop {
        let now = SystemClock.now();
        let is_held = guard.check().is_ok();
        if !is_held || now.saturating_duration_since(last) > CHILD_TTL {
            return println!("\nheld: {is_held}");
        }
        last = now;
        std::thread::yield_now();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_was_stopped_finds_out_at_the_first_look() {
    if let Ok(address) = std::env::var(CHILD) {
        return look_again_and_again(address).await;
    }
    let (_, address) = Fake::start(well).await;
    let me = std::env::current_exe().expect("it has a name");
    let mut child = std::process::Command::new(me);
    child.args(["--exact", "leases::a_process_that_was_stopped_finds_out_at_the_first_look", "--nocapture"]);
    child.env(CHILD, address).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = child.spawn().expect("it runs");
    let mut said = std::io::BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let mut look = || said.find_map(|line| line.ok()?.strip_prefix("held: ").map(|held| held == "true"));
    let pid = Pid::from_raw(i32::try_from(child.id()).expect("the number of a process"));
    tokio::task::block_in_place(|| {
        assert_eq!(look(), Some(true));
        kill(pid, Signal::SIGSTOP).expect("it is there");
        std::thread::sleep(CHILD_TTL + Duration::from_millis(100));
        kill(pid, Signal::SIGCONT).expect("it is there");
        assert_eq!(look(), Some(false));
        assert!(child.wait().expect("it ends").success());
    });
}
