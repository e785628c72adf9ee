# SPDX-License-Identifier: GPL-2.0-only
"""Two upcalls use general registers only (outboard/hypercall.h), so that a trap handler need not
save vector registers for them. The linked kernel is disassembled: no function that they reach uses
another register.

A call by a pointer could reach anything. So the functions reached make none, but hypercalls.
"""

import os
import re

import pytest

from support import host, modules

# The kernel that `make test` builds with the suites, in the smallest profile.
KERNEL = os.path.join(modules.objects_of(modules.BASE_SUITES), "outboard-link", "kernel.image")

UPCALLS = {"ob_kernel_interrupt", "ob_kernel_preempt_begin"}
# They do not return: the kernel has panicked.
ENDS = {"panic", "ob_die"}
HYPERCALL = re.compile(r"ob_host_\w+$")

FUNCTION = re.compile(r"^([0-9a-f]+) <([^>]+)>:$")
DIRECT = re.compile(r"\t(?:bnd |notrack )?(?:call|j\w+|loop\w*)q? +[0-9a-f]+ <([^>+]+)")
INDIRECT = re.compile(r"\t(?:bnd |notrack )?(?:call|jmp)q? +\*")
# Also instructions of the x87 unit and MMX, which need not name a register.
OTHER_REGISTER = re.compile(r"%[xyz]mm\d|%mm\d|%st\b|%k[0-7]\b|\tf(?!s\b)[a-z]+|\temms|\tvzero")


class Code:
    """For each function of an ELF file: the functions that it names, and its sins."""

    def __init__(self, path: str):
        self.calls, self.indirect, self.registers = {}, set(), set()
        name = ""
        for line in host.run("objdump", "-d", "--no-show-raw-insn", path).stdout.splitlines():
            if named := FUNCTION.match(line):
                name = named[2]
                self.calls.setdefault(name, set())
                continue
            if target := DIRECT.search(line):
                self.calls[name].add(target[1])
            elif INDIRECT.search(line):
                self.indirect.add(name)
            elif OTHER_REGISTER.search(line):
                self.registers.add(name)

    def reached_from(self, names: set) -> set:
        """Also the functions where this ends."""
        found, rest = set(), set(names)
        while rest:
            name = rest.pop()
            found.add(name)
            if name not in ENDS and not HYPERCALL.match(name):
                rest |= self.calls[name] - found
        return found

    def faults(self, names: set) -> list:
        inside = {
            name for name in self.reached_from(names) - ENDS if not HYPERCALL.match(name)
        }
        return sorted(
            [f"{name} uses other registers" for name in inside & self.registers]
            + [f"{name} calls by a pointer" for name in inside & self.indirect]
        )


def test_upcalls_use_general_registers_only():
    if not os.path.exists(KERNEL):
        pytest.skip("make library PROFILE=base SUITES=y has not been run")
    code = Code(KERNEL)
    reached = code.reached_from(UPCALLS)
    assert len(reached) > 5 and "ob_host_wake" in reached, sorted(reached)
    # The kernel has code with vector registers, and the patterns fit it.
    assert {"memcpy", "__memcpy"} & code.registers
    assert not code.faults(UPCALLS)


CODE = """
vector: movaps %xmm0, (%rdi)
        ret
upper:  vzeroupper
        ret
x87:    fldz
        ret
mask:   kmovb %k1, %eax
        ret
pointer:
        call *%rax
        ret
ob_host_wake:
        jmp *table(%rip)
panic:  call vector
ob_kernel_good:
        call ob_host_wake
        jz panic
        mov %fs:0, %rax
        jmp 1f
1:      ret
ob_kernel_bad:
        call middle
        ret
middle: jz vector
        call pointer
        call x87
        call mask
        jmp upper
table:  .quad 0
"""


def test_faults_are_found(tmp_path):
    source, program = tmp_path / "code.s", str(tmp_path / "code.so")
    source.write_text(CODE, encoding="ascii")
    host.run("gcc", "-shared", "-nostdlib", "-o", program, str(source))
    code = Code(program)
    assert not code.faults({"ob_kernel_good"})
    assert code.faults({"ob_kernel_bad"}) == [
        "mask uses other registers", "pointer calls by a pointer", "upper uses other registers",
        "vector uses other registers", "x87 uses other registers"
    ]
