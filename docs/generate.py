"""Writes what the documents take from the code: limits, defaults, and the figures in the README.

``python docs/generate.py`` writes ``docs/limits.md`` and ``docs/defaults.md``. With ``--check`` it writes nothing and
fails if one of them is not as the code says. With ``--bench`` it writes the figures of the last whole bench
(``bench/out/standalone.json``), with machine and date, into ``README.md``.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from qinglong import limits
from qinglong.api.token import NAME as TOKEN
from qinglong.cli.up import command as up
from qinglong.control.deps import EDGE, STANDALONE
from qinglong.domain.definitions import Backoff, Missed, OnLeaseLoss, Overlap, Retry, Stop
from qinglong.domain.durations import format_ms
from qinglong.profiles.node import PROFILES

ROOT = Path(__file__).parent.parent
BEGIN, END = "<!-- bench -->", "<!-- /bench -->"
_MADE = "<!-- made by docs/generate.py; do not edit -->"


_TEXTS = {
    "TRIGGERS_PER_TASK": "Triggers of one task.",
    "LABELS_PER_TASK": "Labels of one task.",
    "ENV_PER_TASK": "Variables of one task.",
    "REASON_BYTES": "Longest reason that a person may give.",
    "LEASE_MS": "Life of a Lease from one accepted report or renewal to the next.",
    "RENEW_MS": "How often a worker renews the Leases it holds.",
    "SESSION_MS": "Life of a Session from one pull to the next.",
    "CLAIMS_PER_SYNC": "Offers in one reply to a worker.",
    "REPORTS_PER_SYNC": "Reports in one request of a worker.",
    "REPORT_BYTES": "What is kept of a refused report.",
    "MAX_ATTEMPTS": "Largest `retry.max_attempts`.",
    "BACKOFF_FLOOR_MS": "Shortest pause before another Attempt.",
    "BACKOFF_MAX_MS": "Longest pause before another Attempt.",
    "RETURNS_MAX": "Deliveries of one Run that came back unstarted, after which it is shown as undeliverable.",
    "LATE_EVIDENCE_PER_ATTEMPT": "Refused reports that are kept of one Attempt.",
    "STOP_GRACE_MS": "Time from the stop signal to the kill, unless the task says otherwise.",
    "GRACE_MAX_MS": "Longest `stop.grace`.",
    "LOG_CAP_BYTES": "What is kept of an Attempt's output, half of it from the head and half from the tail.",
    "LOG_CAP_EDGE_BYTES": "The same in the profile `edge`.",
    "LIST_PAGE": "Runs on a page that names no size.",
    "LIST_CAP": "Largest page of Runs.",
    "EVENTS_PAGE": "Events of one Run in one answer.",
}
"""Meanings of constants that have no text below them, or one for readers of the code."""


class Limit(NamedTuple):
    """One constant of ``limits.py``."""

    section: str
    name: str
    value: int
    text: str


def main() -> int:
    """Write, or compare."""
    documents = {"limits.md": limits_page(), "defaults.md": defaults_page()}
    if sys.argv[1:] == ["--check"]:
        stale = [name for name, text in documents.items() if _read(ROOT / "docs" / name) != text]
        if stale:
            print(f"not as the code says: {', '.join(stale)}; run python docs/generate.py", file=sys.stderr)
        return 1 if stale else 0
    if sys.argv[1:] == ["--bench"]:
        readme = ROOT / "README.md"
        before, rest = readme.read_text("utf-8").split(BEGIN)
        readme.write_text(f"{before}{BEGIN}\n{figures_block()}{END}{rest.split(END)[1]}", "utf-8")
        return 0
    for name, text in documents.items():
        (ROOT / "docs" / name).write_text(text, "utf-8")
    return 0


def _read(path: Path) -> str:
    return path.read_text("utf-8") if path.exists() else ""


# docs/limits.md


def limits_page() -> str:
    """A table for each section of ``limits.py``."""
    out = [
        "# Limits",
        "",
        _MADE,
        "",
        "Every loop, page, payload, queue and retry has a bound ([I10](promises.md)). These are the bounds that the",
        "program uses, as they stand in `src/qinglong/limits.py`. They are not settings.",
    ]
    section = ""
    for limit in found_limits():
        if limit.section != section:
            section = limit.section
            out += ["", f"## {section}", "", "| name | value | meaning |", "|---|---|---|"]
        out.append(f"| `{limit.name}` | {shown(limit.name, limit.value)} | {limit.text} |")
    return "\n".join(out) + "\n"


def found_limits() -> Iterator[Limit]:
    """The constants in their order, with the comment that heads their section and the text below each."""
    source = Path(limits.__file__).read_text("utf-8")
    used = _used()
    headings = {
        number: line.removeprefix("# ")
        for number, line in enumerate(source.splitlines(), start=1)
        if line.startswith("# ")
    }
    body = ast.parse(source).body
    for index, node in enumerate(body):
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        section = next(
            (text for line, text in sorted(headings.items(), reverse=True) if line < node.lineno), ""
        )
        if section and node.target.id in used:
            after = body[index + 1] if index + 1 < len(body) else None
            name = node.target.id
            yield Limit(section, name, getattr(limits, name), _TEXTS.get(name) or _below(after))


def _used() -> set[str]:
    """Every word of the program but those of ``limits.py`` itself: a bound that nothing reads is none."""
    files = (path for path in (ROOT / "src").rglob("*.py") if path != Path(limits.__file__))
    return {word for path in files for word in re.findall(r"[A-Z_]{4,}", path.read_text("utf-8"))}


def _below(node: ast.stmt | None) -> str:
    """The string that stands below a constant and documents it, as Markdown."""
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Constant):
        return ""
    return " ".join(str(node.value.value).replace("``", "`").split())


def shown(name: str, value: int) -> str:
    """The value in the unit that its name says."""
    if name.endswith("_MS"):
        return format_ms(value)
    if name.endswith("_BYTES"):
        unit, size = ("MiB", limits.MIB) if value % limits.MIB == 0 else ("KiB", limits.KIB)
        return f"{value // size:,} {unit}"
    return f"{value:,} characters" if name.endswith("_CHARS") else f"{value:,}"


# docs/defaults.md


def defaults_page() -> str:
    """What holds when nothing is said, from the code that uses it."""
    options = {option.name: option.default for option in up.params}
    backoff, stop = Backoff(), Stop()
    task = [
        ("`overlap`", Overlap().kind),
        ("`missed`", Missed().kind),
        ("`timeout`, `start_within`, `deadline`", "none"),
        ("`safety`", "not declared: a lost Run is not run again"),
        ("`retry.max_attempts`", f"{Retry().max_attempts}, so nothing is retried"),
        ("`retry.when`", ", ".join(Retry().when)),
        (
            "`retry.backoff`",
            f"{format_ms(backoff.initial_ms)}, times {backoff.factor:g}, at most {format_ms(backoff.max_ms)}",
        ),
        ("`stop`", f"{stop.signal}, then {format_ms(stop.grace_ms)} until it is killed"),
        ("`on_lease_loss`", OnLeaseLoss().kind),
        ("`cwd`", "the job file's folder"),
        ("`user`", "the account that runs `ql up`"),
    ]
    server = [
        ("address of the API", f"{options['host']}:{options['port']} (`--host`, `--port`)"),
        ("profile", f"{options['profile']} (`--profile`)"),
        ("wait for running jobs when stopping", f"{options['drain']} (`--drain`)"),
        ("data folder", "`$QL_DATA`, else `~/.local/share/qinglong` (`--data`)"),
        ("token", f"`{TOKEN}` in the data folder, made at the first start"),
        ("time zone of schedules that name none", "the machine's at the first start; stored then"),
        ("lease", f"{format_ms(limits.LEASE_MS)}, renewed every {format_ms(limits.RENEW_MS)}"),
    ]
    profiles: list[tuple[str, Any, Any]] = [
        (
            "longest pause between a due moment that a clock step hid and its cycle",
            *_both("cadence_ms", format_ms),
        ),
        ("recover and retry page", *_both("recover_page")),
        ("trigger page", *_both("trigger_page")),
        ("Runs at once (`--slots`)", *_both("local_runs")),
        (
            "log cap of an Attempt",
            *(shown("_BYTES", PROFILES[name].log_cap_bytes) for name in ("edge", "standalone")),
        ),
    ]
    return "\n".join(
        [
            "# Defaults",
            "",
            _MADE,
            "",
            "What holds when nothing is said, taken from the code that uses it. Fields: [job-file.md](job-file.md);",
            "options: [cli.md](cli.md).",
            "",
            "## A task",
            "",
            *_table(("field", "default"), task),
            "",
            "## The server",
            "",
            *_table(("what", "default"), server),
            "",
            "## The profiles",
            "",
            *_table(("what", "edge", "standalone"), profiles),
            "",
            "Bounds that nothing changes are in [limits.md](limits.md).",
            "",
        ]
    )


def _both(name: str, show: Any = str) -> tuple[str, str]:
    return show(getattr(EDGE, name)), show(getattr(STANDALONE, name))


def _table(head: tuple[str, ...], rows: list[Any]) -> list[str]:
    return [f"| {' | '.join(map(str, row))} |" for row in (head, ("---",) * len(head), *rows)]


# The figures in README.md


def figures_block() -> str:
    """The figures of the last whole bench, on which machine and when."""
    stored = ROOT / "bench" / "out" / "standalone.json"
    if not stored.exists():
        raise SystemExit(f"{stored} does not exist: run make bench")
    sys.path.insert(0, str(ROOT))
    from bench.figures import FIGURES

    values = json.loads(stored.read_text("utf-8"))
    head = [line for line in _read(stored.with_suffix(".txt")).splitlines()[:3] if line.strip()]
    facts = dict(re.split(r"\s+", line, maxsplit=1) for line in head)
    date = facts.get("date", "").partition(",")[0]
    rows = [
        (figure.text, f"{values[figure.key]:,.4g} {figure.unit}".strip(), figure.goal)
        for figure in FIGURES
        if figure.key in values
    ]
    return "\n".join(
        [
            f"Measured by `make bench` at {date} on {facts.get('machine', '')}; {facts.get('versions', '')}.",
            "",
            *_table(("what", "measured", "aimed at"), rows),
            "",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
