//! Stores of every shape, and everything that happens to them. What is expected of all: a decision or 503 within
//! `store_timeout`, never more admitted than the limit, no question put twice, and back by itself within two seconds.

mod cluster;
mod connections;
mod fallback;
mod load;
mod lost_replies;
mod notices;
mod sentinel;
mod states;
mod tls;
mod topologies;

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Answer, Proxy, Redis, RedisOptions, Sidecar, assert_invariants, eventually};

/// `store_timeout` of these tests.
const STORE_TIMEOUT: Duration = Duration::from_millis(400);
/// What an answer may take on top of it, in the middle of several.
const SLACK: Duration = Duration::from_millis(200);
/// What a busy machine may add to a single one; more would be somebody waiting for something.
const NOISE: Duration = Duration::from_millis(600);
/// How soon after its store an unattended sidecar is back.
const RECOVERY: Duration = Duration::from_secs(2);

/// More than any test takes.
const LIMIT: u64 = 1_000_000;

/// The Redis key of the check that tests ask for. Probes of the store's own may leave others.
const KEY: &str = "sluice:{a}:any:a";

/// A configuration with one policy, `any`, and what a test changes of it.
fn config(settings: &Value) -> Value {
    let mut config = json!({
        "store_timeout": format!("{}ms", STORE_TIMEOUT.as_millis()),
        "policies": {"any": {"algorithm": "fixed_window", "rate": format!("{LIMIT}/1h")}},
    });
    for (field, value) in settings.as_object().unwrap() {
        config[field.as_str()] = value.clone();
    }
    config
}

/// A sidecar under observation: what it is asked for, and what it answered.
#[derive(Debug)]
struct Watched {
    sidecar: Sidecar,
    /// Answers so far: allowed, and no decision.
    allowed: u64,
    failed: u64,
}

impl Watched {
    async fn start(settings: &Value) -> Self {
        let mut watched = Self::launch(settings).await;
        watched.sidecar.until_ready().await;
        watched
    }

    /// Without waiting for its store.
    async fn launch(settings: &Value) -> Self {
        Self::new(Sidecar::launch_with(&config(settings))).await
    }

    async fn new(mut sidecar: Sidecar) -> Self {
        sidecar.until_alive().await;
        Self { sidecar, allowed: 0, failed: 0 }
    }

    /// One question. Whatever happens, it ends in time, in a decision or in a problem.
    async fn take(&mut self) -> Answer {
        self.take_in_time().await.0
    }

    async fn take_in_time(&mut self) -> (Answer, Duration) {
        let start = Instant::now();
        let answer = self.sidecar.take("any", "a").await;
        let time = start.elapsed();
        assert!(time <= STORE_TIMEOUT + NOISE, "after {time:?}: {answer:?}");
        if answer.is_allowed() {
            self.allowed += 1;
        } else {
            assert_eq!(answer.status, 503, "{answer:?}");
            assert_eq!(answer.header("content-type"), Some("application/problem+json"));
            assert_eq!(answer.json()["status"], 503);
            self.failed += 1;
        }
        (answer, time)
    }

    /// Questions are decided.
    async fn assert_decides(&mut self) {
        for _ in 0..3 {
            let answer = self.take().await;
            assert!(answer.is_allowed(), "{answer:?}");
        }
    }

    /// No question is decided, in time. The problem says why, at the latest when it has been seen a few times: the
    /// first question may only find its connection gone.
    async fn assert_fails(&mut self, why: &str) {
        let (mut times, mut detail) = (Vec::new(), String::new());
        for _ in 0..5 {
            let (answer, time) = self.take_in_time().await;
            assert_eq!(answer.status, 503, "{answer:?}");
            answer.json()["detail"].as_str().unwrap().clone_into(&mut detail);
            times.push(time);
        }
        assert!(detail.to_lowercase().contains(&why.to_lowercase()), "{why:?} is not in {detail:?}");
        times.sort();
        println!("{why}: {times:?}");
        assert!(times[times.len() / 2] <= STORE_TIMEOUT + SLACK, "too late: {times:?}");
    }

    /// `/readyz` tells that the store is down, and why; in which case of letters doesn't matter.
    async fn assert_says_down(&self, why: &str) {
        let start = Instant::now();
        loop {
            let store = self.sidecar.store().await;
            let detail = store["detail"].as_str().unwrap_or_default().to_lowercase();
            if store["state"] == "down" && detail.contains(&why.to_lowercase()) {
                return;
            }
            assert!(
                start.elapsed() < 5 * RECOVERY,
                "/readyz never said that the store is down for {why:?}, but {store}"
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Questions are decided again, soon, and all that follow.
    async fn assert_recovers(&mut self) {
        let start = Instant::now();
        while !self.take().await.is_allowed() {
            assert!(start.elapsed() < RECOVERY, "not within {RECOVERY:?}; it says {}", self.sidecar.store().await);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        println!("recovered after {:?}", start.elapsed());
        self.assert_decides().await;
        eventually("/readyz says that the store is up", async || {
            (self.sidecar.store().await["state"] == "up").then_some(())
        })
        .await;
    }

    /// What was charged, once it stands still: what Redis was asked may be decided when nobody waits any more.
    async fn charged(&self) -> u64 {
        let (mut last, mut times) = (0, 0);
        eventually("nothing more is charged", async || {
            let answer = Some(self.sidecar.peek("any", "a").await).filter(Answer::is_allowed)?;
            let charged = LIMIT - answer.rate_limit().1;
            times = if charged == last { times + 1 } else { 0 };
            last = charged;
            (times == 20).then_some(charged)
        })
        .await
    }

    /// What may have been charged: never less than was allowed, and for each question without a decision at most once, if
    /// the store may have decided it all the same.
    fn charges(&self, undecided: Undecided) -> RangeInclusive<u64> {
        match undecided {
            Undecided::NeverCharged => self.allowed..=self.allowed,
            Undecided::PerhapsCharged => self.allowed..=self.allowed + self.failed,
            Undecided::Charged(lost) => self.allowed + lost..=self.allowed + lost,
            Undecided::Forgotten => 1..=self.allowed + self.failed,
        }
    }
}

/// What became of questions that were answered with 503.
#[derive(Debug, Clone, Copy)]
enum Undecided {
    /// Redis refused them.
    NeverCharged,
    /// Redis may have decided them.
    PerhapsCharged,
    /// Redis has decided as many of them.
    Charged(u64),
    /// Redis has lost what it counted.
    Forgotten,
}

/// The usual arrangement: one Redis, and a proxy between it and the sidecar.
#[derive(Debug)]
struct Ground {
    redis: Redis,
    proxy: Proxy,
    watched: Watched,
}

impl Ground {
    /// Everything is well, and questions are decided.
    async fn start() -> Self {
        Self::start_with(&RedisOptions::default(), "", &json!({})).await
    }

    /// `user` is what stands in front of the `@` in the store's address.
    async fn start_with(options: &RedisOptions, user: &str, settings: &Value) -> Self {
        let redis = Redis::start_with(options).await;
        let proxy = Proxy::start(redis.port()).await;
        let at = if user.is_empty() { "" } else { "@" };
        let mut settings = settings.clone();
        settings["store"] = format!("redis://{user}{at}127.0.0.1:{}", proxy.port()).into();
        let mut watched = Watched::start(&settings).await;
        watched.assert_decides().await;
        Self { redis, proxy, watched }
    }

    /// The last line of every test: the sidecar is the one that was started, and the books are right.
    async fn end(mut self, undecided: Undecided, secrets: &[&str]) {
        assert!(self.watched.sidecar.process.is_running());
        let charged = self.watched.charged().await;
        let expected = self.watched.charges(undecided);
        assert!(expected.contains(&charged), "{charged} were charged, {undecided:?}: {expected:?}");
        assert_invariants(&self.redis, &mut [], &[self.watched.sidecar.process.log()], secrets).await;
    }
}
