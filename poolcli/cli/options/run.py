"""Options of the run: where it computes, and what it reports."""

from __future__ import annotations

from poolcli.cli.options.option import Option

RUN = {
    "preview": Option(
        "--preview",
        "Show input and output side by side; .png: into that file; text: into a pipe, too.",
        "FILE",
        example="seen.png",
        path="any",
        alone="terminal",
        value=r"terminal|text|.+\.(png|apng|jpe?g|svg|html|gif|webp|tiff?|bmp)",
    ),
    "engine": Option(
        "--engine",
        "auto (default), numba or numpy; the results are the same.",
        "NAME",
        words=("auto", "numba", "numpy"),
    ),
    "threads": Option("--threads", "At most N threads. Default: the cores this process may use.", "N", example="2"),
    "jobs": Option("--jobs", "Files worked on at once. Default: as many as cores.", "N", example="2"),
    "cluster": Option(
        "--cluster",
        "Run on a Dask cluster: local, local:4, tcp://HOST:PORT, tls://HOST:PORT, a scheduler file, or dask.",
        "WHERE",
        example="local:2",
    ),
    "shard": Option(
        "--shard", "Do one of N parts of the inputs, as 1/8; `merge` sums up when all are done.", "I/N", example="1/8"
    ),
    "max_memory": Option(
        "--max-memory",
        "Memory that may be used, such as 2G. Default: half of what is free. Larger .npy and .h5 are pooled in parts.",
        "SIZE",
        example="2G",
    ),
    "fail_fast": Option("--fail-fast", "Stop at the first file that fails."),
    "dry_run": Option("-n --dry-run", "Plan and report; read only headers, write nothing."),
    "json": Option("--json", "Report as JSON: one document, or one line for each of several inputs."),
    "quiet": Option("-q --quiet", "No report, no notes; errors only."),
    "verbose": Option("-v --verbose", "One report for each of several inputs."),
    "debug": Option("--debug", "Show the traceback of an error."),
}
