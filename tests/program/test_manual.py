# SPDX-License-Identifier: GPL-2.0-only
"""The manual pages: nothing is wrong with them as documents, and they say what `outboard help`
says.
"""

import os
import re
import tempfile

import pytest
from support import host, program
from support.program import bad, good

RELEASE = {"SOURCE_DATE_EPOCH": "1700000000"}


def help_of(*command):
    return good("help", *command, COLUMNS="200").out


def usage(*command):
    return re.search(r"^Usage: (.*)$", help_of(*command), re.MULTILINE).group(1)


def commands():
    listed = help_of().partition("Commands:\n")[2].partition("\n\n")[0]
    return [name for name in re.findall(r"^  ([a-z-]+)  ", listed, re.MULTILINE) if name != "help"]


def page(work, *command):
    path = f"{work}/page.1"
    with open(path, "w", encoding="ascii") as stream:
        stream.write(good("manual", *command, **RELEASE).out)
    return path


def sections(path):
    """Each section's lines, as a reader sees them."""
    text = host.run("mandoc", "-T", "ascii", "-O", "width=200", path).stdout
    found = {}
    for line in re.sub(".\b", "", text).splitlines():
        if re.match(r"\S", line):
            lines = found[line] = []
        else:
            lines.append(line.strip())
    return found


def shared(*command) -> dict:
    """The shared options that the help lists, and whether each takes a value."""
    text = help_of(*command).partition("Shared options:\n")[2].partition("\n\nExample")[0]
    found = re.findall(r"^ +(?:-., )?(--[a-z-]+)( <)?", text, re.MULTILINE)
    return {option: bool(value) for option, value in found}


def test_help_has_the_own_options_of_a_command_first():
    everything = set(shared())
    assert len(everything) > 15
    for name in commands():
        own, _, general = help_of(name).partition("Shared options:\n")
        listed = set(re.findall(r"^ +(?:-., )?(--[a-z-]+)", own, re.MULTILINE))
        assert not listed & everything, name
        assert not re.search(r"^ +(-[aln1],?|--json)\b", general, re.MULTILINE), name


def test_a_command_takes_the_shared_options_that_its_help_lists():
    everything = shared()
    refused = 0
    for name in commands():
        listed = shared(name)
        assert set(listed) <= set(everything), name
        for option in set(everything) - set(listed):
            value = ["1"] if everything[option] else []
            bad(name, option, *value, code=2, mentions=[option, f"outboard {name}"])
            refused += 1
    assert refused > 80
    for words in (["lab", "--memory", "64M", "net.yaml"], ["--memory", "64M", "lab", "net.yaml"]):
        bad(*words, code=2, mentions=["lab does not use the option --memory"])
    bad("lab", "--json", "--no-glob", "net.yaml", code=2, mentions=["--no-glob"])


@pytest.mark.needs("mandoc")
def test_every_page(work):
    general = [line for line in sections(page(work))["SHARED OPTIONS"] if line.startswith("--")]
    assert "--key-file <FILE>" in general
    assert "--ro   Open images read-only: not a byte of them changes" in general
    for name in [[], *([name] for name in commands())]:
        path = page(work, *name)
        assert host.run("mandoc", "-T", "lint", "-W", "warning", path).stdout == ""
        found = sections(path)
        assert found["SYNOPSIS"] == [usage(*name), ""], name
        assert "EXTRA" not in found
        assert ("EXAMPLES" in found) == ("\nExample" in help_of(*name)), name
        listed = [line for line in found.get("SHARED OPTIONS", []) if line.startswith("--")]
        assert listed == [line for line in general if line.split()[0] in shared(*name)], name
        head, foot = list(found)[0], list(found)[-1]
        title = "-".join(["outboard", *name]).upper()
        assert head.startswith(f"{title}(1)") and "2023-11-14" in foot


@pytest.mark.needs("mandoc")
def test_text_after_the_options(work):
    mount = sections(page(work, "mount"))
    assert mount["EXAMPLES"][0] == "outboard mount disk.img@1 /tmp/disk"
    options = mount["Options after -o"]
    assert "ro     read-only: not a byte of the image changes" in options
    for row, text in (("default_permissions", "the host checks"),
                      ("type=TYPE, memory=SIZE, vcpus=N", "as --type")):
        assert options[options.index(row) + 1].startswith(text)
    assert "xfs and f2fs grow" in sections(page(work, "resize"))["NOTES"][0]


@pytest.mark.needs("mandoc")
def test_commands_of_a_command(work):
    lines = sections(page(work, "part"))["COMMANDS"]
    for name in "create", "list", "add", "delete":
        assert lines[lines.index(name) + 1] == usage("part", name)


@pytest.mark.needs("mandoc")
def test_installed_pages(work):
    """One for each command, and those alone; the same each time."""
    made = []
    for destination, prefix in ("", f"{work}/first"), (f"{work}/it's a: second", "/opt"):
        host.run("make", "-C", program.REPOSITORY, "install", f"PREFIX={prefix}",
                 f"DESTDIR={destination}", MAKEFLAGS="", MAKELEVEL="")
        directory = f"{destination}{prefix}/share/man/man1"
        made.append({name: host.run("cat", f"{directory}/{name}").stdout
                     for name in os.listdir(directory)})
    assert made[0] == made[1]
    assert sorted(made[0]) == sorted(["outboard.1", *(f"outboard-{name}.1" for name in commands())])


def examples():
    """Each example of the help, with its input, but without the text about it."""
    for name in commands():
        text = good("help", name, COLUMNS="200").out.partition("\nExample")[2].partition(
            ":\n")[2].partition("\n\n")[0]
        text = re.sub("^  ", "", text, flags=re.MULTILINE)
        for example in re.findall(r"^.*<<END\n(?:.*\n)*?END$|^.+$", text, re.MULTILINE):
            yield re.split(" {3,}", example)[0]


def test_examples_make_sense(work):
    """There are no images: what fails does so for that."""
    tried = 0
    for example in examples():
        place = tempfile.mkdtemp(dir=work)
        script = f'outboard() {{ "{program.PROGRAM}" "$@"; }}; {example}'
        done = host.run("bash", "-c", script, cwd=place, ok=None, HOME=place)
        for wrong in "For more information", "is not a", "unknown":
            assert wrong not in done.stderr, (example, done.stderr)
        tried += 1
    assert tried > 80


def test_what_has_no_page():
    bad("manual", "no-such", code=2, mentions=["no-such"])
    bad("manual", code=2, mentions=["SOURCE_DATE_EPOCH"], SOURCE_DATE_EPOCH="yesterday")
