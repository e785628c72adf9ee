# SPDX-License-Identifier: GPL-2.0-only
"""The kernel's own stress and self tests that are no KUnit suites, as modules of kernels that are
built with SUITES=y.

Some run while they are loaded, some until they are unloaded; what each says when it is content is
in the table. Everything that any of them, or the kernel, complains about is a failure.
"""

import errno
import re

import pytest

from support import modules

# tests/kernel/test_crypto.py tests these. bitrev comes with the sums, and only drivers use it.
OF_CIPHERS = re.compile(r"/crypto/|/aesni\.ko$|/bitrev\.ko$")

pytestmark = pytest.mark.kernel_reports("self tests provoke warnings; check() looks at each log")

# Lines that no test may leave in the log, even if it reports success.
TROUBLE = re.compile(
    r"^.*(?:WARNING: |BUG: |Oops|Call Trace|rcu: INFO: |!!! (?!built as module)|hung task"
    r"|soft lockup|scheduling while atomic).*$", re.MULTILINE)

# By which some say that they are done, and need not stay.
AGAIN, INVALID = -errno.EAGAIN, -errno.EINVAL


class Once:
    """Runs while it is loaded. `least`: so many cases ran at least, by the first group of
    `content`.
    """

    def __init__(self, content, result=0, parameters="", needs=(), command_line="", provokes="$.",
                 least=0):
        self.content, self.result, self.parameters, self.least = content, result, parameters, least
        self.needs, self.command_line, self.provokes = needs, command_line, provokes


# Module: what it says when all is well.
ONCE = {
    "atomic64_test": Once(r"passed"),
    "crc32test": Once(r"crc32c?: self tests passed"),
    "globtest": Once(r"glob: (\d+) self-tests passed, 0 failed", least=64),
    "interval_tree_test": Once(r"interval tree insert/remove", AGAIN),
    "percpu_test": Once(r"percpu test done", AGAIN),
    "rbtree_test": Once(r"augmented rbtree testing", AGAIN, "perf_loops=5000"),
    "test_bitmap": Once(r"all (\d+) tests passed", least=390000),
    "test_bitops": Once(r"Completed bitops test"),
    "test_div64": Once(r"Completed 64bit/32bit division and modulo test"),
    "test_hexdump": Once(r"all (\d+) tests passed", least=1100),
    "test_ida": Once(r"IDA: (\d+) of \1 tests passed", INVALID, least=147000,
                     provokes=r"at lib/idr\.c|Call Trace"),
    "test_kstrtox": Once(r"", INVALID),
    "test_maple_tree": Once(r"maple_tree: (\d+) of \1 tests passed", least=3800000),
    "test_memcat_p": Once(r"test passed"),
    "test_meminit": Once(r"all (\d+) tests passed!", least=131,
                         command_line="init_on_alloc=1 init_on_free=1"),
    "test_min_heap": Once(r"test passed"),
    "test_mul_u64_u64_div_u64": Once(r"Completed mul_u64_u64_div_u64\(\) test"),
    "test_printf": Once(r"all (\d+) tests passed", least=390),
    "test_rhashtable": Once(r"Started \d+ threads, 0 failed, rhltable test returns 0", 0,
                            "entries=20000 tcount=6 runs=2"),
    "test_scanf": Once(r"all (\d+) tests passed", least=2500),
    "test_static_keys": Once(r"", needs=("test_static_key_base", )),
    "test_uuid": Once(r"all (\d+) tests passed", least=18),
    "test_vmalloc": Once(r"All test took worker\d+=\d+ cycles", AGAIN,
                         "nr_threads=4 test_loop_count=1000 run_test_mask=127"),
    "test_ww_mutex": Once(r"All ww mutex selftests passed"),
    "test_xarray": Once(r"XArray: (\d+) of \1 tests passed", least=6700000),
    "test_async_driver_probe": Once(r"completed successfully"),
    "backtracetest": Once(
        r"(?s)(The following trace is a kernel self test.*){2}end of backtrace testing",
        provokes=r"Call Trace"),
    "utf8_selftest": Once(r"utf8_selftest: All (\d+) tests passed", needs=("utf8data", ),
                          least=154),
}

# In the profile full only.
ONCE_FULL = {
    "test_blackhole_dev": Once(r""),
    "test_bpf": Once(r"test_bpf: Summary: (\d+) PASSED, 0 FAILED", least=1031),
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
    *(Until("locktorture", f"torture_type={kind} {LOCK}", 5, 4)
      for kind in ("spin_lock", "spin_lock_irq", "rw_lock", "mutex_lock", "ww_mutex_lock",
                   "rtmutex_lock", "rwsem_lock", "percpu_rwsem_lock")),
    Until("locktorture", f"torture_type=mutex_lock {LOCK} nwriters_stress=32", 5, 64),
    Until("scftorture", "stat_interval=3", 10, 4),
    Until("scftorture", "stat_interval=3", 10, 32),
]

SCALE = [("refscale", f"scale_type={kind} nruns=3 loops=2000", r"END OF TEST") for kind in
         ("rcu", "srcu", "refcnt", "rwlock", "rwsem", "lock", "typesafe_seqlock")]
SCALE.append(("rcuscale", "holdoff=0 nwriters=2", r"Start of test"))


@pytest.fixture(scope="module")
def runner(tmp_path_factory):
    return modules.compile_runner(str(tmp_path_factory.mktemp("selftests")), modules.BASE_SUITES)


@pytest.fixture(scope="module")
def full_runner(tmp_path_factory):
    return modules.compile_runner(str(tmp_path_factory.mktemp("full")), modules.FULL_SUITES)


needs_base = pytest.mark.skipif(not modules.is_built(modules.BASE_SUITES),
                                reason="make PROFILE=base SUITES=y library has not been run")


def in_full(test):
    """Marks a test of the profile full."""
    not_built = not modules.is_built(modules.FULL_SUITES)
    return pytest.mark.long(
        pytest.mark.skipif(not_built, reason="make SUITES=y library has not been run")(test))


def check(run, content, provokes="$.", least=0):
    trouble = [line for line in TROUBLE.findall(run.log) if not re.search(provokes, line)]
    assert not trouble, f"{trouble[:5]}\n{run.tail}"
    said = re.search(content, run.log)
    assert said, f"did not say {content!r}\n{run.tail}"
    if least:
        assert int(said[1]) >= least, f"{said[1]} cases ran, of at least {least}\n{run.tail}"


def check_once(test, name, runner, variant):
    run = modules.Run(runner, modules.needed_by(*test.needs, name,
                                                variant=variant), parameters=test.parameters,
                      command_line=test.command_line, timeout=180, vcpus=4)
    assert run.result == test.result, run.tail
    check(run, test.content, test.provokes, test.least)


@needs_base
def test_all_are_built():
    names = [*ONCE, *(test.module for test in UNTIL), *(name for name, _, _ in SCALE)]
    missing = sorted(name for name in set(names) if name not in modules.every(modules.BASE_SUITES))
    assert not missing


@needs_base
@pytest.mark.parametrize("name", sorted(ONCE))
def test_once(name, runner):
    check_once(ONCE[name], name, runner, modules.BASE_SUITES)


@in_full
@pytest.mark.parametrize("name", sorted(ONCE_FULL))
def test_once_in_full(name, full_runner):
    check_once(ONCE_FULL[name], name, full_runner, modules.FULL_SUITES)


# The line that btrfs logs for each part of its tests, and how often: for each size of its nodes, 4
# to 64 KB, or once.
BTRFS = {
    "btrfs free space cache tests": 5,
    "extent only tests": 5,
    "bitmap only tests": 5,
    "bitmap and extent tests": 5,
    "space stealing from bitmap to extent tests": 5,
    "bytes index tests": 5,
    "extent buffer operation tests": 5,
    "btrfs_split_item tests": 5,
    "extent I/O tests": 5,
    "find delalloc tests": 5,
    "find_first_clear_extent_bit test": 5,
    "extent buffer bitmap tests": 5,
    "extent buffer memory operation tests": 5,
    "inode tests": 5,
    "btrfs_get_extent tests": 5,
    "hole first btrfs_get_extent test": 5,
    "outstanding_extents tests": 5,
    "qgroup tests": 5,
    "qgroup add/remove tests": 5,
    "qgroup multiple refs test": 5,
    "free space tree tests": 5,
    "extent_map tests": 1,
    "rmap tests": 1,
    "btrfs_drop_extent_map_range tests": 1,
    "btrfs_drop_extent_cache with pinned": 1,
}


@in_full
def test_btrfs(full_runner):
    """Its sanity tests run while it is loaded; a failure is an error of loading."""
    run = modules.Run(full_runner, modules.needed_by("btrfs", variant=modules.FULL_SUITES),
                      timeout=300, vcpus=4)
    assert run.result == 0, run.tail
    check(run, r"BTRFS: selftest: sectorsize: 4096  nodesize: 65536")
    parts = re.findall(r"BTRFS: selftest: [Rr]unning (.*)$", run.log, flags=re.MULTILINE)
    assert {part: parts.count(part) for part in parts} == BTRFS
    errors = re.findall(r"^.*BTRFS: selftest: fs/btrfs/.*$", run.log, flags=re.MULTILINE)
    assert not errors, errors


# Torture takes its time: `make test` has one of each kind.
USUAL = ("rcutorture-rcu-4", "locktorture-spin_lock-4", "locktorture-mutex_lock-4",
         "locktorture-rwsem_lock-4", "scftorture-all-4")


@needs_base
@pytest.mark.parametrize("test", [
    pytest.param(test, id=str(test), marks=[] if str(test) in USUAL else pytest.mark.long)
    for test in UNTIL
])
def test_torture(test, runner):
    run = modules.Run(runner, modules.needed_by(test.module, variant=modules.BASE_SUITES),
                      parameters=test.parameters, seconds=test.seconds,
                      command_line="" if "gp_exp=1" in test.parameters else GRACE_PERIODS,
                      timeout=test.seconds + 120, vcpus=test.vcpus)
    assert run.result == 0, run.tail
    check(run, r"End of test: SUCCESS")


@needs_base
@pytest.mark.parametrize("name,parameters,content", [
    pytest.param(*row, id=f"{row[0]}-{row[1].split()[0]}", marks=pytest.mark.long) for row in SCALE
])
def test_scale(name, parameters, content, runner):
    run = modules.Run(runner, modules.needed_by(name,
                                                variant=modules.BASE_SUITES), parameters=parameters,
                      seconds=3, command_line=GRACE_PERIODS, timeout=120, vcpus=4)
    assert run.result == 0, run.tail
    check(run, content)


@needs_base
def test_the_table_is_complete():
    """Every module of the variant is in a table, has KUnit's suites, tests ciphers, or helps one of
    these.
    """
    tested = {
        *ONCE, *(test.module for test in UNTIL), *(name for name, _, _ in SCALE),
        *modules.with_suites(modules.BASE_SUITES)
    }
    helpers = {
        path
        for name in tested
        for path in modules.needed_by(*(
            ONCE[name].needs if name in ONCE else ()), name, variant=modules.BASE_SUITES)
    }
    every = modules.every(modules.BASE_SUITES)
    ciphers = [name for name, path in every.items() if OF_CIPHERS.search(path)]
    left = set(every.values()) - helpers
    assert not left - set(modules.needed_by(*ciphers, variant=modules.BASE_SUITES))
