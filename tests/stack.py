#!/usr/bin/env python3
"""Refuse BPF objects whose calls need more stack than kernels allow.

stack.py OBJECT... prints the deepest chain of calls of each object, and what is
left of the 512 bytes that a program and all it calls may have.  A frame is what
its function reaches below the frame pointer, rounded up to 32 bytes, one at
least: so the verifiers of all kernels before 6.10 add up, later ones may be more
generous.  Read from the instructions themselves, so that no kernel has to be
started to see it.
"""
import collections
import struct
import sys

LIMIT, ROUND = 512, 32
R10 = 10
CALL, LOAD_64, MOVE, ADD = 0x85, 0x18, 0xBF, 0x07
TO_FUNCTION, FUNCTION_ADDRESS = 1, 4  # what src says in CALL and in LOAD_64
CLASS, LDX, ST, STX = 7, 1, 2, 3
FUNC, SECTION = 2, 3  # types of a symbol
BPF = 247
SYMTAB, REL = 2, 9  # types of a section
EXECUTABLE = 4
UNDEFINED = 0  # section of a symbol that is elsewhere

Header = collections.namedtuple("Header", "name type flags addr offset size"
                                " link info align entsize")
Symbol = collections.namedtuple("Symbol", "name info other section at size")
Function = collections.namedtuple("Function", "name at end")


class Bad(Exception):
    pass


class Elf:
    """Functions of an object, their instructions and their relocations."""

    def __init__(self, data):
        if data[:6] != b"\x7fELF\x02\x01":
            raise Bad("no object of 64 bits, least byte first")
        if struct.unpack_from("<H", data, 18) != (BPF,):
            raise Bad("not for BPF")
        at, = struct.unpack_from("<Q", data, 40)
        size, n = struct.unpack_from("<HH", data, 58)
        self.data = data
        self.sections = [Header._make(struct.unpack_from("<IIQQQQIIQQ", data,
                                                         at + i * size))
                         for i in range(n)]
        table = next((s for s in self.sections if s.type == SYMTAB), None)
        if not table:
            raise Bad("no symbols")
        names = self.sections[table.link].offset
        self.symbols = [self.symbol(at, names) for at in
                        range(table.offset, table.offset + table.size, 24)]
        self.functions = collections.defaultdict(list)
        for s in self.symbols:
            if s.info & 15 == FUNC:
                self.functions[s.section].append(
                    Function(s.name, s.at, s.at + s.size))

    def symbol(self, at, names):
        name, *rest = struct.unpack_from("<IBBHQQ", self.data, at)
        end = self.data.index(b"\0", names + name)
        return Symbol(self.data[names + name:end].decode(), *rest)

    def relocations(self, section):
        """Symbol by the place in the section where it is put in."""
        found = {}
        for s in self.sections:
            if s.type == REL and s.info == section:
                for at in range(s.offset, s.offset + s.size, 16):
                    where, info = struct.unpack_from("<QQ", self.data, at)
                    found[where] = self.symbols[info >> 32]
        return found

    def function_at(self, section, at):
        for f in self.functions[section]:
            if f.at <= at < f.end:
                return f.name
        return None


def instructions(elf, section, function):
    """(place, opcode, dst, src, offset, imm), one after the other."""
    base = elf.sections[section].offset
    at = function.at
    while at < function.end:
        op, regs, off, imm = struct.unpack_from("<BBhi", elf.data, base + at)
        yield at, op, regs & 15, regs >> 4, off, imm
        at += 16 if op == LOAD_64 else 8


def called(elf, section, relocations, at, op, imm):
    """Name of the function that a call, or a function's address, means."""
    symbol = relocations.get(at)
    step = 8 * (imm + 1) if op == CALL else imm
    if symbol is None:
        return elf.function_at(section, at + step)
    if symbol.info & 15 == SECTION:
        return elf.function_at(symbol.section, step)
    return symbol.name if symbol.info & 15 == FUNC else None


def look(elf, section, function, relocations):
    """Bytes below the frame pointer, and the functions that are called.

    The compiler makes an address in the frame by two instructions in a row, and
    what it points to lies above it.
    """
    depth, calls, copied = 0, set(), None
    for at, op, dst, src, off, imm in instructions(elf, section, function):
        kind = op & CLASS
        if copied is not None:
            if op != ADD or dst != copied or imm >= 0:
                raise Bad(f"{function.name}: the frame pointer is copied in a"
                          " way that is not understood")
            depth, copied = max(depth, -imm), None
        elif op == MOVE and src == R10:
            copied = dst
        elif kind == LDX and src == R10 or kind in (ST, STX) and dst == R10:
            depth = max(depth, -off)
        elif (op == CALL and at in relocations and
              relocations[at].section == UNDEFINED):
            pass  # a function of the kernel, which has a stack of its own
        elif (op == CALL and src == TO_FUNCTION or
              op == LOAD_64 and (src == FUNCTION_ADDRESS or
                                 at in relocations)):
            name = called(elf, section, relocations, at, op, imm)
            if name:
                calls.add(name)
            elif op == CALL:
                raise Bad(f"{function.name}: calls what is not there")
    return depth, calls


def deepest(name, frames, known):
    """Bytes of the deepest chain that begins here, and its functions."""
    if name not in frames:
        raise Bad(f"{name} is called and not there")
    if name not in known:
        known[name] = None  # being looked at
        depth, calls = frames[name]
        below = [deepest(c, frames, known) for c in sorted(calls)]
        if None in below:
            raise Bad(f"{name} is in a circle of calls")
        most, chain = max(below, default=(0, []))
        rounded = max(ROUND, -(-depth // ROUND) * ROUND)
        known[name] = most + rounded, [f"{name} {rounded}"] + chain
    return known[name]


def measure(path):
    with open(path, "rb") as f:
        elf = Elf(f.read())
    frames = {}
    for section, header in enumerate(elf.sections):
        if header.flags & EXECUTABLE:
            relocations = elf.relocations(section)
            for function in elf.functions[section]:
                frames[function.name] = look(elf, section, function,
                                             relocations)
    if not frames:
        raise Bad("no functions")
    known = {}
    return max(deepest(name, frames, known) for name in frames)


def main(paths):
    bad = not paths
    if bad:
        print("no objects")
    for path in paths:
        name = path.rsplit("/", 1)[-1]
        try:
            most, chain = measure(path)
        except (Bad, OSError, struct.error) as e:
            print(f"{name}: {e}")
            bad = True
            continue
        print(f"{name}: {most} of {LIMIT} bytes of stack, "
              + (f"{LIMIT - most} left" if most <= LIMIT else
                 f"{most - LIMIT} too many") + ": " + " > ".join(chain))
        bad |= most > LIMIT
    return bad


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
