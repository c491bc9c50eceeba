"""Servers for tests of remote inputs: a web server that answers ranges, WebHDFS, and moto's S3. All on loopback."""

import contextlib
import http.server
import json
import os
import pathlib
import threading
import urllib.parse


class Web(http.server.BaseHTTPRequestHandler):
    """Serves the files of a folder by ranges, and keeps what was asked for."""

    def do_GET(self):
        self.server.asked.append(self.headers.get("Range"))
        path = self.server.folder / urllib.parse.unquote(self.path).lstrip("/")
        if not path.is_file():
            return self.answer(404, b"")
        data = path.read_bytes()
        first, last = self.headers["Range"].removeprefix("bytes=").split("-")
        first, end = int(first), min(int(last) + 1, len(data))
        self.answer(206, data[first:end], {"Content-Range": f"bytes {first}-{end - 1}/{len(data)}"})

    def answer(self, status, body, headers={}):
        self.send_response(status)
        for name, value in {**headers, "Content-Length": len(body)}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class NameNode(Web):
    """WebHDFS: answers questions about a file, and redirects readers to a data node."""

    def do_GET(self):
        path, query = urllib.parse.urlsplit(self.path).path, dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query))
        self.server.asked.append(query)
        file = self.server.folder / urllib.parse.unquote(path).removeprefix("/webhdfs/v1/")
        if not file.is_file():
            error = {"RemoteException": {"exception": "FileNotFoundException"}}
            return self.answer(404, json.dumps(error).encode())
        if query["op"] == "GETFILESTATUS":
            status = {"length": file.stat().st_size, "modificationTime": 1, "fileId": 2, "type": "FILE", "owner": query.get("user.name", "")}
            return self.answer(200, json.dumps({"FileStatus": status}).encode())
        port = self.server.data_node.server_address[1]
        location = f"http://127.0.0.1:{port}{self.path}"
        self.answer(307, b"", {"Location": location})


class DataNode(Web):
    """WebHDFS: answers with the bytes from an offset on, without a word about ranges."""

    def do_GET(self):
        parts = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(parts.query))
        self.server.asked.append(query)
        data = (self.server.folder / urllib.parse.unquote(parts.path).removeprefix("/webhdfs/v1/")).read_bytes()
        start = int(query["offset"])
        self.answer(200, data[start : start + int(query["length"])])


@contextlib.contextmanager
def serving(folder, handler):
    """A server of a folder on a free port. Its attribute ``asked`` is what it was asked."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    server.folder, server.asked = pathlib.Path(folder), []
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextlib.contextmanager
def hdfs(folder):
    """A name node, with its data node."""
    with serving(folder, DataNode) as data_node, serving(folder, NameNode) as name_node:
        name_node.data_node = data_node
        yield name_node


#: How the S3 store is accessed.
KEYS = {"AWS_ACCESS_KEY_ID": "test-id", "AWS_SECRET_ACCESS_KEY": "test-secret", "AWS_DEFAULT_REGION": "us-east-1"}


@contextlib.contextmanager
def s3(files):
    """moto's S3 with files in the bucket ``crawl``. The environment says where it is."""
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    settings = {**KEYS, "AWS_ENDPOINT_URL": f"http://{host}:{port}"}
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        client = boto3.client("s3")
        client.create_bucket(Bucket="crawl")
        for file in files:
            client.upload_file(str(file), "crawl", f"cdx files/{pathlib.Path(file).name}")
        yield settings
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        server.stop()
