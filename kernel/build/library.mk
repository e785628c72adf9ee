# SPDX-License-Identifier: GPL-2.0-only
#
# The rules of library.sh, which sets the variables:
#   REPO OBJECTS WORK LIB_DIR INCLUDE_DIR VERSION COMPILER

BUILD := $(REPO)/kernel/build
SONAME := liboutboard.so.0
KERNEL_IMAGE := $(OBJECTS)/outboard-link/kernel.image

FLAGS := -O2 -g -fPIC -fno-semantic-interposition -fno-omit-frame-pointer -pthread \
	-Wall -Wextra -Wmissing-prototypes -Werror -I$(REPO)/hypercall/include
ifeq ($(DEBUG),1)
FLAGS += -DOB_CHECKS
endif
LIB_FLAGS := -I$(REPO)/lib -I$(REPO)/lib/include -I$(WORK)/generated -DOB_VERSION='"$(VERSION)"'
HYPERCALL_FLAGS := -I$(REPO)/hypercall/posix
HYPERCALL_SOURCES := $(wildcard $(REPO)/hypercall/loader/*.c $(REPO)/hypercall/posix/*.c \
	$(REPO)/hypercall/posix/snapshot/*.c $(REPO)/hypercall/posix/space/*.c \
	$(REPO)/devices/*.c $(REPO)/devices/fs/*.c $(REPO)/devices/net/*.c)
STUB_OBJECT := $(WORK)/hypercall/posix/space/stub.o
HYPERCALL_OBJECTS := $(HYPERCALL_SOURCES:$(REPO)/%.c=$(WORK)/%.o) $(STUB_OBJECT)
LIB_SOURCES := $(wildcard $(REPO)/lib/*.c $(REPO)/lib/descriptors/*.c)
LIB_OBJECTS := $(LIB_SOURCES:$(REPO)/%.c=$(WORK)/%.o)
GENERATED_OBJECTS := $(WORK)/generated/config.o $(WORK)/generated/syscalls.o
API_OBJECTS := $(LIB_OBJECTS) $(GENERATED_OBJECTS)

.DELETE_ON_ERROR:
.PHONY: all objects
all: $(LIB_DIR)/liboutboard.so $(LIB_DIR)/liboutboard.a $(LIB_DIR)/pkgconfig/outboard.pc \
	$(LIB_DIR)/liboutboard-components.a $(LIB_DIR)/outboard-kernel

objects: $(HYPERCALL_OBJECTS) $(API_OBJECTS)

$(STUB_OBJECT): $(REPO)/hypercall/posix/space/stub.S $(BUILD)/library.mk
	mkdir -p $(@D)
	$(COMPILER) $(FLAGS) -MMD -MP -c -o $@ $<

$(filter-out $(STUB_OBJECT),$(HYPERCALL_OBJECTS)): $(WORK)/%.o: $(REPO)/%.c $(BUILD)/library.mk
	mkdir -p $(@D)
	$(COMPILER) $(FLAGS) $(HYPERCALL_FLAGS) -MMD -MP -c -o $@ $<

$(WORK)/hypercall/posix/checksum_avx2.o: FLAGS += -mavx2
$(WORK)/hypercall/loader/%.o: FLAGS += -ffreestanding

$(LIB_OBJECTS): $(WORK)/%.o: $(REPO)/%.c $(BUILD)/library.mk
	mkdir -p $(@D)
	$(COMPILER) $(FLAGS) $(LIB_FLAGS) -MMD -MP -c -o $@ $<

$(GENERATED_OBJECTS): %.o: %.c $(BUILD)/library.mk
	$(COMPILER) $(FLAGS) $(LIB_FLAGS) -MMD -MP -c -o $@ $<

# The public names are what lib/ defines of that which the installed headers declare.
$(WORK)/public-names: $(API_OBJECTS) $(BUILD)/public-names.sh
	$(BUILD)/public-names.sh $(INCLUDE_DIR) $(API_OBJECTS) >$@

# The kernel image as it is, at a page of its own: hypercall/posix/image.c maps it from there.
$(WORK)/image.o: $(KERNEL_IMAGE) $(BUILD)/image.S $(BUILD)/image-names.py
	$(BUILD)/image-names.py $(KERNEL_IMAGE) .rodata.outboard_image >$(WORK)/image-names
	gcc -c -o $@.plain -Wa,-I$(dir $(KERNEL_IMAGE)) $(BUILD)/image.S
	objcopy @$(WORK)/image-names $@.plain $@
	rm $@.plain

$(LIB_DIR)/outboard-kernel: $(KERNEL_IMAGE)
	install -m 644 $< $@

$(WORK)/liboutboard.o: $(WORK)/image.o $(HYPERCALL_OBJECTS) $(API_OBJECTS) $(WORK)/public-names
	ld -r -o $@.all $(WORK)/image.o $(HYPERCALL_OBJECTS) $(API_OBJECTS)
	objcopy --keep-global-symbols=$(WORK)/public-names $@.all $@
	rm $@.all

# nodelete: handlers for signals, fork and the end of threads stay to the end of the process.
$(LIB_DIR)/$(SONAME): $(WORK)/liboutboard.o $(BUILD)/exports.map
	gcc -shared -pthread -o $@ $< -Wl,-soname,$(SONAME) \
		-Wl,--version-script=$(BUILD)/exports.map \
		-Wl,-z,defs -Wl,-z,text -Wl,-z,noexecstack -Wl,-z,pack-relative-relocs \
		-Wl,-z,separate-code -Wl,-z,nodelete

$(LIB_DIR)/liboutboard.so: $(LIB_DIR)/$(SONAME)
	ln -sf $(SONAME) $@
	touch -h $@

$(LIB_DIR)/liboutboard.a: $(WORK)/liboutboard.o
	rm -f $@
	ar rcsD $@ $<

# The archive of components is beside the .so; for static programs it is a library.
$(LIB_DIR)/liboutboard-components.a: $(LIB_DIR)/outboard-components $(BUILD)/components.S
	gcc -c -o $(WORK)/components.o -Wa,-I$(LIB_DIR) $(BUILD)/components.S
	rm -f $@
	ar rcsD $@ $(WORK)/components.o

$(LIB_DIR)/pkgconfig/outboard.pc: $(BUILD)/outboard.pc.in
	mkdir -p $(@D)
	sed -e 's,@PREFIX@,$(patsubst %/,%,$(dir $(INCLUDE_DIR))),' -e 's,@LIB_DIR@,$(LIB_DIR),' \
		-e 's,@VERSION@,$(VERSION),' $< >$@

-include $(HYPERCALL_OBJECTS:.o=.d) $(API_OBJECTS:.o=.d)
