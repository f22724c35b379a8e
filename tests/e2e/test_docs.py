"""The documents are true: every command in them was executed, every file in them loads, every name exists.

How a document is read:

- ``console``: lines that begin with ``$ `` are commands, in one bash session for the whole document, with the
  real ``ql``, in an empty folder and home. The lines below a command are its output: ``…`` stands for any text, a
  line of its own for any lines; moments, durations, ids and process numbers are compared by their shape. A
  command that ends with ``&`` is a server in the background. It must succeed, unless the block says ``fails``. What
  only reads is asked again for a while: a test is quicker than a reader.
- ``console server``: one ``$ ql up …`` in a terminal of its own; the document goes on when the lines below it were
  printed. ``^C`` in a later block interrupts it; the lines below that are what it says then.
- ``console no-run``: what a test cannot run (make, systemd, package managers). ``CHECKED`` says how each of these
  commands is checked instead.
- ``sh``: a script, run by ``sh -e`` against the server that ``SERVED`` gives the document.
- ``yaml NAME.yaml``: also written to that file, for the commands that follow. Every YAML block loads as a job file,
  but for ``yaml errors``, which other tests hold against what is printed below it.
- ``ini NAME.service``: a unit file.
"""

from __future__ import annotations

import configparser
import contextlib
import io
import json
import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from qinglong.cli.main import COMMANDS, main
from qinglong.wire.jobfile import load

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*.md")])
LATER = ROOT / "docs" / "design" / "later.md"
"""The one document that may speak of commands that are not there yet."""
SERVED = {"docs/api.md": "version: 1\ntasks: {hello: {run: echo hello}}\n"}
"""Documents whose scripts need a server: its job file. They find it by ``$QL_DATA`` and at port 5800."""
READS = re.compile(r"ql (runs|show|explain|tasks)\b")
WAIT_S = 30.0


class Block(NamedTuple):
    kind: str
    info: str
    text: str
    line: int

    @property
    def commands(self) -> list[tuple[str, list[str]]]:
        """Each command of a console block with the output shown below it."""
        found: list[tuple[str, list[str]]] = []
        for line in self.text.splitlines():
            if line.startswith("$ ") or line == "^C":
                found.append((line.removeprefix("$ "), []))
            elif line.startswith("> ") and found and not found[-1][1]:
                found[-1] = (f"{found[-1][0]}\n{line[2:]}", [])
            elif line.strip():
                assert found, f"line {self.line}: output without a command"
                found[-1][1].append(line)
        return found


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def blocks(path: Path) -> list[Block]:
    text = path.read_text("utf-8")
    found = []
    for match in re.finditer(r"^```(\w+)([^\n]*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        line = text.count("\n", 0, match.start()) + 1
        found.append(Block(match[1], match[2].strip(), match[3], line))
    return found


# What a command printed, against what the document shows

SHAPES = [
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(Z|[+-]\d\d:\d\d)"), "<time>"),
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "<run>"),
    (re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{8}\b"), "<run>"),
    (re.compile(r"\b(\d+(\.\d+)? ?(ms|[dhms]))+\b"), "<lasting>"),
    (re.compile(r"\b(process|pid) \d+\b"), r"\1 <number>"),
    (re.compile(r"127\.0\.0\.1:\d+"), "<address>"),
    (re.compile(r"\s+"), " "),
]


def shape(line: str) -> str:
    for pattern, word in SHAPES:
        line = pattern.sub(word, line)
    return line.strip()


def same(shown: str, printed: str) -> bool:
    """As it stands, or by its shape."""
    plain = " ".join(shown.split()), " ".join(printed.split())
    pairs = (plain, (shape(shown), shape(printed)))
    return any(re.fullmatch(".*".join(map(re.escape, ours.split("…"))), theirs) for ours, theirs in pairs)


def matches(shown: list[str], printed: list[str]) -> bool:
    if not shown:
        return not printed
    if shown[0].strip() == "…":
        return any(matches(shown[1:], printed[skip:]) for skip in range(len(printed) + 1))
    return bool(printed) and same(shown[0], printed[0]) and matches(shown[1:], printed[1:])


def fits(shown: list[str], printed: str) -> bool:
    return not shown or matches(shown, lines(printed))


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


# A reader's terminal


class Session:
    """One bash for one document; stopped with everything that it started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.work, self.out = folder / "work", folder / "out"
        for made in (self.work, self.out, folder / "home", folder / "bin"):
            made.mkdir(parents=True)
        shutil.copytree(ROOT / "examples", self.work / "examples")
        shim = folder / "bin" / "ql"
        # Any free port: 5800 may be taken here, by another test or by somebody's server.
        shim.write_text(
            f'#!/bin/sh\n[ "$1" != up ] || {{ shift; set -- up --port 0 "$@"; }}\nexec {BIN}/ql "$@"\n'
        )
        shim.chmod(0o755)
        env = {
            "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
            "HOME": str(folder / "home"),
            "LANG": "C.UTF-8",
            "TZ": "Europe/Berlin",
        }
        self.bash = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            cwd=self.work,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.count = 0
        self.server = 0
        self.server_log = Path()
        self.server_seen = 0

    def send(self, command: str, *, background: bool = False) -> tuple[int, str, int]:
        """Exit code, output, and the process that went to the background last."""
        self.count += 1
        out = self.out / f"{self.count}.txt"
        out.touch()
        mark, to = f"done-{self.count}", f"</dev/null >{shlex.quote(str(out))} 2>&1"
        group = f"{command} {to} &" if background else f"{{ {command}\n}} {to}"
        script = f'{group}\nprintf \'{mark} %s %s\\n\' "$?" "$!"\n'
        assert self.bash.stdin is not None
        self.bash.stdin.write(script.encode())
        self.bash.stdin.flush()
        words = self._line(command).split()
        assert words[0] == mark, words
        return int(words[1]), out.read_text("utf-8", "replace"), int(words[2]) if len(words) > 2 else 0

    def _line(self, command: str) -> str:
        assert self.bash.stdout is not None
        raw, until = b"", time.monotonic() + WAIT_S
        while not raw.endswith(b"\n"):
            left = until - time.monotonic()
            ready, _, _ = select.select([self.bash.stdout], [], [], max(left, 0))
            assert ready, f"still running after {WAIT_S:g} s: {command}"
            byte = os.read(self.bash.stdout.fileno(), 1)
            assert byte, f"the shell ended in: {command}"
            raw += byte
        return raw.decode()

    def until(self, what: Callable[[], bool], why: Callable[[], str]) -> None:
        until = time.monotonic() + WAIT_S
        while not what():
            assert time.monotonic() < until, why()
            time.sleep(0.02)

    def address(self, pid: int = 0) -> str:
        """Of the server with that pid, or of any; empty if it does not serve (yet)."""
        for found in self.folder.rglob("api.json"):
            with contextlib.suppress(OSError, ValueError):
                api = json.loads(found.read_text())
                if (pid in {0, api["pid"]}) and Path(f"/proc/{api['pid']}").exists():
                    return str(api["url"])
        return ""

    def serves(self, pid: int, log: Path) -> None:
        self.until(
            lambda: bool(self.address(pid)) or not Path(f"/proc/{pid}").exists(),
            lambda: f"no server after {WAIT_S:g} s: {log.read_text()}",
        )
        assert self.address(pid), log.read_text()

    def start(self, command: str, shown: list[str]) -> None:
        """A server in a terminal of its own."""
        _, _, self.server = self.send(command, background=True)
        self.server_log, self.server_seen = self.out / f"{self.count}.txt", 0
        self.serves(self.server, self.server_log)
        self.says(shown)

    def says(self, shown: list[str]) -> None:
        if not shown:
            return

        def printed() -> list[str]:
            return lines(self.server_log.read_text("utf-8")[self.server_seen :])

        self.until(
            lambda: any(matches(shown, printed()[:end]) for end in range(len(printed()) + 1)),
            lambda: "shown:\n" + "\n".join(shown) + "\nprinted:\n" + "\n".join(printed()),
        )

    def interrupt(self, shown: list[str]) -> None:
        self.server_seen = len(self.server_log.read_text("utf-8"))
        os.kill(self.server, signal.SIGINT)
        self.until(lambda: not self.address(self.server), lambda: "the server does not stop")
        self.says(shown)

    def close(self) -> None:
        """End every process that works in this folder: the shell, its servers, their keepers and jobs."""
        until = time.monotonic() + WAIT_S
        while pids := list(self._inhabitants()):
            assert time.monotonic() < until, pids
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.bash.wait(0.05)
        for pipe in (self.bash.stdin, self.bash.stdout):
            assert pipe is not None
            pipe.close()

    def _inhabitants(self) -> Iterator[int]:
        for proc in Path("/proc").iterdir():
            if proc.name.isdigit() and int(proc.name) != os.getpid():
                with contextlib.suppress(OSError):
                    if os.readlink(proc / "cwd").startswith(f"{self.folder}/"):
                        yield int(proc.name)


@pytest.fixture
def session(tmp_path):
    made = Session(tmp_path / "reader")
    yield made
    made.close()


def console(session: Session, block: Block) -> None:
    for command, shown in block.commands:
        if command == "^C":
            session.interrupt(shown)
        elif block.info == "server":
            session.start(command, shown)
        else:
            code, printed, background = session.send(command)
            if command.rstrip().endswith("&"):
                session.serves(background, session.out / f"{session.count}.txt")
            until = time.monotonic() + WAIT_S
            while READS.match(command) and not fits(shown, printed) and time.monotonic() < until:
                code, printed, _ = session.send(command)
            where = f"line {block.line}: $ {command}\n"
            assert (code != 0) == (block.info == "fails"), f"{where}ended with {code}\n{printed}"
            if not fits(shown, printed):
                pytest.fail(where + "\n".join([*shown, "--- but it printed", printed]))


def script(session: Session, block: Block) -> None:
    text = block.text.replace("http://127.0.0.1:5800", session.address())
    code, printed, _ = session.send(f"sh -e <<'END-OF-BLOCK'\n{text}END-OF-BLOCK")
    assert code == 0, f"line {block.line}: {printed}"
    assert '"exit_code":' not in printed or '"code":' not in printed, f"line {block.line}: {printed}"


RUN = [
    path
    for path in DOCUMENTS
    if any(b.kind in {"console", "sh"} and b.info != "no-run" for b in blocks(path))
]


@pytest.mark.parametrize("path", RUN, ids=name)
def test_every_command_does_what_the_document_shows(path, session):
    if name(path) in SERVED:
        (session.work / "served.yaml").write_text(SERVED[name(path)])
        session.send('export QL_DATA="$PWD/served"')
        session.start("ql up served.yaml", [])
    for block in blocks(path):
        if block.kind == "yaml" and block.info.endswith(".yaml"):
            (session.work / block.info).write_text(block.text)
        elif block.kind == "console" and block.info in {"", "fails", "server"}:
            console(session, block)
        elif block.kind == "sh":
            script(session, block)
        else:
            assert block.kind != "console" or block.info == "no-run", (
                f"line {block.line}: console {block.info}"
            )


# What cannot be run


def check_make(words: list[str]) -> None:
    done = subprocess.run(["make", "-n", *words[1:2]], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def check_file(words: list[str]) -> None:
    assert (ROOT / words[1]).exists(), words


def check_ql(words: list[str]) -> None:
    """The command and its options exist: help is given after the whole line was parsed."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
        assert main([*words[1:], "--help"]) == 0, said.getvalue()


def check_install(words: list[str]) -> None:
    """From a checkout, or of the wheel that this version builds; the next test builds one."""
    assert words[-1] in {".", "--upgrade"} or words[-1].endswith(wheel_name()), words


def check_system(words: list[str]) -> None:
    """Programs of the system, whose arguments are its own affair."""


CHECKED: list[tuple[str, Callable[[list[str]], None]]] = [
    (r"make [a-z]+", check_make),
    (r"\.venv/bin/(pytest|python) ", check_file),
    (r"(\S*/)?ql ", check_ql),
    (r"(\S*/)?pip(x)? (install|upgrade|wheel) ", check_install),
    (r"python3 -m (venv|pip wheel) ", check_system),
    (r"systemctl (daemon-reload|enable --now|restart|stop|status)( qinglong)?$", check_system),
    (r"journalctl -u qinglong\b", check_system),
    (r"(apt install|adduser|install|cp|echo) ", check_system),
]


def wheel_name() -> str:
    version = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version is not None
    return f"qinglong-{version[1]}-py3-none-any.whl"


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_what_cannot_be_run_is_checked_in_another_way(path):
    for block in blocks(path):
        for command, _ in block.commands if (block.kind, block.info) == ("console", "no-run") else []:
            bare = re.sub(r"^sudo (-u \w+ )?", "", command)
            ways = [check for pattern, check in CHECKED if re.match(pattern, bare)]
            assert ways, f"line {block.line}: nothing says how {command!r} is checked"
            ways[0](shlex.split(bare, comments=True))


def test_the_wheel_holds_everything_and_names_the_command(tmp_path):
    words = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(tmp_path),
        ".",
    ]
    subprocess.run(words, cwd=ROOT, check=True, capture_output=True, timeout=60)
    with zipfile.ZipFile(tmp_path / wheel_name()) as wheel:
        held = set(wheel.namelist())
        entry = next(member for member in held if member.endswith("entry_points.txt"))
        assert "ql = qinglong.cli.main:main" in wheel.read(entry).decode()
    sources = {name(path).removeprefix("src/") for path in (ROOT / "src" / "qinglong").rglob("*")}
    assert {path for path in sources if path.endswith((".py", ".sh", ".sql"))} <= held


UNITS = [(path, block) for path in DOCUMENTS for block in blocks(path) if block.kind == "ini"]


@pytest.mark.parametrize(("path", "block"), UNITS, ids=[block.info for _, block in UNITS])
def test_the_unit_leaves_jobs_alone_and_its_command_is_lawful(path, block, tmp_path):
    unit = configparser.ConfigParser(interpolation=None, strict=True)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(block.text)
    service = unit["Service"]
    assert service["KillMode"] == "process"
    words = shlex.split(service["ExecStart"])
    (tmp_path / "jobs.yaml").write_text("version: 1\ntasks: {}\n")
    check_ql([word if not word.endswith(".yaml") else str(tmp_path / "jobs.yaml") for word in words])
    if analyse := shutil.which("systemd-analyze"):
        text = block.text.replace(words[0], "/bin/true").replace("User=qinglong\n", "")
        (tmp_path / block.info).write_text(text)
        done = subprocess.run(
            [analyse, "verify", "--man=no", str(tmp_path / block.info)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert block.info not in done.stderr, done.stderr


# What the documents say


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_every_yaml_block_is_a_job_file_that_loads(path):
    for block in blocks(path):
        if block.kind == "yaml" and block.info != "errors":
            _, problems = load(block.text, path=f"{name(path)}:{block.line}", machine_zone="UTC")
            assert not problems, [str(problem) for problem in problems]


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_every_link_leads_somewhere(path):
    text = re.sub(r"^```.*?^```$", "", path.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        file, _, anchor = target.partition("#")
        there = (path.parent / file).resolve() if file else path
        assert there.exists(), f"{target} does not exist"
        if anchor and there.suffix == ".md":
            headings = re.findall(r"^#+ (.+)$", there.read_text("utf-8"), re.MULTILINE)
            slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
            assert anchor in slugs, f"{target}: no such heading"


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_every_named_command_test_and_file_exists(path):
    text = path.read_text("utf-8")
    if path != LATER:
        for command in re.findall(r"`ql ([a-z]+)[^`]*`", text):
            assert command in COMMANDS, f"there is no `ql {command}`"
    for file, test in re.findall(r"(?<![\w/])(tests/[\w/]+\.py)(?:::(\w+))?", text):
        assert (ROOT / file).exists(), f"{file} does not exist"
        assert not test or f"def {test}(" in (ROOT / file).read_text("utf-8"), f"{file} has no {test}"
    for file in re.findall(r"`((?:src|docs|bench|examples)/[\w/.-]+\.\w+)`", text):
        generated = file.startswith("bench/out/")
        assert generated or (ROOT / file).exists(), f"{file} does not exist"
    for file in re.findall(r"`((?:domain|control|worker|ledger|wire|api|cli|profiles)/[\w/.-]+\.\w+)`", text):
        assert path == LATER or (ROOT / "src" / "qinglong" / file).exists(), f"{file} does not exist"


def test_generated_documents_are_current():
    done = subprocess.run(
        [sys.executable, "docs/generate.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_demo_shows_a_job_within_seconds(session):
    plan = subprocess.run(["make", "-n", "demo"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    command = re.search(r"^\S*/ql (up .+)$", plan, re.MULTILINE)
    assert command is not None, plan
    began = time.monotonic()
    session.start(f"ql {command[1]}", ["• ql is up…", "…", "✓ … succeeded …"])
    session.says(["• ql is up…", "…", "hello …", "✓ hello succeeded …"])
    assert time.monotonic() - began < 20
    code, printed, _ = session.send("ql --data .demo runs")
    assert code == 0
    assert "hello" in printed
