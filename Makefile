# SPDX-License-Identifier: GPL-2.0-only
#
# Outboard: Linux kernel code as a library. Each target calls one script; the
# work is in kernel/build. 'make help' says what there is.

PROFILE ?= full
MMU ?= y
DEBUG ?= 0
PREFIX ?= /usr/local
export PROFILE MMU DEBUG LINUX_SOURCE PREFIX DESTDIR

BUILD := kernel/build

.NOTPARALLEL:
.PHONY: all setup source kernel library program demo test bench install check-untouched check-clang clean help

all: program

setup:
	@$(BUILD)/setup.sh build

source: setup
	@$(BUILD)/source.sh

kernel: source
	@$(BUILD)/configure.sh
	@$(BUILD)/compile.sh
	@$(BUILD)/link.sh

library: kernel
	@$(BUILD)/library.sh

program: library
	@$(BUILD)/program.sh

demo: program
	@$(BUILD)/setup.sh test
	@tests/demo

test: program
	@$(BUILD)/setup.sh test
	@tests/run

bench: program
	@$(BUILD)/setup.sh test bench
	@bench/run

install:
	@$(BUILD)/install.sh

check-untouched: source
	@$(BUILD)/check-untouched.sh

check-clang: library
	@$(BUILD)/check-clang.sh

clean:
	rm -rf out

help:
	@$(BUILD)/help.sh
