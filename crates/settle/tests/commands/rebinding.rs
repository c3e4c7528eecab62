//! DNS rebinding: a name that was public when the merchant set it leads inside when the service sends to it.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::{Arc, Mutex};

use serde_json::json;
use settle_testing::binary::Settle;
use settle_testing::serving::{Serving, ask, get};

use crate::import::line;

on_both_stores! {
    a_name_that_leads_inside_by_now_is_never_connected_to,
}

const PUBLIC: Ipv4Addr = Ipv4Addr::new(93, 184, 215, 14);

/// A name server that gives every name the one address that is set.
struct NameServer {
    address: SocketAddr,
    answer: Arc<Mutex<Ipv4Addr>>,
}

impl NameServer {
    fn start(first: Ipv4Addr) -> NameServer {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let answer = Arc::new(Mutex::new(first));
        let current = answer.clone();
        std::thread::spawn(move || {
            let mut buffer = [0; 1_500];
            loop {
                let (length, peer) = socket.recv_from(&mut buffer).unwrap();
                socket.send_to(&reply(&buffer[..length], *current.lock().unwrap()), peer).unwrap();
            }
        });
        NameServer { address, answer }
    }

    fn set(&self, address: Ipv4Addr) {
        *self.answer.lock().unwrap() = address;
    }
}

/// The answer to a question (RFC 1035): one A record, and nothing of any other type.
fn reply(question: &[u8], address: Ipv4Addr) -> Vec<u8> {
    const HEADER_BYTES: usize = 12;
    const TYPE_A: [u8; 2] = [0, 1];
    let name = question[HEADER_BYTES..].iter().position(|byte| *byte == 0).unwrap() + 1;
    let question_end = HEADER_BYTES + name + 4;
    let is_a = question[HEADER_BYTES + name..][..2] == TYPE_A;
    // The same id; an answer to a recursive question; one question; one record or none.
    let mut reply = [&question[..2], &[0x81, 0x80, 0, 1, 0, u8::from(is_a), 0, 0, 0, 0]].concat();
    reply.extend_from_slice(&question[HEADER_BYTES..question_end]);
    if is_a {
        // The name of the question, type A, class IN, an hour to live, four bytes.
        reply.extend_from_slice(&[0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0x0e, 0x10, 0, 4]);
        reply.extend_from_slice(&address.octets());
    }
    reply
}

/// "Internal, loopback and metadata hosts are rejected": also at the time of sending. The deliveries say why,
/// and no connection is opened.
fn a_name_that_leads_inside_by_now_is_never_connected_to(settle: &mut Settle) {
    let names = NameServer::start(PUBLIC);
    settle.set("SETTLE_WEBHOOK__NAMESERVERS", &names.address.to_string());
    settle.set("SETTLE_WEBHOOK__RETRY_FIRST", "10ms");
    settle.set("SETTLE_WEBHOOK__RETRY_MAX", "10ms");
    settle.set("SETTLE_WEBHOOK__MAX_ATTEMPTS", "3");
    let inside = TcpListener::bind("127.0.0.1:0").unwrap();
    inside.set_nonblocking(true).unwrap();
    let merchant = settle.merchant();
    let (_, key) = settle.key(&merchant);
    let token = settle.run(&["operator", "create", "Ada", "--json"]).json()["token"].clone();
    let (mut serving, api, operator) = Serving::ready(settle);
    let url = format!("https://shop.example:{}/hook", inside.local_addr().unwrap().port());
    let endpoint = json!({ "webhook_url": url, "webhook_secret": "hush" }).to_string();
    let put = ask(api, "PUT", "/v1/webhook", &key, &endpoint);
    assert_eq!(put.status, 200, "it is public: {put:?}");
    names.set(Ipv4Addr::LOCALHOST);
    let put = ask(api, "PUT", "/v1/webhook", &key, &endpoint);
    assert_eq!(put.json()["error"]["fields"][0]["code"], "unsafe_url", "it is not any more");
    let test = ask(api, "POST", "/v1/webhook/test", &key, "").json();
    assert_eq!((&test["delivered"], &test["status"]), (&json!(false), &json!(null)), "{test}");
    let post = |number: usize| {
        let settlement = line(Some(&merchant), number, json!({}));
        ask(operator, "POST", "/operator/v1/settlements", token.as_str().unwrap(), &settlement)
    };
    assert_eq!(post(1).json()["notified"], 1);
    serving.wait_for("deliveries are dead");
    let row = get(api, "/v1/webhook/deliveries", &key).json()["deliveries"][0].clone();
    assert_eq!((&row["status"], &row["attempts"]), (&json!("dead"), &json!(3)), "{row}");
    assert_eq!(row["last_error"], "unsafe address: the host leads to an address that is not public");
    assert_eq!(row["response_status"], json!(null));
    serving.stop();
    assert_eq!(inside.accept().unwrap_err().kind(), ErrorKind::WouldBlock, "nobody has connected");

    // With the guard opened the same name does lead here: so it was the guard that refused it.
    settle.set("SETTLE_WEBHOOK__ALLOW_NETWORKS", "127.0.0.0/8");
    inside.set_nonblocking(false).unwrap();
    let (serving, api, _) = Serving::ready(settle);
    let tested = std::thread::scope(|scope| {
        let tested = scope.spawn(|| ask(api, "POST", "/v1/webhook/test", &key, "").json());
        drop(inside.accept().unwrap());
        tested.join().unwrap()
    });
    assert_eq!(tested["delivered"], false, "it is no TLS server: {tested}");
    serving.stop();
}
