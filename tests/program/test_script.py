# SPDX-License-Identifier: GPL-2.0-only
"""run-script, shell, diff, edit and completions: what is more than one look at one image."""

import os
import pty
import re
import select
import signal
import stat
import subprocess
import time

import pytest

from support import host, images, luks, program
from support.json_output import items
from support.patience import GUARD, wait_until
from support.processes import wait_until_closed, wait_until_it_waits
from support.program import bad, good, run


@pytest.fixture
def tree(work):
    path = f"{work}/tree"
    os.makedirs(f"{path}/etc/deep")
    for name, text in (
            ("etc/hosts", "localhost\n"), ("etc/passwd", "root:x:0:0::/:\nalice:x:1000:1000::/:\n"),
            ("with space", "space\n")):
        with open(f"{path}/{name}", "w", encoding="ascii") as stream:
            stream.write(text)
        os.chmod(f"{path}/{name}", 0o644)
    os.symlink("etc/hosts", f"{path}/link")
    return path


@pytest.fixture
def image(work, tree):
    return images.make_ext4_of(f"{work}/disk.img", tree)


def write(path, text):
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(text)
    return path


def read(path):
    with open(path, encoding="utf-8") as stream:
        return stream.read()


def feed(text, *words, **options):
    """Runs the program with this standard input."""
    done = subprocess.run(program.command(*words), input=text.encode(),
                          capture_output=True, timeout=60, check=False, **options)
    return program.Result(done)


def check(image):
    host.run("e2fsck", "-f", "-n", image)


# ---- run-script ----


def test_a_script_is_many_commands(work, image):
    script = write(f"{work}/script", f"""\
# what a build does
cp "{work}/tree/with space" '{image}:/etc/a b'

setfattr -n user.a -v "1 2" {image}:/etc/a\\ b   # quoted
cat "{image}:/etc/a b"
getfattr -d "{image}:/etc/a b"
help ls
""")
    shown = good("run-script", script).out
    assert shown.startswith("space\n# file: etc/a b\nuser.a=\"1 2\"\n\n") and "Usage" in shown
    check(image)
    assert good("cat", f"{image}:/etc/a b").out == "space\n"
    assert feed(read(script), "run-script", "-").out == shown


def test_a_script_stops_at_its_first_failure(work, image):
    text = f"cat {image}:/etc/hosts\ncat {image}:/absent\ncat {image}:/etc/hosts\n"
    script = write(f"{work}/script", text)
    stopped = bad("run-script", script, mentions=(f"{script}:2:", "absent"))
    assert stopped.out == "localhost\n"
    went_on = bad("run-script", "--keep-going", script, mentions=(f"{script}:2:",))
    assert went_on.out == "localhost\n" * 2


@pytest.mark.parametrize(("line", "word"), [
    ("run-script x", "run-script"), ("shell {image}", "shell"), ("--ro ls {image}:/", "options"),
                                            ("ls --type ext2 {image}:/", "options"),
                                            ("nonsense", "nonsense"), ("cat 'open", "quote"),
                                            ("ls", "required")])
def test_what_a_line_may_not_be(work, image, line, word):
    script = write(f"{work}/script", line.format(image=image))
    bad("run-script", script, code=2, mentions=(f"{script}:1:", word))


def test_options_hold_for_all_lines(work, image):
    script = write(f"{work}/script", f"cat {image}:/etc/hosts\ncp {work}/tree/link {image}:/new\n")
    before = host.run("sha256sum", image).stdout
    assert bad("--ro", "run-script", script, mentions=("read-only", ":2:")).out == "localhost\n"
    assert host.run("sha256sum", image).stdout == before
    bad("run-script", f"{work}/absent", mentions=("absent",))


def test_what_was_read_is_written_later(work, image):
    """In one disk, of which another partition was written before."""
    size = os.path.getsize(image) // 512
    disk = images.partitioned(
        f"{work}/parts.img",
        f"label: gpt\nstart=2048, size={size}\nstart={2048 + size}, size={size}\n",
                              {2048: image, 2048 + size: image}, 132)
    script = write(
        f"{work}/script",
        f"touch {disk}@2:/new\ncat {disk}@1:/etc/hosts\ntouch {disk}@1:/new\nls {disk}@1:/new\n")
    assert good("run-script", script).out.splitlines() == ["localhost", f"{disk}@1:/new"]


def test_an_interrupted_script_ends_properly(work, image):
    """The line that runs is the last one; what was written by those before it is there, and the
    image clean.
    """
    script = write(f"{work}/script",
                   f"cp '{work}/tree/with space' {image}:/new\n" + f"ls -R {image}:/\n" * 3000)
    # The output is more than the pipe takes, so the program has not ended when the signal comes.
    with subprocess.Popen(program.command("run-script", script), stdout=subprocess.PIPE) as process:
        process.stdout.read(4096)
        process.send_signal(signal.SIGINT)
        process.stdout.read()
    assert process.returncode == 130
    check(image)
    assert good("cat", f"{image}:/new").out == "space\n"


# ---- shell ----


def test_shell_with_a_pipe(work, image):
    result = feed("pwd\ncd etc\npwd\nls\ncat hosts ../etc/hosts\ncp hosts host:out\n"
                  "cp 'host:tree/with space' new\ncd /\nls -l link\ninfo disk.img\nexit\nbad\n",
                  "shell", image, cwd=work)
    assert result.code == 0 and not result.err, str(result)
    assert result.out.startswith("/\n/etc\ndeep\nhosts\npasswd\nlocalhost\nlocalhost\n")
    assert "link -> etc/hosts" in result.out and "ext4" in result.out
    assert read(f"{work}/out") == "localhost\n"
    check(image)
    assert good("cat", f"{image}:/etc/new").out == "space\n"


def test_shell_begins_in_a_directory(image):
    assert (feed("pwd\nls ..\n", "shell", f"{image}:/etc/deep").out
            == "/etc/deep\ndeep\nhosts\npasswd\n")
    bad("shell", f"{image}:/etc/hosts", mentions=("not a directory",))
    bad("shell", f"{image}.absent", mentions=("absent",))
    failed = feed("cd absent\npwd\n", "shell", image)
    assert failed.code == 1 and ":1:" in failed.err and not failed.out
    assert feed("shell x\n", "shell", image).code == 2


class Terminal:
    """The program at a pseudo terminal."""

    def __init__(self, *words, cwd, **variables):
        """`cwd`: files of the host are reached below it."""
        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:
            os.chdir(cwd)
            os.execvpe(program.PROGRAM, program.command(*words),
                       {**os.environ, "TERM": "xterm", **variables})
        self.seen = ""

    def until(self, pattern, seconds=GUARD):
        """Reads until this was shown; returns what came before."""
        end = time.monotonic() + seconds
        while not (found := re.search(pattern, self.seen)):
            ready, _, _ = select.select([self.descriptor], [], [], max(0, end - time.monotonic()))
            assert ready, f"{pattern!r} was not shown: {self.seen!r}"
            try:
                piece = os.read(self.descriptor, 65536)
            except OSError:
                piece = b""
            assert piece, f"{pattern!r} was not shown before the end: {self.seen!r}"
            self.seen += piece.decode(errors="replace")
        before, self.seen = self.seen[:found.start()], self.seen[found.end():]
        return before

    def type(self, text):
        os.write(self.descriptor, text.encode())

    def end(self):
        _, status = os.waitpid(self.pid, 0)
        os.close(self.descriptor)
        return os.waitstatus_to_exitcode(status)


# A new one: what is typed draws the prompt again, but without the first sequence.
PROMPT = r"\x1b\[\?2004h\r\x1b\[K\x1b\[1mdisk\.img:[^>]*> "


def test_shell_at_a_terminal(work, image):
    evil = "evil\x1b]0;owned\x07name"
    good("cp", f"{work}/tree/link", f"{image}:/{evil}")
    terminal = Terminal("shell", image, cwd=work, XDG_STATE_HOME=f"{work}/state")
    terminal.until(PROMPT)
    terminal.type("cd et\t\r")
    terminal.until(r"disk\.img:/etc> ")
    terminal.type("cat ho\t\r")
    terminal.until("cat hosts")
    terminal.until("localhost")
    terminal.until(PROMPT)
    terminal.type("cat /with\t\r")
    terminal.until("space\r\n")
    terminal.until(PROMPT)
    terminal.type("ls /\r")
    assert "\x1b]0;" not in terminal.until("with space")
    terminal.until(PROMPT)
    terminal.type("ls /evil\t")
    time.sleep(0.3)
    terminal.type("\x03")
    assert "\x1b]0;" not in terminal.until(PROMPT)
    terminal.type("cat absent\r")
    terminal.until("absent: No such file")
    terminal.until(PROMPT)
    # Both at once: the second is not lost.
    terminal.type("pwd\rcp hosts copied\r")
    terminal.until(r"\r\n/etc\r\n")
    terminal.until("cp hosts copied")
    terminal.until(PROMPT)
    terminal.type("\x1b[A")
    terminal.until("cp hosts copied")
    terminal.type("\x03")
    terminal.until(PROMPT)
    terminal.type("\x04")
    assert terminal.end() == 0
    history = f"{work}/state/outboard/history"
    assert stat.S_IMODE(os.stat(history).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(os.path.dirname(history)).st_mode) == 0o700
    assert "cp hosts copied" in read(history)
    check(image)
    assert good("cat", f"{image}:/etc/copied").out == "localhost\n"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP],
                         ids=lambda number: number.name)
def test_what_the_prompt_says_is_done_is_durable(work, image, number):
    """The shell is ended at the prompt; the file is there, and no journal has to be replayed."""
    terminal = Terminal("shell", image, cwd=work, XDG_STATE_HOME=f"{work}/state")
    terminal.until(PROMPT)
    terminal.type("cp /etc/hosts /copied\r")
    terminal.until(PROMPT)
    os.kill(terminal.pid, number)
    assert terminal.end() == -number
    wait_until_closed(image)
    images.check_unmounted_ext4(image)
    assert good("cat", f"{image}:/copied").out == "localhost\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP],
                         ids=lambda number: number.name)
def test_a_signal_ends_the_wait_for_the_next_line(work, image, number):
    """The other end of the pipe stays open. Earlier changes are in the image, which is clean."""
    with subprocess.Popen(program.command("shell", image), cwd=work, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdin.write(b"cp etc/hosts new\npwd\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"/\n"
        wait_until_it_waits(process.pid, number)
        process.send_signal(number)
        assert process.wait(timeout=60) == 128 + number
        assert b"standard input: interrupted while waiting for line 3" in process.stderr.read()
    images.check_unmounted_ext4(image)
    assert good("cat", f"{image}:/new").out == "localhost\n"


def test_a_signal_ends_the_wait_of_a_line_for_its_input(work, image):
    lines = f"cp {image}:/etc/hosts {image}:/new\nsetfattr --restore=- {image}:/\n"
    script = write(f"{work}/script", lines)
    with subprocess.Popen(program.command("run-script", script), stdin=subprocess.PIPE,
                          stderr=subprocess.PIPE) as process:
        wait_until_it_waits(process.pid, signal.SIGTERM)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 128 + signal.SIGTERM
        assert b":2: interrupted" in process.stderr.read()
    images.check_unmounted_ext4(image)
    assert good("cat", f"{image}:/new").out == "localhost\n"


def test_a_signal_during_a_command_ends_the_shell_before_the_prompt(work):
    """Nobody presses a key."""
    big = images.make(f"{work}/disk.img", "ext4", 600)
    images.write_noise(f"{work}/noise", 300)
    terminal = Terminal("shell", big, cwd=work, XDG_STATE_HOME=f"{work}/state")
    terminal.until(PROMPT)
    before = os.stat(big).st_blocks
    terminal.type(f"cp host:{work}/noise /a\r")
    wait_until(lambda: os.stat(big).st_blocks > before + 20_000, "the copy is in the middle")
    os.kill(terminal.pid, signal.SIGTERM)
    assert terminal.end() == 128 + signal.SIGTERM
    images.check_unmounted_ext4(big)


def test_a_signal_just_after_ctrl_c_ends_the_shell(work):
    big = images.make(f"{work}/disk.img", "ext4", 600)
    images.write_noise(f"{work}/noise", 300)
    terminal = Terminal("shell", big, cwd=work, XDG_STATE_HOME=f"{work}/state")
    terminal.until(PROMPT)
    before = os.stat(big).st_blocks
    terminal.type(f"cp host:{work}/noise /a\r")
    wait_until(lambda: os.stat(big).st_blocks > before + 20_000, "the copy is in the middle")
    os.kill(terminal.pid, signal.SIGINT)
    terminal.until(PROMPT)
    os.kill(terminal.pid, signal.SIGTERM)
    assert terminal.end() in (-signal.SIGTERM, 128 + signal.SIGTERM)
    images.check_unmounted_ext4(big)


@pytest.mark.needs("cryptsetup")
def test_an_encrypted_volume_is_clean_at_the_prompt(work, image):
    """No journal has to be replayed after the shell was killed there."""
    key = write(f"{work}/key", "secret")
    luks.encrypt(image, key)
    terminal = Terminal("--key-file", key, "shell", image, cwd=work, XDG_STATE_HOME=f"{work}/state")
    terminal.until(PROMPT)
    for name in ("first", "second"):
        terminal.type(f"cp /etc/hosts /{name}\r")
        terminal.until(PROMPT)
    os.kill(terminal.pid, signal.SIGKILL)
    assert terminal.end() == -signal.SIGKILL
    wait_until_closed(image)
    images.check_unmounted_ext4(luks.decrypted(image, key))
    assert good("cat", f"{image}:/second").out == "localhost\n"


def test_ctrl_c_ends_the_command_not_the_shell(work):
    big = images.make(f"{work}/disk.img", "ext4", 600)
    images.write_noise(f"{work}/noise", 300)
    terminal = Terminal("shell", big, cwd=work, XDG_STATE_HOME=f"{work}/state")
    terminal.until(PROMPT)
    before = os.stat(big).st_blocks
    terminal.type(f"cp host:{work}/noise /a\r")
    wait_until(lambda: os.stat(big).st_blocks > before + 20_000, "the copy is in the middle")
    terminal.type("\x03")
    terminal.until("interrupted")
    terminal.until(PROMPT)
    terminal.type("pwd\r")
    terminal.until(r"\r\n/\r\n")
    terminal.until(PROMPT)
    terminal.type("exit\r")
    assert terminal.end() == 0
    check(big)


# ---- diff ----


def test_the_same_trees(work, image, tree):
    copy = f"{work}/copy.img"
    host.copy_sparse(image, copy)
    assert not good("diff", "--times", f"{image}:/", f"{copy}:/").out
    assert not good("diff", "-x", "lost+found", "--ignore", "modes,owners", f"{image}:/", tree).out
    assert items(good("diff", "--json", f"{image}:/", f"{copy}:/")) == []


def test_differences(work, image, tree):
    copy = f"{work}/copy.img"
    host.copy_sparse(image, copy)
    write(f"{work}/hosts", "localh0st\n")
    os.symlink("other", f"{work}/link")
    good("run-script", write(f"{work}/script", f"""\
cp {work}/hosts {copy}:/etc/hosts
cp {work}/hosts {copy}:/etc/passwd
cp {work}/hosts {copy}:/etc/deep/new
cp -a {work}/link {copy}:/
cp -a {work}/tree/etc {copy}:/second
setfattr -n user.a -v x "{copy}:/with space"
setfacl -m u:5:r {copy}:/etc
"""))
    found = bad_diff(f"{image}:/", f"{copy}:/")
    for line in ("etc/hosts: contents differ from byte 7",
                 f"etc/passwd: size: {os.path.getsize(f'{tree}/etc/passwd')} and 10",
                 f"Only in {copy}:/etc/deep: new", f"Only in {copy}:/: second",
                 'link: target: "etc/hosts" and "other"', 'with space: xattr user.a: none and "x"'):
        assert line in found, (line, found)
    assert not any(line.startswith("second/") for line in found)
    assert any(line.startswith("etc: xattr system.posix_acl_access: none and 0s") for line in found)
    assert any(": modified: " in line for line in bad_diff("--times", f"{image}:/", f"{copy}:/"))
    records = items(run("diff", "--json", f"{image}:/", f"{copy}:/"))
    assert {"path": "etc/deep/new", "what": "missing", "only_in": "right"} in records
    assert len(records) == len(found)


def bad_diff(*words):
    result = run("diff", *words)
    assert result.code == 1 and not result.err, str(result)
    return result.out.splitlines()


def test_kinds_and_metadata_differ(work, image, tree):
    os.remove(f"{tree}/link")
    os.mkfifo(f"{tree}/link")
    os.chmod(f"{tree}/etc/hosts", 0o600)
    found = bad_diff("-x", "lost+found", "--ignore", "owners", f"{image}:/", tree)
    assert "link: type: symbolic link and fifo" in found
    assert "etc/hosts: mode: 0644 and 0600" in found
    if host.IS_ROOT:
        os.chown(f"{tree}/etc/hosts", 5, 6)
        assert "etc/hosts: owner: 0:0 and 5:6" in bad_diff("-x", "lost+found", f"{image}:/", tree)


def test_trouble_is_2(work, image):
    bad("diff", f"{image}:/", f"{work}/absent", code=2, mentions=("absent",))
    bad("diff", f"{image}:/", f"{work}/absent.img:/", code=2, mentions=("absent",))
    bad("diff", f"{image}:/", code=2)


def test_sparse_and_large_files(work, image):
    """Holes are not read: a terabyte takes no time. The last byte counts."""
    for name, end in (("one", b"x"), ("two", b"y")):
        os.mkdir(f"{work}/{name}")
        with open(f"{work}/{name}/sparse", "wb") as stream:
            stream.truncate(1 << 40)
            stream.seek((1 << 40) - 1)
            stream.write(end)
    found = bad_diff("--ignore", "modes", f"{work}/one", f"{work}/two")
    assert found == [f"sparse: contents differ from byte {1 << 40}"]
    assert not good("diff", f"{work}/one", f"{work}/one").out


# ---- edit ----


def edit(place, script, work, **variables):
    """Runs edit with a shell script as the editor."""
    editor = write(f"{work}/editor", f"#!/bin/sh\n{script}\n")
    os.chmod(editor, 0o755)
    return run("edit", place, VISUAL=editor, EDITOR="false", TMPDIR=work, **variables)


def test_edit(work, image):
    good("setfacl", "-m", "u:1000:rw", f"{image}:/etc/hosts")
    good("setfattr", "-n", "user.a", "-v", "x", f"{image}:/etc/hosts")
    before = good("getfacl", f"{image}:/etc/hosts").out
    done = edit(f"{image}:/link",
                'test "$(stat -c %a "$(dirname "$1")")" = 700 && echo 127.0.0.1 >> "$1"', work)
    assert done.code == 0 and not done.err, str(done)
    assert good("cat", f"{image}:/etc/hosts").out == "localhost\n127.0.0.1\n"
    assert good("getfacl", f"{image}:/etc/hosts").out == before
    assert 'user.a="x"' in good("getfattr", "-d", f"{image}:/etc/hosts").out
    assert good("ls", "-a", f"{image}:/etc").out.split() == [".", "..", "deep", "hosts", "passwd"]
    assert good("ls", "-l", f"{image}:/link").out.startswith("l")
    assert not [name for name in os.listdir(work) if name.startswith("outboard-edit")]
    check(image)


def test_edit_without_a_change_writes_nothing(work, image):
    good("stat", f"{image}:/etc/hosts")
    inode = good("stat", "--json", f"{image}:/etc/hosts").out
    assert edit(f"{image}:/etc/hosts", "true", work).code == 0
    assert good("stat", "--json", f"{image}:/etc/hosts").out == inode


def test_edit_makes_a_new_file(work, image):
    assert edit(f"{image}:/etc/new", 'echo new > "$1"', work).code == 0
    assert good("cat", f"{image}:/etc/new").out == "new\n"
    assert "644" in good("stat", f"{image}:/etc/new").out
    check(image)


def kept(result):
    """The text that a failed edit left on the host."""
    assert result.code == 1, str(result)
    return read(re.search(r"the edited text is in (\S+)", result.err).group(1))


def test_a_failed_edit_keeps_the_text(work, image):
    assert kept(edit(f"{image}:/etc/hosts", 'echo mine > "$1"; exit 3', work)) == "mine\n"
    assert good("cat", f"{image}:/etc/hosts").out == "localhost\n"
    unchanged = edit(f"{image}:/etc/hosts", "exit 3", work)
    assert unchanged.code == 1 and "edited text" not in unchanged.err
    # Somebody else writes it meanwhile.
    theirs = write(f"{work}/theirs", "theirs\n")
    assert kept(edit(f"{image}:/etc/hosts",
                     f'echo mine > "$1"; {program.PROGRAM} cp {theirs} {image}:/etc/hosts',
                     work)) == "mine\n"
    assert good("cat", f"{image}:/etc/hosts").out == "theirs\n"
    # It may not be replaced.
    good("chattr", "+i", f"{image}:/etc/hosts")
    assert kept(edit(f"{image}:/etc/hosts", 'echo mine > "$1"', work)) == "mine\n"
    assert good("ls", f"{image}:/etc").out.split() == ["deep", "hosts", "passwd"]
    check(image)


def test_what_a_failed_editor_saved_is_kept(work, image):
    """An editor that dies leaves the text in a file of its own, and the copy as it was."""
    for end in ("exit 3", "kill -TERM $$"):
        done = edit(f"{image}:/etc/hosts", f'echo mine > "$(dirname "$1")/.hosts.swp"; {end}', work)
        assert done.code == 1 and "edited text" not in done.err, str(done)
        directory = re.search(r"the editor left \.hosts\.swp in (\S+)", done.err).group(1)
        assert read(f"{directory}/.hosts.swp") == "mine\n"
        assert good("cat", f"{image}:/etc/hosts").out == "localhost\n"
    done = edit(f"{image}:/etc/hosts", 'echo mine > "$1"; cp "$1" "$1~"', work)
    assert done.code == 0 and not done.err, "an editor that succeeds leaves nothing that is needed"


def test_what_cannot_be_edited(work, image):
    bad("edit", f"{image}:/etc", mentions=("directory",))
    bad("edit", f"{image}:/absent/file", mentions=("absent",))
    bad("--ro", "edit", f"{image}:/etc/hosts", mentions=("read-only",))
    bad("edit", f"{image}:/etc/hosts", mentions=("VISUAL",), VISUAL="/no/such/editor")


# ---- completions ----


@pytest.mark.parametrize("shell", [pytest.param(shell, marks=pytest.mark.needs(shell))
                                   for shell in ("bash", "zsh", "fish")])
def test_completions(work, shell):
    text = good("completions", shell).out
    assert "run-script" in text and "keep-going" in text
    host.run(shell, "-n", write(f"{work}/completions", text))


@pytest.mark.needs("bash")
def test_bash_completes_commands(work):
    file = write(f"{work}/completions", good("completions", "bash").out)
    script = (f'source {file}; COMP_WORDS=(outboard getf); COMP_CWORD=1; _outboard outboard getf '
              f'outboard; echo "${{COMPREPLY[@]}}"')
    assert host.run("bash", "-c", script).stdout.split() == ["getfattr", "getfacl"]


def completed(work, *words):
    """The completions of bash for the last word; readline cuts words at "="."""
    file = write(f"{work}/completions", good("completions", "bash").out)
    cut = [part for word in ("outboard", *words) for part in re.split("(=)", word)
           if part or not word]
    script = ('source "$0"; compopt() { :; }; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
              '_outboard_more outboard "${@: -1}" "${@: -2:1}"; [ ${#COMPREPLY[@]} = 0 ] || printf '
              '"%s\\n" "${COMPREPLY[@]}"')
    return host.run("bash", "-c", script, file, *cut).stdout.splitlines()


@pytest.mark.needs("bash")
def test_bash_completes_options_of_mounts(work):
    everything = completed(work, "mount", "-o", "")
    assert {"ro", "rw", "sync", "dirsync", "allow_other", "uid=", "idmap=", "vcpus="} <= set(
        everything)
    assert completed(work, "mount", "disk.img", "-o", "u") == ["uid="]
    assert completed(work, "mount", "-o", "ro,allow_o") == ["ro,allow_other"]
    assert completed(work, "mount", "-o", "ro,allow") == ["ro,allow_other",
                                                          "ro,allow_suid", "ro,allow_dev"]
    assert completed(work, "mount", "-o", "ro,uid=0,g") == ["0,gid="]
    assert completed(work, "mount", "-o", "uid=0,gid=0,no") == ["0,noexec"]
    for value in "uid=", "type=", "type=r", "ro,uid=0,gid=":
        assert completed(work, "mount", "-o", value) == [], value
    assert "--foreground" in completed(work, "mount", "-o", "ro", "--fore")
    assert completed(work, "find", "disk.img:/", "-o", "allow_o") == []


@pytest.mark.needs("bash")
def test_bash_completes_what_is_mounted(work, image):
    if not host.has_fuse():
        pytest.skip("no FUSE here")
    place = f"{work}/a place"
    os.mkdir(place)
    assert completed(work, "umount", work) == []
    good("mount", image, place)
    try:
        assert completed(work, "umount", work) == [place]
        assert completed(work, "umount", "--l") == ["--lazy"]
        assert completed(work, "umount", "--mem") == []
        assert completed(work, "ls", "--mem") == ["--memory"]
    finally:
        good("umount", place)
