# SPDX-License-Identifier: GPL-2.0-only
"""The kernel's own stress and self tests that are no KUnit suites, as modules loaded into the library that is shipped.

Some run while they are loaded, some until they are unloaded; what each says when it is content is in
the table. Everything that any of them, or the kernel, complains about is a failure.
"""

import errno
import os
import re

import pytest

from support import modules, program

pytestmark = pytest.mark.kernel_reports("self tests provoke warnings; check() looks at each log")

# What no test may leave in the log, whatever it says of itself.
TROUBLE = re.compile(r"^.*(?:WARNING: |BUG: |Oops|Call Trace|rcu: INFO: |!!! (?!built as module)|hung task|soft lockup|scheduling while atomic).*$", re.MULTILINE)

# By which some say that they are done, and need not stay.
AGAIN, INVALID = -errno.EAGAIN, -errno.EINVAL


class Once:
    """Runs while it is loaded."""

    def __init__(self, content, result=0, parameters="", needs=(), command_line="", provokes="$."):
        self.content, self.result, self.parameters = content, result, parameters
        self.needs, self.command_line, self.provokes = needs, command_line, provokes


# Module: what it says when all is well.
ONCE = {
    "atomic64_test": Once(r"passed"),
    "crc32test": Once(r"crc32c?: self tests passed"),
    "globtest": Once(r"glob: \d+ self-tests passed, 0 failed"),
    "interval_tree_test": Once(r"interval tree insert/remove", AGAIN),
    "percpu_test": Once(r"percpu test done", AGAIN),
    "rbtree_test": Once(r"augmented rbtree testing", AGAIN, "perf_loops=5000"),
    "test_bitmap": Once(r"all \d+ tests passed"),
    "test_bitops": Once(r"Completed bitops test"),
    "test_blackhole_dev": Once(r""),
    "test_bpf": Once(r"test_bpf: Summary: \d+ PASSED, 0 FAILED"),
    "test_div64": Once(r"Completed 64bit/32bit division and modulo test"),
    "test_hexdump": Once(r"all \d+ tests passed"),
    "test_ida": Once(r"IDA: (\d+) of \1 tests passed", INVALID, provokes=r"at lib/idr\.c|Call Trace"),
    "test_kstrtox": Once(r"", INVALID),
    "test_maple_tree": Once(r"maple_tree: (\d+) of \1 tests passed"),
    "test_memcat_p": Once(r"test passed"),
    "test_meminit": Once(r"all \d+ tests passed!", command_line="init_on_alloc=1 init_on_free=1"),
    "test_min_heap": Once(r"test passed"),
    "test_mul_u64_u64_div_u64": Once(r"Completed mul_u64_u64_div_u64\(\) test"),
    "test_printf": Once(r"all \d+ tests passed"),
    "test_rhashtable": Once(r"Started \d+ threads, 0 failed, rhltable test returns 0", 0, "entries=20000 tcount=6 runs=2"),
    "test_scanf": Once(r"all \d+ tests passed"),
    "test_static_keys": Once(r"", needs=("test_static_key_base",)),
    "test_uuid": Once(r"all \d+ tests passed"),
    "test_vmalloc": Once(r"All test took worker\d+=\d+ cycles", AGAIN, "nr_threads=4 test_loop_count=1000 run_test_mask=127"),
    "test_ww_mutex": Once(r"All ww mutex selftests passed"),
    "test_xarray": Once(r"XArray: (\d+) of \1 tests passed"),
    "test_async_driver_probe": Once(r"completed successfully"),
    "backtracetest": Once(r"(?s)(The following trace is a kernel self test.*){2}end of backtrace testing", provokes=r"Call Trace"),
}


class Until:
    """Runs until it is unloaded."""

    def __init__(self, module, parameters, seconds, vcpus):
        self.module, self.parameters, self.seconds, self.vcpus = module, parameters, seconds, vcpus

    def __str__(self):
        kind = re.search(r"torture_type=(\S+)", self.parameters)
        return f"{self.module}-{kind.group(1) if kind else 'all'}-{self.vcpus}"


# As Linux has them by default. Ours are expedited, which is tortured by gp_exp=1.
GRACE_PERIODS = "rcupdate.rcu_expedited=0"

RCU = "stat_interval=4 stutter=2 n_barrier_cbs=4 fqs_duration=8 read_exit_delay=3"
LOCK = "stat_interval=3 stutter=30"
UNTIL = [
    Until("rcutorture", f"torture_type=rcu {RCU}", 15, 4),
    Until("rcutorture", f"torture_type=rcu {RCU} gp_exp=1", 10, 16),
    Until("rcutorture", f"torture_type=srcu {RCU}", 10, 4),
    *(Until("locktorture", f"torture_type={kind} {LOCK}", 5, 4) for kind in
      ("spin_lock", "spin_lock_irq", "rw_lock", "mutex_lock", "ww_mutex_lock", "rtmutex_lock", "rwsem_lock", "percpu_rwsem_lock")),
    Until("locktorture", f"torture_type=mutex_lock {LOCK} nwriters_stress=32", 5, 64),
    Until("scftorture", "stat_interval=3", 10, 4),
    Until("scftorture", "stat_interval=3", 10, 32),
]

SCALE = [("refscale", f"scale_type={kind} nruns=3 loops=2000", r"END OF TEST") for kind in
         ("rcu", "srcu", "refcnt", "rwlock", "rwsem", "lock", "typesafe_seqlock")]
SCALE.append(("rcuscale", "holdoff=0 nwriters=2", r"Start of test"))


@pytest.fixture(scope="module")
def runner(tmp_path_factory):
    return modules.compile_runner(str(tmp_path_factory.mktemp("selftests")))


def check(run, content, provokes="$."):
    trouble = [line for line in TROUBLE.findall(run.log) if not re.search(provokes, line)]
    assert not trouble, f"{trouble[:5]}\n{run.tail}"
    assert re.search(content, run.log), f"did not say {content!r}\n{run.tail}"


def test_all_are_built():
    names = [*ONCE, *(test.module for test in UNTIL), *(name for name, _, _ in SCALE)]
    missing = sorted(name for name in set(names) if name not in modules.every())
    assert not missing


@pytest.mark.parametrize("name", sorted(ONCE))
def test_once(name, runner):
    test = ONCE[name]
    run = modules.Run(runner, modules.needed_by(*test.needs, name), parameters=test.parameters, command_line=test.command_line,
                      timeout=180, vcpus=4)
    assert run.result == test.result, run.tail
    check(run, test.content, test.provokes)


# Torture takes its time: `make test` has one of each kind.
USUAL = ("rcutorture-rcu-4", "locktorture-spin_lock-4", "locktorture-mutex_lock-4", "locktorture-rwsem_lock-4",
         "scftorture-all-4")


@pytest.mark.parametrize("test", [pytest.param(test, id=str(test), marks=[] if str(test) in USUAL else pytest.mark.long)
                                  for test in UNTIL])
def test_torture(test, runner):
    run = modules.Run(runner, modules.needed_by(test.module), parameters=test.parameters, seconds=test.seconds,
                      command_line="" if "gp_exp=1" in test.parameters else GRACE_PERIODS, timeout=test.seconds + 120, vcpus=test.vcpus)
    assert run.result == 0, run.tail
    check(run, r"End of test: SUCCESS")


@pytest.mark.parametrize("name,parameters,content", SCALE)
def test_scale(name, parameters, content, runner):
    run = modules.Run(runner, modules.needed_by(name), parameters=parameters, seconds=3, command_line=GRACE_PERIODS, timeout=120, vcpus=4)
    assert run.result == 0, run.tail
    check(run, content)


def test_the_table_is_complete():
    """Every module that the configuration makes only for these tests is in the table, or helps one that is."""
    with open(os.path.join(program.REPOSITORY, "kernel", "configs", "selftests.config"), encoding="ascii") as lines:
        only = next(line for line in lines if line.startswith("# Modules only for tests:")).split(":", 1)[1].split()
    tested = {*ONCE, *(test.module for test in UNTIL), *(name for name, _, _ in SCALE)}
    helpers = {path for name in tested for path in modules.needed_by(*(ONCE[name].needs if name in ONCE else ()), name)}
    left = [name for name in only if modules.every().get(name.replace("-", "_")) not in helpers]
    assert not left
