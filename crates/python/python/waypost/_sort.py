"""The steps of :func:`waypost.spark.sort_index`.

Every step writes files in a shared folder under names that depend only on its number, and renames them
when they are complete: a task that runs twice, or is killed and repeated, gives the same files.
"""

import os
import tempfile

from . import _commands

#: Samples per partition: with 1,000, partitions differ by a few per cent.
SAMPLES = 1000
#: The most bytes of a line that a sample has: the driver has all samples in memory.
LONGEST = 200


def run_of(folder, number):
    """The sorted lines of the input file with this number."""
    return os.path.join(folder, f"run-{number:06}")


def samples_per_file(files, partitions):
    """How many lines of each file to sample.

    >>> samples_per_file(2, 8), samples_per_file(100_000, 800)
    (4000, 16)
    """
    return max(16, SAMPLES * partitions // files)


def sort(folder, number, path, samples):
    """Sort a file. Returns its size, and the start of some of its lines."""
    run = run_of(folder, number)
    with _private(folder) as own:
        _command("index", "sort", "-o", os.path.join(own, "sorted"), "--", path)
        os.rename(os.path.join(own, "sorted"), run)
    found = []
    with open(run, "rb") as file:
        size = os.path.getsize(run)
        for step in range(samples):
            line = _line_at(file, size * step // samples)
            if line is None:
                break
            found.append(line[:LONGEST])
    return size, found


def split_points(sampled, partitions):
    """Lines at which to split all files into partitions of about the same size.

    >>> split_points([(300, [b"a", b"c", b"e"]), (100, [b"f"])], 2)
    [b'e']
    """
    # A sample of a large file stands for more bytes than one of a small file.
    weighted = sorted((sample, size / len(samples)) for size, samples in sampled for sample in samples)
    total = sum(weight for _, weight in weighted)
    splits, before, partition = [], 0, 0
    for sample, weight in weighted:
        number = int(before * partitions / total)
        if number > partition and (not splits or sample > splits[-1]):
            splits.append(sample)
            partition = number
        before += weight
    return splits


def merge(folder, number, runs, low, high, unique):
    """Merge the lines of all sorted files from ``low`` to below ``high``. Returns the file and its lines."""
    part = os.path.join(folder, f"part-{number:06}")
    with _private(folder) as own:
        sections = []
        for run in range(runs):
            with open(run_of(folder, run), "rb") as file:
                start = _offset(file, low) if low else 0
                end = os.fstat(file.fileno()).st_size if high is None else _offset(file, high)
                if start < end:
                    sections.append(os.path.join(own, f"{len(sections)}.cdxj"))
                    _copy(file, start, end, sections[-1])
        merged = os.path.join(own, "merged")
        if sections:
            options = ["--unique"] if unique else []
            _command("index", "merge", *options, "-o", merged, "--", *sections)
        else:
            open(merged, "wb").close()
        os.rename(merged, part)
    return part, _count(part)


def shard_lines(parts, lines, shards):
    """The first and the last line of each shard: whole blocks, as many in each as possible."""
    total = sum(count for _, count in parts)
    blocks = -(-total // lines)
    shards = max(1, min(shards, blocks))
    borders = [min(total, lines * (blocks * shard // shards)) for shard in range(shards + 1)]
    return list(zip(borders, borders[1:]))


def shard(folder, number, parts, start, end, lines, level):
    """Write lines ``start`` to ``end`` as a ZipNum index with one data file. Returns its folder."""
    made = os.path.join(folder, f"shard-{number:06}")
    if os.path.exists(made):
        return made
    with _private(folder) as own:
        text = os.path.join(own, "lines.cdxj")
        with open(text, "wb") as out:
            first = 0
            for path, count in parts:
                low, high = max(start - first, 0), min(end - first, count)
                if low < high:
                    with open(path, "rb") as file:
                        _append(file, _line_offset(file, low), _line_offset(file, high), out)
                first += count
        zipnum = os.path.join(own, "zipnum")
        _command("index", "zipnum", text, "-o", zipnum, "--lines", str(lines), "--level", str(level))
        try:
            os.rename(zipnum, made)
        except OSError:
            # Another attempt of this task was faster.
            if not os.path.exists(made):
                raise
    return made


def assemble(folder, shards, output):
    """Join the shards to one index: their data files, and the rows of all with new names and numbers."""
    whole = os.path.join(folder, "whole")
    os.mkdir(whole)
    number, last = 0, b""
    with open(os.path.join(whole, "cluster.idx"), "wb") as idx, open(
        os.path.join(whole, "cluster.loc"), "wb"
    ) as loc:
        for at, shard in enumerate(shards):
            name = b"cdx-%05d.gz" % at
            os.rename(os.path.join(shard, "cdx-00000.gz"), os.path.join(whole, name.decode()))
            with open(os.path.join(shard, "cluster.idx"), "rb") as rows:
                for row in rows:
                    key, _, offset, length, _ = row.rstrip(b"\n").split(b"\t")
                    # Rows are sorted, even where the keys of lines are not.
                    last = max(last, key)
                    number += 1
                    idx.write(b"\t".join([last, name, offset, length, b"%d" % number]) + b"\n")
            loc.write(name + b"\t" + name + b"\n")
        for file in (idx, loc):
            file.flush()
            os.fsync(file.fileno())
    if os.path.isdir(output):
        os.rmdir(output)
    os.rename(whole, output)


def _command(*words):
    ok, _, messages = _commands.call(words, False)
    if not ok:
        raise ValueError("; ".join(messages) or f"`waypost {words[0]} {words[1]}` failed")


class _private(tempfile.TemporaryDirectory):
    """A folder that only this attempt of a task uses."""

    def __init__(self, folder):
        super().__init__(prefix="attempt-", dir=folder)


def _line_at(file, start):
    """The first line that starts at ``start`` or later."""
    if start:
        file.seek(start - 1)
        file.readline()
    else:
        file.seek(0)
    line = file.readline()
    return line.rstrip(b"\n") if line else None


def _offset(file, line):
    """Where the first line that is not smaller than ``line`` starts, in a sorted file."""
    low, high = 0, os.fstat(file.fileno()).st_size
    while low < high:
        middle = (low + high) // 2
        found = _line_at(file, middle)
        if found is not None and found < line:
            low = file.tell()
        else:
            high = middle
    return low


def _copy(file, start, end, path):
    with open(path, "wb") as out:
        _append(file, start, end, out)


def _append(file, start, end, out):
    file.seek(start)
    left = end - start
    while left:
        some = file.read(min(left, 1 << 20))
        if not some:
            raise EOFError(f"{file.name} is shorter than it was")
        out.write(some)
        left -= len(some)


def _count(path):
    with open(path, "rb") as file:
        return sum(some.count(b"\n") for some in iter(lambda: file.read(1 << 20), b""))


def _line_offset(file, number):
    """Where the line with this number starts."""
    file.seek(0)
    at = 0
    while number:
        some = file.read(1 << 20)
        if not some:
            break
        count = some.count(b"\n")
        if count < number:
            number -= count
            at += len(some)
            continue
        end = -1
        for _ in range(number):
            end = some.index(b"\n", end + 1)
        return at + end + 1
    return at
