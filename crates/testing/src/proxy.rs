//! A proxy before a server. It can swallow its connections, as a firewall does that has forgotten them:
//! nothing arrives any more on either side, and neither side is told. It can hang, as a server does that
//! accepts and says nothing, and refuse, as a machine does on which no server runs.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// The bytes that one read takes.
const BUFFER_BYTES: usize = 16 * 1_024;

/// A proxy. It ends with the test's process.
pub struct Proxy {
    /// Where it listens.
    pub address: SocketAddr,
    /// How often connections were swallowed. What is older than the last time is dead.
    swallowed: Arc<AtomicU64>,
    state: Arc<Mutex<State>>,
    listening: Option<JoinHandle<()>>,
}

/// What happens to a new connection.
#[derive(Default, Clone, Copy)]
enum Mode {
    #[default]
    Pass,
    Hang,
    Refuse,
}

#[derive(Default)]
struct State {
    mode: Mode,
    /// Both sides of every connection.
    sockets: Vec<TcpStream>,
}

impl Proxy {
    /// A proxy before the server at this address.
    pub fn start(server: SocketAddr) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("a listener has an address");
        let (swallowed, state) = (Arc::new(AtomicU64::new(0)), Arc::new(Mutex::new(State::default())));
        let (counter, shared) = (swallowed.clone(), state.clone());
        let listening = std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let mut state = lock(&shared);
                match state.mode {
                    Mode::Pass => {}
                    Mode::Hang => {
                        state.sockets.push(client);
                        continue;
                    }
                    Mode::Refuse => return,
                }
                // A server that is away refuses, and so does its proxy.
                let Ok(server) = TcpStream::connect(server) else { continue };
                let made_at = counter.load(Ordering::SeqCst);
                state.sockets.extend([twin(&client), twin(&server)]);
                let (from_client, to_server) = (twin(&client), twin(&server));
                pass_on(from_client, to_server, counter.clone(), made_at);
                pass_on(server, client, counter.clone(), made_at);
            }
        });
        Proxy { address, swallowed, state, listening: Some(listening) }
    }

    /// A proxy before the PostgreSQL of this URL, and the URL that leads through it.
    pub fn before(url: &str) -> (Proxy, String) {
        let server = url.split(['@', '/', '?']).find(|part| part.parse::<SocketAddr>().is_ok());
        let server = server.expect("a URL with an address and a port");
        let proxy = Proxy::start(server.parse().expect("just parsed"));
        let url = url.replacen(server, &proxy.address.to_string(), 1);
        (proxy, url)
    }

    /// Swallows every open connection. New ones work.
    pub fn swallow(&self) {
        self.swallowed.fetch_add(1, Ordering::SeqCst);
    }

    /// From now on every connection, open or new, is silent.
    pub fn hang(&self) {
        lock(&self.state).mode = Mode::Hang;
        self.swallow();
    }

    /// From now on new connections work, also after [`Proxy::hang`].
    pub fn pass(&self) {
        lock(&self.state).mode = Mode::Pass;
    }

    /// Ends every connection, and refuses new ones for good.
    pub fn refuse(&mut self) {
        lock(&self.state).mode = Mode::Refuse;
        // The thread looks at the mode when somebody connects, and closes its listener as it ends.
        drop(TcpStream::connect(self.address));
        if let Some(listening) = self.listening.take() {
            listening.join().expect("it listened until now");
        }
        for socket in lock(&self.state).sockets.drain(..) {
            // One that has ended already cannot be ended again.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn twin(stream: &TcpStream) -> TcpStream {
    stream.try_clone().expect("a socket can be cloned")
}

/// Passes on what is read until the connection is swallowed or ends.
fn pass_on(mut from: TcpStream, mut to: TcpStream, swallowed: Arc<AtomicU64>, made_at: u64) {
    std::thread::spawn(move || {
        let mut buffer = [0; BUFFER_BYTES];
        loop {
            let read = from.read(&mut buffer).unwrap_or(0);
            if swallowed.load(Ordering::SeqCst) != made_at {
                // Both sockets stay open, and nobody hears of what happens on the other side.
                loop {
                    std::thread::park();
                }
            }
            if read == 0 || to.write_all(&buffer[..read]).is_err() {
                // Whoever is still there sees the end.
                let _ = to.shutdown(Shutdown::Both);
                return;
            }
        }
    });
}
