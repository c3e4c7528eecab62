//! A name server on the loopback interface, whose answers the test makes.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use hickory_resolver::proto::op::{Message, Query, ResponseCode};
use hickory_resolver::proto::rr::rdata::{A, AAAA, CNAME};
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use tokio::net::UdpSocket;

const TTL_SECONDS: u32 = 3_600;

/// How the server answers one question.
pub enum Reply {
    /// These records, or none of the type asked for.
    Records(Vec<Record>),
    /// An answer with this code and no records.
    Code(ResponseCode),
    /// No answer.
    Silence,
}

/// The questions a server got, as `name. type`.
pub type Questions = Arc<Mutex<Vec<String>>>;

/// Starts a name server on the loopback interface; it ends with the test's runtime.
pub async fn serve(answer: impl Fn(&Query) -> Reply + Send + 'static) -> (SocketAddr, Questions) {
    let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
    let address = socket.local_addr().expect("an address");
    let questions = Questions::default();
    let heard = questions.clone();
    tokio::spawn(async move {
        let mut buffer = [0; 1_500];
        loop {
            let (length, peer) = socket.recv_from(&mut buffer).await.expect("a question");
            let request = Message::from_vec(&buffer[..length]).expect("a message");
            let query = request.queries[0].clone();
            heard.lock().unwrap().push(format!("{} {}", query.name(), query.query_type()));
            let mut response = Message::response(request.metadata.id, request.metadata.op_code);
            match answer(&query) {
                Reply::Records(records) => response.answers = records,
                Reply::Code(code) => response.metadata.response_code = code,
                Reply::Silence => continue,
            }
            response.add_query(query);
            let bytes = response.to_vec().expect("bytes");
            socket.send_to(&bytes, peer).await.expect("an answer");
        }
    });
    (address, questions)
}

/// A record of any type.
pub fn record(name: &str, data: RData) -> Record {
    Record::from_rdata(Name::from_ascii(name).expect("a name"), TTL_SECONDS, data)
}

/// A public IPv4 address of a name.
pub fn a(name: &str) -> Record {
    record(name, RData::A(A::new(93, 184, 215, 14)))
}

/// A public IPv6 address of a name.
pub fn aaaa(name: &str) -> Record {
    record(name, RData::AAAA(AAAA::new(0x2606, 0x4700, 0x4700, 0, 0, 0, 0, 0x1111)))
}

/// A name that is an alias of another.
pub fn alias(name: &str, target: &str) -> Record {
    record(name, RData::CNAME(CNAME(Name::from_ascii(target).expect("a name"))))
}

/// Answers questions for A and for AAAA differently.
pub fn by_type(query: &Query, of_a: Reply, of_aaaa: Reply) -> Reply {
    match query.query_type() {
        RecordType::A => of_a,
        RecordType::AAAA => of_aaaa,
        other => panic!("neither A nor AAAA: {other}"),
    }
}
