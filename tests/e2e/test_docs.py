"""Every command of the documentation: it runs and prints what its page shows, or its page says why not."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest
from e2e.command import ROOT, execute, launcher, seed, shared_cache, without_settings
from e2e.pages import Block, Page, Session, pages, pattern, read_page, sessions

from gpubuild.cli.parser import make_parser

PAGES = pages()
BY_NAME = {page.path.name: page for page in PAGES}
MARK = "--end-of-command--"


def run_page(page: Page, folder: Path, environment: dict[str, str]) -> list[str]:
    """Run a page's commands in one shell; what is wrong with which."""
    script, expected = "", list[Session]()
    for block in page.blocks:
        if block.file:
            script += f"cat > {shlex.quote(block.file)} <<'{MARK}'\n{block.text}{MARK}\n"
        elif block.has_commands and not block.excuse:
            for session in sessions(block):
                expected.append(session)
                script += f'{session.command}\ncode=$?; echo "{MARK}$code"; (exit $code)\n'
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    parts = re.split(rf"{MARK}(\d+)\n", done.stdout)
    outputs, codes = parts[:-1:2], [int(code) for code in parts[1::2]]
    assert len(codes) == len(expected), done.stdout
    problems = []
    for i, (session, output, code) in enumerate(zip(expected, outputs, codes, strict=True)):
        place = f"{page.path.name}:{session.line}: $ {session.command}\n{output}"
        is_told = i + 1 < len(expected) and expected[i + 1].command == "echo $?"
        if (code != 0) != is_told:
            problems.append(f"{place}--- ends with {code}, which the page does not say with `$ echo $?`")
        if session.shown is not None and not re.fullmatch(pattern(session.shown), output):
            problems.append(f"{place}--- the page shows:\n{session.shown}")
    return problems


@pytest.mark.parametrize("name", [page.path.name for page in PAGES if page.runs])
def test_commands(name: str, tmp_path: Path) -> None:
    page = BY_NAME[name]
    environment, tools = without_settings(), launcher(tmp_path / "bin")
    environment["PATH"] = f"{tools}:{sysconfig.get_path('scripts')}:/usr/bin:/bin"
    if not page.own_cache:
        environment |= shared_cache()
    folder = tmp_path / "project"
    if page.project == "init":
        execute(tools / "gpubuild", "init", "-q", folder, env=environment)
    elif page.project:
        shutil.copytree(ROOT / page.project, folder)
    else:
        folder.mkdir()
    if page.has_runtime:
        seed(folder)
    problems = run_page(page, folder, environment)
    assert not problems, "\n\n".join(problems)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.path.name)
def test_each_block_of_commands_runs_or_says_why_not(page: Page) -> None:
    for block in page.blocks:
        where = f"{page.path.name}:{block.line}"
        if block.has_commands:
            assert block.language, f"{where}: commands in a block that is not marked console or sh"
        if block.note.startswith("not run: "):
            assert len(block.note.split()) > 4, f"{where}: not run without a reason"
        if block.note.startswith("tested by "):
            test = ROOT / block.note.removeprefix("tested by ").split(":")[0]
            assert test.is_file(), where
            assert page.path.name in test.read_text(), f"{where}: {test.name} does not read this page"


def commands_in_text(page: Page) -> set[str]:
    """Spans of code such as `gpubuild cache gc --max-size 2GiB`, outside blocks."""
    text = re.sub(r"^(```+).*?^\1$", "", page.path.read_text(), flags=re.M | re.S)
    return {" ".join(found.split()) for found in re.findall(r"`(gpubuild\s+[a-z][^`]*)`", text)}


def test_commands_in_text_have_a_parser() -> None:
    """Commands named in running text exist, with the options that they are given."""
    parser = make_parser()
    [choices] = [action.choices for action in parser._actions if action.dest == "command" or action.choices]
    seen = 0
    for page in PAGES:
        for text in sorted(commands_in_text(page)):
            words = re.split(r"[ |]+", text.split(" | ")[0])[1:]
            command = choices.get(words[0])
            assert command is not None, f"{page.path.name}: `{text}`"
            help_text = command.format_help()
            for action in command._actions:
                if isinstance(action.choices, dict) and len(words) > 1 and words[1] in action.choices:
                    help_text += action.choices[words[1]].format_help()
            for word in words[1:]:
                option = word.split("=")[0].rstrip("`,.")
                if word == "--":
                    break
                if re.match(r"--?[a-z]", option):
                    assert re.search(rf"(?<![\w-]){option}(?![\w-])", help_text), (
                        f"{page.path.name}: `{text}`: {option}"
                    )
                    seen += 1
    assert seen > 5


# --- the test of the test


RIGHT = [
    "```console\n$ echo a  b\na b\n$ false\n$ echo $?\n1\n```\n",
    "```console\n$ echo anything\n```\n",
    "```console\n$ seq 5\n1\n…\n5\n$ echo x12y\nx…y\n```\n",
    "<!-- file: a.txt -->\n```yaml\nkey: 1\n```\n\n```console\n$ cat a.txt\nkey: 1\n```\n",
    "<!-- not run: there is no such command -->\n```sh\nno-such-command\n```\n",
    "```console\n$ cat <<END\n> text\n> END\ntext\n```\n",
]
WRONG = [
    "```console\n$ echo a\nb\n```\n",
    "```console\n$ echo a\n$ echo b\nb\n```\n",
    "```console\n$ false\n```\n",
    "```sh\nfalse\n```\n",
    "```console\n$ true\n$ echo $?\n0\n```\n",
    "```console\n$ seq 5\n1\n5\n```\n",
]


@pytest.mark.parametrize(("text", "problems"), [*((t, 0) for t in RIGHT), *((t, 1) for t in WRONG)])
def test_pages_that_are_right_and_wrong(text: str, problems: int, tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(text)
    assert len(run_page(read_page(path), tmp_path, dict(os.environ))) == problems


def test_blocks_without_a_mark_are_seen() -> None:
    assert Block(line=1, language="", note="", text="$ ls\n").has_commands
    assert not Block(line=1, language="", note="", text="a tree\n").has_commands
