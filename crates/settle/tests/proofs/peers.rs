//! Finds out from Linux which process has a connection.

use std::net::SocketAddr;

/// Whether the process has the connection from one address to the other.
pub fn has_connection(process: u32, from: SocketAddr, to: SocketAddr) -> bool {
    let Some(inode) = inode(from, to) else { return false };
    let wanted = format!("socket:[{inode}]");
    let files = std::fs::read_dir(format!("/proc/{process}/fd")).expect("the process lives");
    files
        .flatten()
        .any(|file| std::fs::read_link(file.path()).is_ok_and(|to| to.as_os_str() == wanted.as_str()))
}

/// The inode of the socket at the near end of a connection.
fn inode(from: SocketAddr, to: SocketAddr) -> Option<String> {
    let ends = [from, to].map(|address| format!(":{:04X}", address.port()));
    let table = std::fs::read_to_string("/proc/net/tcp").expect("Linux");
    let mut rows = table.lines().map(|row| row.split_whitespace().collect::<Vec<_>>());
    let row = rows.find(|row| row.len() > 9 && row[1].ends_with(&ends[0]) && row[2].ends_with(&ends[1]))?;
    Some(row[9].to_owned())
}
