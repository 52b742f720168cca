//! A Hugging Face Hub of one repository, on a free port of this machine.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// The running server; lives until the test ends.
pub(super) struct FakeHub {
    pub(super) address: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl FakeHub {
    /// Serves `files` (name, content), and tells `sha256` of each as its Git LFS digest.
    pub(super) fn start(files: Vec<(&'static str, Vec<u8>)>, sha256: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                serve(stream.unwrap(), &files, &sha256, &log);
            }
        });
        Self { address, requests }
    }

    /// Requests so far: "GET bytes=0-9", "HEAD ", "POST ".
    pub(super) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

fn serve(stream: TcpStream, files: &[(&str, Vec<u8>)], sha256: &str, log: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap() <= 2 {
            break;
        }
        head.push(line.trim_end().to_ascii_lowercase());
    }
    let header = |name: &str| {
        head.iter()
            .find_map(|line| line.strip_prefix(name))
            .unwrap_or_default()
            .trim()
    };
    let mut body = vec![0; header("content-length:").parse().unwrap_or(0)];
    reader.read_exact(&mut body).unwrap();
    let (method, path) = head[0].split_once(' ').unwrap();
    let range = header("range:");
    log.lock()
        .unwrap()
        .push(format!("{} {range}", method.to_ascii_uppercase()));
    let file = files
        .iter()
        .find(|(name, _)| path.contains(&format!("/resolve/main/{name} ")));
    let (status, content) = match (method, file) {
        ("post", _) => ("200 OK", listing(files, sha256)),
        (_, Some((_, content))) => match range
            .strip_prefix("bytes=")
            .and_then(|range| range.split_once('-'))
        {
            Some((start, end)) => {
                let (start, end): (usize, usize) = (start.parse().unwrap(), end.parse().unwrap());
                ("206 Partial Content", content[start..=end].to_vec())
            }
            None => ("200 OK", content.clone()),
        },
        _ => ("404 Not Found", Vec::new()),
    };
    let mut stream = stream;
    let length = content.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\ncontent-length: {length}\r\netag: \"x\"\r\nconnection: close\r\n\r\n"
    )
    .unwrap();
    if method != "head" {
        // The client may have gone; that is its business.
        let _ = stream.write_all(&content);
    }
}

fn listing(files: &[(&str, Vec<u8>)], sha256: &str) -> Vec<u8> {
    let entry = |(name, content): &(&str, Vec<u8>)| {
        format!(
            r#"{{"type":"file","oid":"0","size":{0},"path":"{name}","lfs":{{"size":{0},"sha256":"{sha256}"}}}}"#,
            content.len()
        )
    };
    format!("[{}]", files.iter().map(entry).collect::<Vec<_>>().join(",")).into_bytes()
}
