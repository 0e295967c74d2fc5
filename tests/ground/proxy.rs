//! Each fault of the proxy, between a plain connection and a real Redis.

use std::io::ErrorKind;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use crate::support::{Fault, Proxy, Redis, eventually};

/// Long enough for what should not come to have come.
const WHILE: Duration = Duration::from_millis(200);

/// Commands as one types them.
struct Connection(TcpStream);

impl Connection {
    async fn open(proxy: &Proxy) -> Self {
        Self(TcpStream::connect(("127.0.0.1", proxy.port())).await.unwrap())
    }

    async fn send(&mut self, command: &str) {
        self.0.write_all(format!("{command}\r\n").as_bytes()).await.unwrap();
    }

    /// Up to and without the end of the line; shorter if the connection ends.
    async fn line(&mut self) -> std::io::Result<String> {
        let mut line = Vec::new();
        loop {
            match self.0.read_u8().await {
                Ok(b'\r') => {
                    assert_eq!(self.0.read_u8().await.unwrap(), b'\n');
                    break;
                }
                Ok(byte) => line.push(byte),
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => break,
                Err(error) => return Err(error),
            }
        }
        Ok(String::from_utf8(line).unwrap())
    }

    async fn ask(&mut self, command: &str) -> String {
        self.send(command).await;
        self.line().await.unwrap()
    }

    async fn is_silent(&mut self) -> bool {
        timeout(WHILE, self.line()).await.is_err()
    }
}

fn count(redis: &Redis) -> u64 {
    redis.command::<Option<u64>>(&["GET", "n"]).unwrap_or(0)
}

async fn until_counted(redis: &Redis, expected: u64) {
    eventually("Redis has counted", async || (count(redis) == expected).then_some(())).await;
}

async fn start() -> (Redis, Proxy, Connection) {
    let redis = Redis::start().await;
    let proxy = Proxy::start(redis.port()).await;
    let mut connection = Connection::open(&proxy).await;
    assert_eq!(connection.ask("INCR n").await, ":1");
    (redis, proxy, connection)
}

#[tokio::test(flavor = "multi_thread")]
async fn it_passes_everything_on_and_counts() {
    let (_redis, proxy, mut connection) = start().await;
    assert_eq!(connection.ask("INCR n").await, ":2");
    assert_eq!((proxy.opened(), proxy.open()), (1, 1));
    let counts = || (proxy.bytes_up(), proxy.bytes_down());
    eventually("bytes are counted", async || (counts() == (2 * 8, 2 * 4)).then_some(())).await;
    drop(connection);
    eventually("the end is passed on", async || (proxy.open() == 0).then_some(())).await;
    assert_eq!(proxy.opened(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn it_can_be_pointed_elsewhere() {
    let (redis, proxy, mut connection) = start().await;
    let other = Redis::start().await;
    proxy.point_to(other.port());
    assert_eq!(connection.ask("INCR n").await, ":2");
    assert_eq!(Connection::open(&proxy).await.ask("INCR n").await, ":1");
    proxy.reset_open();
    connection.line().await.unwrap_err();
    assert_eq!((count(&redis), count(&other)), (2, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn delay_is_for_each_direction() {
    let (_redis, proxy, mut connection) = start().await;
    proxy.set(Fault::Delay(WHILE)).await;
    let start = Instant::now();
    assert_eq!(connection.ask("INCR n").await, ":2");
    assert!(start.elapsed() >= 2 * WHILE, "{:?}", start.elapsed());
    proxy.set(Fault::None).await;
    assert_eq!(connection.ask("INCR n").await, ":3");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stall_holds_back_what_it_read() {
    let (redis, proxy, mut connection) = start().await;
    proxy.set(Fault::Stall).await;
    connection.send("INCR n").await;
    assert!(connection.is_silent().await);
    let mut another = Connection::open(&proxy).await;
    another.send("INCR n").await;
    drop(another);
    assert_eq!(count(&redis), 1);
    proxy.set(Fault::None).await;
    connection.line().await.unwrap();
    // Nor is lost what was sent by somebody who is gone.
    until_counted(&redis, 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_stops_reading() {
    let (redis, proxy, mut connection) = start().await;
    proxy.set(Fault::StopReading).await;
    connection.send("INCR n").await;
    assert!(connection.is_silent().await);
    // More than any buffer holds: the sender feels it.
    let much = vec![b'\n'; 64 * 1024 * 1024];
    assert!(timeout(WHILE, connection.0.write_all(&much)).await.is_err());
    assert_eq!(count(&redis), 1);
    proxy.set(Fault::None).await;
    assert_eq!(connection.line().await.unwrap(), ":2");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reset_is_one_for_open_and_for_new_connections() {
    let (_redis, proxy, mut connection) = start().await;
    proxy.set(Fault::Reset).await;
    assert_eq!(connection.line().await.unwrap_err().kind(), ErrorKind::ConnectionReset);
    // It may be quicker than the one who connects can see that he is connected.
    let another = async { TcpStream::connect(("127.0.0.1", proxy.port())).await?.read_u8().await };
    assert_eq!(another.await.unwrap_err().kind(), ErrorKind::ConnectionReset);
    proxy.set(Fault::None).await;
    assert_eq!(Connection::open(&proxy).await.ask("INCR n").await, ":2");
}

#[tokio::test(flavor = "multi_thread")]
async fn new_connections_are_refused_and_open_ones_are_not() {
    let (_redis, proxy, mut connection) = start().await;
    proxy.set(Fault::Refuse).await;
    let error = TcpStream::connect(("127.0.0.1", proxy.port())).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    assert_eq!(connection.ask("INCR n").await, ":2");
    proxy.set(Fault::None).await;
    assert_eq!(Connection::open(&proxy).await.ask("INCR n").await, ":3");
    assert_eq!(proxy.opened(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_is_cut() {
    let (redis, proxy, mut connection) = start().await;
    proxy.set(Fault::CutReply(6)).await;
    assert_eq!(connection.ask("INCR n").await, ":2");
    assert_eq!(connection.ask("INCR n").await, ":3", "the end of the line is missing, of which this can't tell");
    assert_eq!(connection.line().await.unwrap(), "");
    assert_eq!(count(&redis), 3);
    // Each connection has as many.
    assert_eq!(Connection::open(&proxy).await.ask("ECHO 123456789").await, "$9");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_is_lost_and_nothing_after_it_arrives() {
    let (redis, proxy, mut connection) = start().await;
    proxy.set(Fault::LoseReply { from: "INCR", close: false }).await;
    assert_eq!(connection.ask("PING").await, "+PONG");
    // In two pieces, as a network may have it.
    connection.0.write_all(b"IN").await.unwrap();
    assert!(connection.is_silent().await);
    connection.0.write_all(b"CR n\r\n").await.unwrap();
    until_counted(&redis, 2).await;
    eventually("the reply is lost", async || (proxy.lost() == 1).then_some(())).await;
    proxy.set(Fault::None).await;
    connection.send("PING").await;
    assert!(connection.is_silent().await, "the reply to PING would be taken for INCR's");
    assert_eq!(Connection::open(&proxy).await.ask("INCR n").await, ":3");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_is_lost_with_its_connection() {
    let (redis, proxy, mut connection) = start().await;
    proxy.set(Fault::LoseReply { from: "", close: true }).await;
    assert_eq!(connection.ask("INCR n").await, "");
    assert_eq!((count(&redis), proxy.lost()), (2, 1));
}
