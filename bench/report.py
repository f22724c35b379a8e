"""What is said while measuring, and what is left afterwards."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from bench.figures import BY_KEY, FIGURES
from bench.machine import describe
from bench.measure import load


class Out:
    """Collects figures and notes; says each at once."""

    def __init__(self, only: frozenset[str] = frozenset(), *, silent: bool = False) -> None:
        self._only = only
        self._silent = silent
        self.values: dict[str, float] = {}
        self.loads: dict[str, float] = {}
        self.notes: list[tuple[str, str]] = []

    def wanted(self, *keys: str) -> bool:
        """Whether any of these figures was asked for."""
        return not self._only or any(key in self._only for key in keys)

    def figure(self, key: str, value: float) -> None:
        """A figure is known."""
        figure = BY_KEY[key]
        self.values[key] = round(value, 3)
        self.loads[key] = load()
        verdict = "ok" if figure.met(value) else "MISSED"
        self.say(
            f"{key:28} {value:>12,.2f} {figure.unit:10} target {figure.goal:>8}  {verdict:6} "
            f"load {self.loads[key]:.1f}"
        )

    def note(self, key: str, text: str) -> None:
        """Something that explains a figure."""
        self.notes.append((key, text))
        self.say(f"  {key}: {text}")

    def say(self, text: str) -> None:
        """One line."""
        if not self._silent:
            sys.stdout.write(text + "\n")
            sys.stdout.flush()

    def table(self, folder: Path) -> str:
        """Every figure with its target, under the machine and the versions."""
        lines = [*describe(folder), ""]
        lines.append(f"{'figure':28} {'value':>12} {'unit':10} {'target':>9}  {'':6} {'load':>4}  what")
        for figure in FIGURES:
            if figure.key not in self.values:
                continue
            value = self.values[figure.key]
            verdict = "ok" if figure.met(value) else "MISSED"
            lines.append(
                f"{figure.key:28} {value:>12,.2f} {figure.unit:10} {figure.goal:>9}  {verdict:6} "
                f"{self.loads[figure.key]:>4.1f}  {figure.text}"
            )
        return "\n".join(lines)

    def store(self, folder: Path, name: str, text: str) -> Path:
        """Write ``NAME.json`` (numbers by key) and ``NAME.txt`` (the table and the notes)."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}.json"
        values = {figure.key: self.values[figure.key] for figure in FIGURES if figure.key in self.values}
        path.write_text(json.dumps(values, indent=2) + "\n", "utf-8")
        notes = [f"{key}: {note}" for key, note in self.notes]
        path.with_suffix(".txt").write_text("\n".join([text, "", *notes, ""]), "utf-8")
        return path
