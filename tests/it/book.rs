//! Checks the documentation: each link leads to a file and a heading that exist, and each page is in
//! the book. Reads files only.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs")
}

/// The pages in a folder and the folders below it.
fn pages_in(folder: &Path) -> Vec<PathBuf> {
    let mut pages = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            pages.extend(pages_in(&path));
        } else if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    }
    pages.sort();
    pages
}

/// The lines of a page without its code blocks.
fn prose(page: &Path) -> Vec<String> {
    let text = fs::read_to_string(page).unwrap();
    let mut lines = Vec::new();
    let mut is_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            lines.push(line.to_owned());
        }
    }
    lines
}

fn links(page: &Path) -> Vec<String> {
    let mut links = Vec::new();
    for line in prose(page) {
        for rest in line.split("](").skip(1) {
            if let Some((target, _)) = rest.split_once(')') {
                links.push(target.to_owned());
            }
        }
    }
    links
}

/// The anchors of a page's headings, as GitHub and mdBook make them.
fn anchors(page: &Path) -> BTreeSet<String> {
    let is_kept = |letter: &char| letter.is_alphanumeric() || ['-', '_', ' '].contains(letter);
    prose(page)
        .iter()
        .filter(|line| line.starts_with('#'))
        .map(|line| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            title.chars().filter(is_kept).collect::<String>()
        })
        .map(|title| title.replace(' ', "-"))
        .collect()
}

#[test]
fn links_lead_to_what_exists() {
    let docs = docs().canonicalize().unwrap();
    let mut pages = pages_in(&docs);
    assert!(pages.len() > 20, "{pages:?}");
    pages.push(docs.parent().unwrap().join("README.md"));
    let mut faults = Vec::new();
    for page in &pages {
        for link in links(page) {
            if link.contains(':') {
                continue;
            }
            let (path, anchor) = link.split_once('#').unwrap_or((link.as_str(), ""));
            let target = if path.is_empty() {
                page.clone()
            } else {
                page.parent().unwrap().join(path)
            };
            let fault = match target.canonicalize() {
                Err(_) => "is not there",
                Ok(target) if page.starts_with(&docs) && !target.starts_with(&docs) => {
                    "leaves docs/, and so the book"
                }
                Ok(target) if !anchor.is_empty() && !anchors(&target).contains(anchor) => {
                    "has no such heading"
                }
                Ok(_) => continue,
            };
            faults.push(format!("{}: `{link}` {fault}", page.display()));
        }
    }
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn every_page_is_in_the_book() {
    let docs = docs();
    let summary = docs.join("SUMMARY.md");
    let named: BTreeSet<PathBuf> = links(&summary).iter().map(|link| docs.join(link)).collect();
    let mut left_out = pages_in(&docs);
    left_out.retain(|page| *page != summary && !named.contains(page));
    assert!(
        left_out.is_empty(),
        "docs/SUMMARY.md leaves out {left_out:?}"
    );
}
