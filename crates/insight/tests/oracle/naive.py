"""The statistics of a CDX file of 11 columns by dictionaries, numpy and scipy: naive.py FILE"""

import json
import sys
from collections import Counter, defaultdict

import numpy as np
from scipy import optimize, stats

captures = Counter()
months = defaultdict(Counter)
lines = size = 0
for line in open(sys.argv[1], encoding="utf-8"):
    lines += 1
    size += len(line.encode())
    key, time = line.split(" ")[:2]
    captures[key] += 1
    months[key][time[:6]] += 1

counts = np.array(sorted(captures.values(), reverse=True))


def gini(values):
    """Half of the mean absolute difference, relative to the mean."""
    return np.abs(np.subtract.outer(values, values)).mean() / values.mean() / 2


def pareto(values):
    x = np.concatenate([[0], np.arange(1, len(values) + 1) / len(values)])
    y = np.concatenate([[0], np.cumsum(values) / values.sum()])
    return optimize.brentq(lambda p: np.interp(p, x, y) + p - 1, 0, 1)


def fit(points):
    x, y = np.log(np.array(points, dtype=float)).T
    found = stats.linregress(x, y)
    return {"factor": float(np.exp(found.intercept)), "exponent": float(found.slope)}


def split(key):
    """The labels of the host, without port, and the segments of the path, without query."""
    host, path = key.split(")", 1)
    path = path.split("?")[0].strip("/")
    return host.split(":")[0].split(","), host, path.split("/") if path else []


keys = {}
for key in captures:
    labels, site, segments = split(key)
    keys[site + ")/" + "/".join(segments)] = (labels, site, segments)
total = len(keys)


def layer(name, nodes, parents, above):
    """`nodes` counts the keys below each prefix; `parents` are the prefixes above that have children."""
    sizes = np.array(list(nodes.values()))
    children = np.array(sorted(above.values(), reverse=True))
    return {"depth": name, "count": len(sizes), "sum": int(sizes.sum()), "max": int(sizes.max()),
            "mean": float(sizes.mean()), "median": float(np.median(sizes)), "deviation": float(sizes.std()),
            "redq": float((sizes.sum() - len(sizes)) / total), "parents": parents, "children": len(sizes),
            "mean_children": len(sizes) / parents,
            # All rolled up, and the largest tenth.
            "global": [float((sizes - 1).sum() / total)],
            "incremental": [float((children - 1).sum() / len(sizes))]}


def tree(prefixes, name, first):
    """`prefixes(key, depth)` is the prefix of a key at a depth, or None if it is shorter."""
    layers = []
    depth = first
    while True:
        nodes = Counter(p for parts in keys.values() if (p := prefixes(parts, depth)) is not None)
        if not nodes:
            return layers
        if depth == first:
            above = Counter(nodes) if first == 0 else Counter({None: len(nodes)})
            above = Counter({n: 1 for n in nodes}) if first == 0 else above
        else:
            above = Counter()
            for child in nodes:
                above[child[:-1]] += 1
        layers.append(layer(f"{name}{depth}", nodes, len(above), above))
        depth += 1


host_tree = tree(lambda parts, d: tuple(parts[0][:d]) if len(parts[0]) >= d else None, "H", 1)
path_tree = tree(lambda parts, d: (parts[1], *parts[2][:d]) if len(parts[2]) >= d else None, "P", 0)


def domain(labels):
    return ".".join(reversed(labels[:3 if labels[:2] == ["uk", "co"] else 2]))


def ranked(by):
    """The ten largest: by captures, then by name."""
    sums, urirs = Counter(), Counter()
    for key, n in captures.items():
        name = by(split(key)[0])
        sums[name] += n
        urirs[name] += 1
    order = sorted(sums, key=lambda name: (-sums[name], name.encode()))[:10]
    return [{"key": name, "urirs": urirs[name], "captures": sums[name]} for name in order]


years, seen, so_far = [], set(), 0
for year in sorted({month[:4] for of in months.values() for month in of}):
    here = {key for key, of in months.items() if any(month[:4] == year for month in of)}
    n = sum(count for of in months.values() for month, count in of.items() if month[:4] == year)
    old = len(here & seen)
    seen |= here
    so_far += n
    years.append({"year": int(year), "urirs": len(here), "urirs_so_far": len(seen), "captures": n,
                  "captures_so_far": so_far, "seen_before": old / len(here), "gamma": n / len(here),
                  "gamma_so_far": so_far / len(seen)})

law = lambda layers: [(at + 1, of["mean_children"]) for at, of in enumerate(layers)]
host_law, path_law = fit(law(host_tree[1:])), fit(law(path_tree[1:]))
print(json.dumps({
    "totals": {"lines": lines, "bytes": size, "captures": int(counts.sum()), "urirs": len(counts), "hxpx_keys": total,
               "hosts": len({tuple(parts[0]) for parts in keys.values()}),
               "sites": len({parts[1] for parts in keys.values()}),
               "domains": len({domain(parts[0]) for parts in keys.values()})},
    "distribution": {"max": int(counts.max()), "median": float(np.median(counts)), "mean": float(counts.mean()),
                     "deviation": float(counts.std()), "gini": float(gini(counts)), "pareto": float(pareto(counts))},
    "years": years,
    "growth": {"bytes_per_line": size / lines, "heaps": fit([(y["captures_so_far"], y["urirs_so_far"]) for y in years])},
    "laws": {"host": {"a": host_law["factor"], "k": -host_law["exponent"]},
             "path": {"a": path_law["factor"], "k": -path_law["exponent"]}},
    "tlds": ranked(lambda labels: labels[0]),
    "domains": ranked(domain),
    "hosts": ranked(lambda labels: ".".join(reversed(labels))),
    "host_tree": host_tree,
    "path_tree": path_tree,
}))
