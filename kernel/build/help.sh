#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# What 'make help' prints.
cat <<'TEXT'
make                  build the libraries and the program, in out/
make demo             show the main job on an image made on the spot; before the first 'make', this
                      builds only what the demo shows
make test             build, and run the tests; TESTS="tests/program/test_cli.py -k ls" runs
                      these only
make test-long        build, and run the tests that make test leaves out: an hour and more;
                      PARTS="pytest fuzz" runs these parts only
make fuzz             look for inputs that crash a parser, SECONDS=120 for each target;
                      TARGETS="tar luks" runs these only
make bench            build, and compare with what else there is; RECORD=docs/benchmarks keeps
                      the samples
make soak             build, and put load on everything for ten minutes, with a plot of memory
make install          install below PREFIX (/usr/local); DESTDIR is put in front
make library          build the libraries only
make modules M=DIR    build modules of your own for this kernel
make check-untouched  compare the Linux tree that was built with its original
make check-arch       compile kernel/arch alone, for the variables below
make check-clang      compile our C code with clang
make clean            remove out/

Variables:
  PROFILE=full|base|vfs|net   which parts of the kernel are linked (default: full)
  BUILTIN=all|"EXT4_FS ..."   components that are linked in, not loaded on demand
  MODULES=n                   build no component that is not linked in
  LINUX_SOURCE=PATH           directory or tarball of another Linux 6.12
                              (default: the package linux-source-6.12)
  MMU=n                       a kernel without page tables
  SMP=n                       a kernel with one vCPU
  DEBUG=1                     a kernel that checks itself
  SUITES=y                    the kernel's own test suites too, as modules
  SANITIZE=address|undefined|address,undefined
                              a kernel with KASAN, UBSAN or both
  JOBS=N                      compile jobs at a time (default: one per processor)

The profile full is in out/lib, any other in out/lib/PROFILE (with -builtin, -nommu, -up, -debug,
-asan, -ubsan, -suites).
TEXT
