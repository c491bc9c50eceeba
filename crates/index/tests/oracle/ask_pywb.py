"""Answers CDX queries from a ZipNum index with pywb, in one process.

Usage: ask_pywb.py FOLDER < queries > answers, each line of both a JSON object. A query has the
parameters of pywb's CDX API; an answer is {"rows": ["urlkey timestamp offset", ...]}.
"""
import warnings

warnings.filterwarnings("ignore")
from gevent import monkey

monkey.patch_all()
import json
import os
import sys

from pywb.warcserver.basewarcserver import BaseWarcServer
from pywb.warcserver.handlers import DefaultResourceHandler
from pywb.warcserver.index.aggregator import SimpleAggregator
from pywb.warcserver.index.zipnum import ZipNumIndexSource
from werkzeug.test import Client

folder = sys.argv[1]
index = ZipNumIndexSource(
    os.path.join(folder, "cluster.idx"), {"loc": os.path.join(folder, "cluster.loc")}
)
app = BaseWarcServer()
app.add_route("/a", DefaultResourceHandler(SimpleAggregator({"a": index}), []))
client = Client(app)
for line in sys.stdin:
    query = json.loads(line)
    # When nothing is found pywb looks again for something similar, and forgets the filters.
    query["allowFuzzy"] = "0"
    response = client.get("/a/index", query_string=dict(query, output="json"))
    text = response.get_data(as_text=True)
    if response.status_code != 200:
        sys.exit(f"{response.status} for {line}{text}")
    rows = [json.loads(row) for row in text.splitlines()]
    keep = [f"{r['urlkey']} {r['timestamp']} {r['offset']}" for r in rows]
    print(json.dumps({"rows": keep}))
