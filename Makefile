# SPDX-License-Identifier: GPL-2.0-only
#
# Outboard: Linux kernel code as a library. Each target calls one script; the
# work is in kernel/build. 'make help' says what there is.

PROFILE ?= full
MMU ?= y
SMP ?= y
MODULES ?= y
DEBUG ?= 0
SUITES ?= n
SANITIZE ?=
PREFIX ?= /usr/local
export PROFILE MMU SMP BUILTIN MODULES DEBUG SUITES SANITIZE LINUX_SOURCE PREFIX DESTDIR

BUILD := kernel/build
TEST_PACKAGES := $(BUILD)/packages-test.txt tests/packages.txt

# Before the first 'make', the demo builds a kernel with only the file systems that it shows.
ifeq ($(wildcard out/bin/outboard),)
DEMO_KERNEL := PROFILE=vfs BUILTIN="EXT4_FS XFS_FS" MODULES=n
DEMO_PROGRAM := out/bin/outboard-vfs-builtin
endif

.NOTPARALLEL:
.PHONY: all setup source kernel library program modules demo test test-long fuzz bench soak install
.PHONY: check-untouched check-arch check-clang clean help

all: program

setup:
	@$(BUILD)/setup.sh $(BUILD)/packages-build.txt

source: setup
	@$(BUILD)/source.sh

kernel: source
	@$(BUILD)/configure.sh
	@$(BUILD)/compile.sh
	@$(BUILD)/link.sh
	@$(BUILD)/modules.sh

library: kernel
	@$(BUILD)/library.sh

program: library
	@$(BUILD)/program.sh
	@$(BUILD)/c-libraries.sh

demo:
	@$(MAKE) --no-print-directory $(DEMO_KERNEL) program
	@$(BUILD)/setup.sh $(BUILD)/packages-demo.txt
	@tests/demo $(DEMO_PROGRAM)

test: export MAKE_BEGAN := $(shell date +%s)
test: program
	@$(BUILD)/setup.sh $(TEST_PACKAGES)
	@tests/run

test-long: program
	@$(BUILD)/setup.sh $(TEST_PACKAGES)
	@tests/run --long $(PARTS)

fuzz: library
	@$(BUILD)/setup.sh $(TEST_PACKAGES)
	@FUZZ_SECONDS=$(or $(SECONDS),120) fuzz/run $(TARGETS)

bench: program
	@$(MAKE) --no-print-directory PROFILE=base library
	@$(MAKE) --no-print-directory PROFILE=base SMP=n library
	@$(BUILD)/setup.sh $(TEST_PACKAGES) $(BUILD)/packages-bench.txt
	@bench/run $(if $(RECORD),--record $(RECORD))
	@$(if $(RECORD),bench/tables.py)

soak: program
	@$(BUILD)/setup.sh $(TEST_PACKAGES) $(BUILD)/packages-bench.txt
	@tests/library/soak/run

install:
	@$(BUILD)/install.sh

modules: library
	@$(BUILD)/external-modules.sh "$(M)"

check-untouched: source
	@$(BUILD)/check-untouched.sh

check-arch: source
	@$(BUILD)/configure.sh
	@$(BUILD)/check-arch.sh

check-clang: library
	@$(BUILD)/check-clang.sh

clean:
	rm -rf "$$(readlink -f out)" out

help:
	@$(BUILD)/help.sh
