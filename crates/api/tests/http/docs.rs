//! `/docs` and `/openapi.json`: public, and cheap to ask for.

use hyper::header;

use crate::service::Setup;

on_both_stores! {
    who_has_the_text_gets_a_304,
    the_page_allows_one_script_by_its_hash,
}

const PATHS: [&str; 3] = ["/docs", "/docs/style.css", "/openapi.json"];

async fn who_has_the_text_gets_a_304(setup: Setup) {
    let service = setup.start().await;
    for path in PATHS {
        let first = service.ask("GET", path).send().await;
        assert_eq!(first.status, 200, "{path}");
        let tag = first.header("etag").expect("a tag").to_owned();
        let again = service.ask("GET", path).header("if-none-match", &tag).send().await;
        assert_eq!((again.status, again.text.as_str()), (304, ""), "{path}");
        assert_eq!(again.header("etag"), Some(tag.as_str()), "{path}");
        // The body is checked where it is made; this client reads text.
        let small = service.ask("HEAD", path).header("accept-encoding", "gzip").send().await;
        assert_eq!(small.header(header::CONTENT_ENCODING.as_str()), Some("gzip"), "{path}");
        let length = |answer: &crate::answer::Answer| -> usize {
            answer.header("content-length").expect("a length").parse().expect("a number")
        };
        assert!(length(&small) * 2 < length(&first), "{path}");
    }
}

async fn the_page_allows_one_script_by_its_hash(setup: Setup) {
    let answer = setup.start().await.ask("GET", "/docs").send().await;
    let policy = answer.header("content-security-policy").expect("a policy");
    assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
}
