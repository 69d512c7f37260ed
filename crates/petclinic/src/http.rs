//! The little of HTTP/1.1 that the application speaks: one request, one answer, connection closed.

use std::net::IpAddr;

use crate::page::{PAGE, PICTURE, PICTURE_PATH};

/// Longest request head that is read; what is longer is refused.
pub(crate) const HEAD_LIMIT: usize = 16 * 1024;

/// The part of a request that matters here.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Request {
    method: Method,
    path: String,
}

#[derive(Debug, PartialEq, Eq)]
enum Method {
    Get,
    Head,
    Other,
}

/// What the bytes read so far are.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Head {
    /// The head's end has not come yet.
    Unfinished,
    /// A whole head.
    Whole(Request),
    /// No HTTP request, or one with too long a head.
    Refused,
}

/// Reads the request line once the head is whole.
pub(crate) fn read_head(bytes: &[u8]) -> Head {
    let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
        return if bytes.len() > HEAD_LIMIT { Head::Refused } else { Head::Unfinished };
    };
    let line = bytes[..end].split(|byte| *byte == b'\r').next().unwrap_or_default();
    let Ok(line) = std::str::from_utf8(line) else { return Head::Refused };
    let mut words = line.split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Head::Refused;
    };
    if !version.starts_with("HTTP/1.") || !target.starts_with('/') {
        return Head::Refused;
    }
    let method = match method {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        _ => Method::Other,
    };
    let path = target.split(['?', '#']).next().unwrap_or_default().to_owned();
    Head::Whole(Request { method, path })
}

/// The whole answer to a request of a client; `served_by` goes into a header, so that the page is the same on every pod.
pub(crate) fn answer(request: &Request, client: IpAddr, served_by: &str) -> Vec<u8> {
    let with_body = request.method != Method::Head;
    if request.method == Method::Other {
        let extra = [("Allow", "GET, HEAD")];
        return render(
            "405 Method Not Allowed",
            "text/plain",
            &extra,
            b"only GET and HEAD\n",
            true,
        );
    }
    let extra = [("X-Served-By", served_by)];
    match request.path.as_str() {
        "/" | "/index.html" => {
            render("200 OK", "text/html; charset=utf-8", &extra, PAGE.as_bytes(), with_body)
        }
        PICTURE_PATH => render("200 OK", "image/png", &extra, PICTURE, with_body),
        "/client" => {
            let line = format!("{}\n", client.to_canonical());
            render("200 OK", "text/plain", &extra, line.as_bytes(), with_body)
        }
        "/healthz" => render("200 OK", "text/plain", &extra, b"ok\n", with_body),
        _ => render("404 Not Found", "text/plain", &extra, b"no such page\n", with_body),
    }
}

/// The answer to bytes that are no request.
pub(crate) fn bad_request() -> Vec<u8> {
    render("400 Bad Request", "text/plain", &[], b"not an HTTP/1.1 request\n", true)
}

fn render(
    status: &str,
    content_type: &str,
    extra: &[(&str, &str)],
    body: &[u8],
    with_body: bool,
) -> Vec<u8> {
    let mut head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\nConnection: close\r\n",
        body.len()
    );
    for (name, value) in extra {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    let mut answer = head.into_bytes();
    if with_body {
        answer.extend_from_slice(body);
    }
    answer
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    fn ask(text: &str) -> String {
        ask_from(Ipv4Addr::new(192, 0, 2, 7).into(), text)
    }

    fn ask_from(client: IpAddr, text: &str) -> String {
        let Head::Whole(request) = read_head(text.as_bytes()) else { panic!("no request: {text}") };
        String::from_utf8_lossy(&answer(&request, client, "pod-7")).into_owned()
    }

    #[test]
    fn a_get_of_the_root_is_answered_with_the_page() {
        let answer = ask("GET / HTTP/1.1\r\nHost: worker-1:30001\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.contains("X-Served-By: pod-7\r\n"), "{answer}");
        assert!(answer.ends_with(PAGE), "{answer}");
    }

    #[test]
    fn a_head_request_gets_the_length_and_no_body() {
        let answer = ask("HEAD /healthz HTTP/1.1\r\n\r\n");
        assert!(answer.contains("Content-Length: 3\r\n"), "{answer}");
        assert!(answer.ends_with("\r\n\r\n"), "{answer}");
    }

    #[test]
    fn a_query_does_not_change_the_page() {
        assert!(ask("GET /healthz?from=probe HTTP/1.1\r\n\r\n").ends_with("ok\n"));
    }

    #[test]
    fn a_client_is_told_its_address_as_it_knows_it() {
        let asks = "GET /client HTTP/1.1\r\n\r\n";
        let v4 = Ipv4Addr::new(192, 0, 2, 9);
        assert!(ask_from(v4.into(), asks).ends_with("\r\n\r\n192.0.2.9\n"));
        // So it comes to a port that listens on both families.
        assert!(ask_from(v4.to_ipv6_mapped().into(), asks).ends_with("\r\n\r\n192.0.2.9\n"));
        assert!(ask_from(Ipv6Addr::LOCALHOST.into(), asks).ends_with("\r\n\r\n::1\n"));
    }

    #[test]
    fn unknown_paths_and_methods_say_so() {
        assert!(ask("GET /owners HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
        let refused = ask("POST / HTTP/1.1\r\n\r\n");
        assert!(refused.starts_with("HTTP/1.1 405 "), "{refused}");
        assert!(refused.contains("Allow: GET, HEAD\r\n"), "{refused}");
    }

    #[test]
    fn a_head_that_comes_in_pieces_is_waited_for() {
        assert_eq!(read_head(b"GET / HTTP/1.1\r\nHost: a\r\n"), Head::Unfinished);
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for text in ["hello\r\n\r\n", "GET /\r\n\r\n", "GET a HTTP/1.1\r\n\r\n", "\r\n\r\n"] {
            assert_eq!(read_head(text.as_bytes()), Head::Refused, "{text:?}");
        }
        assert_eq!(read_head(&vec![b'a'; HEAD_LIMIT + 1]), Head::Refused);
    }
}
