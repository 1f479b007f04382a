//! Redirects of requests for objects: which are followed, and where to.

use std::net::TcpListener;

use super::tests::{client, refused, reply, server};

#[test]
fn the_path_of_an_endpoint_comes_before_the_bucket() {
    for endpoint in ["http://h:1/s3", "http://h:1/s3/"] {
        let session = client(endpoint).session("bucket").unwrap();
        assert_eq!(session.bucket.object_url("k").as_str(), "http://h:1/s3/bucket/k");
    }
}

/// A redirect to `place`, which ends its connection.
fn moved(place: &str) -> Vec<u8> {
    let headers = format!("Location: {place}\r\nConnection: close\r\n");
    reply("307 Temporary Redirect", &headers, b"")
}

#[test]
fn a_redirect_is_followed_to_the_same_object_and_bodies_go_there_alone() {
    let (to, stored) = (moved("/bucket/k?pid=1"), reply("200 OK", "Connection: close\r\n", b""));
    let (client, requests) = server(vec![to.clone(), stored.clone(), to, stored]);
    let mut session = client.session("bucket").unwrap();
    session.put("k", b"data").unwrap();
    session.put("k", b"data").unwrap();
    let seen = session.evidence();
    assert_eq!((seen.requests, seen.redirects, seen.retries), (4, 2, 0));
    let all: Vec<String> = requests.try_iter().collect();
    assert!(all[1].starts_with("PUT /bucket/k?pid=1 HTTP/1.1\r\n"), "{}", all[1]);
    assert!(all[1].ends_with("data") && all[3].ends_with("data") && !all[2].ends_with("data"));
    assert!(all[2].contains("\r\nExpect: 100-continue\r\n"), "{}", all[2]);
}

#[test]
fn a_redirect_to_another_object_or_scheme_is_refused_and_so_is_a_second_one() {
    let again = || moved("/bucket/a%20key?again=1");
    for replies in [
        vec![moved("https://127.0.0.1:1/bucket/a%20key")],
        vec![moved("/bucket/other")],
        vec![reply("302 Found", "Location: /bucket/a%20key\r\n", b"")],
        vec![again(), again()],
    ] {
        let (text, _, retries) = refused(replies);
        assert!(text.contains("only a 307 to the same object and scheme"), "{text}");
        assert!(!text.contains("again=1") && retries == 0, "{text}");
    }
    // A host that cannot be reached is named.
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (text, ..) = refused(vec![moved(&format!("http://{closed}/bucket/a%20key")); 6]);
    assert!(text.contains(&format!("http://{closed}: Connection refused")), "{text}");
}
