"""Profiles by the book: one dictionary a policy, SURTs by the package surt, domains by tldextract.

Reads a list of URIs, each line a capture; prints `policy TAB key TAB captures TAB URI-Rs`, sorted by bytes."""
import sys

import tldextract
from surt import surt

suffixes = tldextract.TLDExtract(suffix_list_urls=(), fallback_to_snapshot=True, cache_dir=None)
counts = {}
for line in sys.stdin.read().split("\n"):
    if not line:
        continue
    key = surt(line)
    host, _, rest = key.partition(")")
    labels, (path, _, query) = host.split(","), rest.partition("?")
    segments = path.strip("/").split("/") if path.strip("/") else []
    keys = {"URIR": key}
    for h, p in ["10", "20", "21", "22", "30", "31", "32", "33", "40", "50", "x0", "x1", "x2", "x3", "x4", "x5", "xx"]:
        kept = segments[: None if p == "x" else int(p)]
        cut = h != "x" and len(labels) > int(h)
        keys[f"H{h}P{p}"] = ",".join(labels[: int(h)]) + ")/" if cut else host + ")/" + "/".join(kept)
    name = ".".join(reversed(host.partition(":")[0].split(",")))
    domain = suffixes(name).top_domain_under_public_suffix or name
    parameters = len(query.strip("&").split("&")) if query.strip("&") else 0
    initial = path.strip("/")[:1] if path.strip("/")[:1].isascii() and path.strip("/")[:1].isalnum() else "-"
    value = ",".join(reversed(domain.split("."))) + ")/"
    keys["DDom"] = value
    for policy, part in [("DSub", len(labels) - len(domain.split("."))), ("DPth", len(segments)), ("DQry", parameters), ("DIni", initial)]:
        value += ("" if policy == "DSub" else "/") + str(part)
        keys[policy] = value
    for name, value in keys.items():
        entry = counts.setdefault((name, value), [0, set()])
        entry[0] += 1
        entry[1].add(key)
lines = [f"{name}\t{value}\t{n}\t{len(uris)}\n".encode() for (name, value), (n, uris) in counts.items()]
sys.stdout.buffer.write(b"".join(sorted(lines)))
