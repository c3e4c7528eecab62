//! The receivers that the docs page shows accept the deliveries of a running service, and refuse them if
//! somebody has changed them on the way.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::json;
use settle_testing::binary::Settle;
use settle_testing::serving::{PATIENCE, Serving, ask};

use crate::import::line;

on_both_stores! {
    the_python_receiver_takes_a_delivery_and_refuses_a_changed_one,
    the_node_receiver_takes_a_delivery_and_refuses_a_changed_one,
}

/// Not plain ASCII, because a secret may contain any characters.
const SECRET: &str = "whsec-ключ-1";

/// A running receiver, killed when dropped.
struct Receiver {
    process: Child,
    address: SocketAddr,
    /// It says what it received: who says something to a closed pipe fails.
    _said: BufReader<ChildStdout>,
    /// It stores what it received in the folder it runs in.
    _folder: tempfile::TempDir,
}

impl Receiver {
    /// Starts the file whose text the docs page shows.
    fn start(program: &str, file: &str) -> Receiver {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../api/src/docs/receivers").join(file);
        let mut command = Command::new(program);
        let folder = tempfile::tempdir().unwrap();
        command.arg(file).current_dir(&folder).env("WEBHOOK_SECRET", SECRET).env("PORT", "0");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().unwrap_or_else(|fault| panic!("{program}: {fault}"));
        // The receiver prints a line when it listens, with its address.
        let mut line = String::new();
        let mut said = BufReader::new(process.stdout.take().unwrap());
        said.read_line(&mut line).unwrap();
        let port: u16 = line.trim().rsplit(' ').next().unwrap().parse().unwrap();
        Receiver { process, address: ([127, 0, 0, 1], port).into(), _said: said, _folder: folder }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Somebody on the way, who raises the amount of the first payment and passes the others on unchanged.
/// Returns the address to send to.
fn start_meddler(receiver: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            let request = read_request(&mut stream);
            let changed = request.replace(r#""incoming_amount":"1000.00""#, r#""incoming_amount":"9000.00""#);
            assert_ne!(changed, request, "there is something to change");
            let request = if number == 0 { changed } else { request };
            let mut onward = TcpStream::connect(receiver).unwrap();
            onward.set_read_timeout(Some(PATIENCE)).unwrap();
            onward.write_all(request.as_bytes()).unwrap();
            let mut answer = Vec::new();
            onward.read_to_end(&mut answer).unwrap();
            stream.write_all(&answer).unwrap();
        }
    });
    address
}

/// Reads one request, and adds a header that closes the connection after the answer.
fn read_request(stream: &mut TcpStream) -> String {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if line == "\r\n" {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.trim().parse().unwrap();
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    format!("{head}connection: close\r\n\r\n{}", String::from_utf8(body).unwrap())
}

fn check(settle: &mut Settle, receiver: &Receiver) {
    for (name, value) in [
        ("SETTLE_WEBHOOK__ALLOW_HTTP", "true"),
        ("SETTLE_WEBHOOK__ALLOW_NETWORKS", "127.0.0.0/8"),
        ("SETTLE_WEBHOOK__RETRY_FIRST", "10ms"),
        ("SETTLE_LOG__LEVEL", "info,settle_notify=debug"),
    ] {
        settle.set(name, value);
    }
    let merchant = settle.merchant();
    let (_, key) = settle.key(&merchant);
    let token = settle.run(&["operator", "create", "Ada", "--json"]).json()["token"].clone();
    let (mut serving, api, operator) = Serving::ready(settle);
    let url = format!("http://{}/hook", start_meddler(receiver.address));
    let endpoint = json!({ "webhook_url": url, "webhook_secret": SECRET }).to_string();
    assert_eq!(ask(api, "PUT", "/v1/webhook", &key, &endpoint).status, 200);
    let settlement = line(Some(&merchant), 1, json!({ "destination_reference": "carteira-são" }));
    let posted = ask(operator, "POST", "/operator/v1/settlements", token.as_str().unwrap(), &settlement);
    assert_eq!(posted.json()["notified"], 1, "{posted:?}");
    let failed = serving.wait_for("an attempt failed");
    assert!(failed.contains("answered with status 400"), "{failed}");
    serving.wait_for(r#""message":"delivered""#);
    serving.stop();
    let row = settle.run(&["delivery", "list", "--json"]).json()["deliveries"][0].clone();
    assert_eq!((&row["status"], &row["attempts"]), (&json!("delivered"), &json!(2)), "{row}");
    assert_eq!(row["response_status"], 204);
}

fn the_python_receiver_takes_a_delivery_and_refuses_a_changed_one(settle: &mut Settle) {
    check(settle, &Receiver::start("python3", "receiver.py"));
}

fn the_node_receiver_takes_a_delivery_and_refuses_a_changed_one(settle: &mut Settle) {
    check(settle, &Receiver::start("node", "receiver.mjs"));
}
