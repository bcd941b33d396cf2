"""The LLVM IR of one function, to which instructions add. Registers are memory: ``%slot.NAME``."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field

from simulators.ptx.source import Function, Instruction, PtxError, Variable

POISON = 0xBADC0DE5BADC0DE5  # core.h: what is read where nothing was written
REAL = {"f32": "float", "f64": "double"}
# Addresses of a space are not generic addresses: a mistaken use of one as the other fails.
LOCAL_TAG, CONST_TAG, PARAM_TAG = 1 << 60, 2 << 60, 3 << 60
SHARED_BASE = "ptrtoint (ptr @emu.dynamic to i64)"  # from which .shared addresses count
TAGS = {"local": LOCAL_TAG, "const": CONST_TAG, "param": PARAM_TAG}
_NUMBER = re.compile(r"(-?)(0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)U?")
_EXACT = re.compile(r"0([fFdD])([0-9a-fA-F]{8}|[0-9a-fA-F]{16})")
_DECIMAL = re.compile(r"-?\d+\.\d*(?:[eE][+-]?\d+)?")
_ADDRESS = re.compile(r"\[\s*([^\]+]+?)\s*(?:\+\s*(-?\w+)\s*)?\]")


@dataclass(slots=True)
class Body:
    """``needs`` are functions to declare, by name; ``globals`` are the names of the module."""

    function: Function
    globals: dict[str, Variable | Function]
    needs: dict[str, str]
    lines: list[str] = field(default_factory=list)
    head: list[str] = field(default_factory=list)
    local: dict[str, Variable] = field(default_factory=dict)
    open: bool = True  # the current block has no last instruction yet
    _slots: set[str] = field(default_factory=set)
    _count: int = 0

    # ---- text ----

    def add(self, text: str) -> None:
        """Add an instruction without a result."""
        self.lines.append(f"  {text}")

    def temp(self, text: str) -> str:
        """Add an instruction and return its value."""
        self._count += 1
        name = f"%.{self._count}"
        self.lines.append(f"  {name} = {text}")
        return name

    def end(self, text: str) -> None:
        """Add the last instruction of a block."""
        self.lines.append(f"  {text}")
        self.open = False

    def label(self) -> str:
        """Return a new name for a block."""
        self._count += 1
        return f".b{self._count}"

    def begin(self, label: str) -> None:
        """Begin block ``label``."""
        self.lines.append(f"{label}:")
        self.open = True

    def call(self, result: str, name: str, *arguments: str) -> str:
        """Call a function of the host form or the core; ``arguments`` include types."""
        if name not in self.needs:
            kinds = ", ".join(kind_of(a) for a in arguments)
            self.needs[name] = f"declare {result} @{name}({kinds})"
        text = f"call {result} @{name}({', '.join(arguments)})"
        if result == "void":
            self.add(text)
            return ""
        return self.temp(text)

    # ---- reading ----

    def width(self, operand: str) -> int:
        """Return the bits of a register; 0 for anything else."""
        return self.function.registers.get(operand, 0)

    def bits(self, operand: str, width: int) -> str:
        """Return an operand of exactly ``width`` bits."""
        found = self.function.registers.get(operand)
        if found is None:
            return self._constant(operand, width)
        if found != width:
            raise PtxError(f"{operand} has {found} bits, not {width}")
        return self._read(operand, width)

    def low_bits(self, operand: str, width: int) -> str:
        """Return the lower bits of an operand that may have more, as ``st`` and ``cvt`` allow."""
        found = self.function.registers.get(operand)
        if found is None or found == width:
            return self.bits(operand, width)
        if found < width:
            raise PtxError(f"{operand} has {found} bits, too few for {width}")
        return self.temp(f"trunc i{found} {self._read(operand, found)} to i{width}")

    def real(self, operand: str, kind: str) -> str:
        """Return an operand as a float or double."""
        width = int(kind[1:])
        return self.temp(f"bitcast i{width} {self.bits(operand, width)} to {REAL[kind]}")

    def predicate(self, operand: str) -> str:
        """Return the value of ``%p`` or ``!%p``."""
        if operand.startswith("!"):
            return self.temp(f"xor i1 {self.bits(operand[1:].strip(), 1)}, true")
        return self.bits(operand, 1)

    def _read(self, name: str, width: int) -> str:
        return self.temp(f"load i{width}, ptr {self._slot(name, width)}")

    def _slot(self, name: str, width: int) -> str:
        slot = f"%slot.{name.lstrip('%')}"
        if name not in self._slots:
            self._slots.add(name)
            self.head.append(f"  {slot} = alloca i{width}")
            self.head.append(f"  store i{width} {POISON % (1 << min(width, 64))}, ptr {slot}")
        return slot

    def _constant(self, operand: str, width: int) -> str:
        if number := _NUMBER.fullmatch(operand):
            digits = number[2]
            octal = digits.isdigit() and digits[0] == "0"
            value = int(digits, 8 if octal else 0)
            value = -value if number[1] else value
            if width == 1:
                return "true" if value else "false"
            return str(value % (1 << width))
        if exact := _EXACT.fullmatch(operand):
            wanted = 32 if exact[1] in "fF" else 64
            if width != wanted or len(exact[2]) * 4 != wanted:
                raise PtxError(f"{operand} has {wanted} bits, not {width}")
            return str(int(exact[2], 16))
        if _DECIMAL.fullmatch(operand) and width in (32, 64):
            code, integer = ("<f", "<I") if width == 32 else ("<d", "<Q")
            return str(struct.unpack(integer, struct.pack(code, float(operand)))[0])
        if operand == "WARP_SZ":
            return "32"
        if operand.startswith("%"):
            return self._special(operand, width)
        return self._symbol(operand, width)

    def _special(self, operand: str, width: int) -> str:
        from simulators.ptx.lanes import special_register

        value, size = special_register(self, operand)
        if size == width:
            return value
        if size > width:
            raise PtxError(f"{operand} has {size} bits, not {width}")
        return self.temp(f"zext i{size} {value} to i{width}")

    def _symbol(self, operand: str, width: int) -> str:
        """Return the address of a variable in its own space, or of a function."""
        name, _, offset = operand.partition("+")
        value = self.address_of(name.strip())
        if offset:
            value = self.temp(f"add i64 {value}, {int(offset, 0)}")
        if width == 32 and self.space_of(name.strip()) == "shared":
            return self.temp(f"trunc i64 {value} to i32")
        if width != 64:
            raise PtxError(f"the address {operand} has 64 bits, not {width}")
        return value

    def space_of(self, name: str) -> str:
        """Return the address space of a variable; empty for a function or an unknown name."""
        found = self.local.get(name) or self.globals.get(name)
        return found.space if isinstance(found, Variable) else ""

    def address_of(self, name: str) -> str:
        """Return an address of 64 bits in the variable's space."""
        if name in self.local:
            value = self.temp(f"ptrtoint ptr {self.variable(name)} to i64")
            return self.temp(f"add i64 {value}, {TAGS[self.local[name].space]}")
        found = self.globals.get(name)
        if found is None:
            raise PtxError(f"{name} is not declared")
        value = self.temp(f"ptrtoint ptr @{name} to i64")
        if isinstance(found, Function):
            return value
        if found.space == "shared":
            return self.temp(f"sub i64 {value}, {SHARED_BASE}")
        tag = TAGS.get(found.space, 0)
        return self.temp(f"add i64 {value}, {tag}") if tag else value

    def variable(self, name: str) -> str:
        """Return the pointer to a variable of this function."""
        return f"%at.{name.lstrip('%')}"

    def pointer(self, operand: str, space: str, size: int) -> str:
        """Return a pointer to ``size`` aligned bytes at ``[register + n]`` or ``[variable + n]``."""
        found = _ADDRESS.fullmatch(operand)
        if found is None:
            raise PtxError(f"cannot read the address {operand}")
        name, offset = found[1], int(found[2] or "0", 0)
        if space == "param" and name in self.local:
            found_variable = self.local[name]
            if (
                not 0 <= offset <= found_variable.bytes - size
                or offset % size
                or found_variable.align % min(size, 16)
            ):
                raise PtxError(f"{size} bytes at {operand} are not in {name}, or not aligned")
            pointer = self.variable(name)
            return self.temp(f"getelementptr i8, ptr {pointer}, i64 {offset}") if offset else pointer
        width = self.width(name)
        if width == 32 and space == "shared":
            value = self.temp(f"zext i32 {self.bits(name, 32)} to i64")
        else:
            value = self.bits(name, 64)
        if offset:
            value = self.temp(f"add i64 {value}, {offset}")
        if space == "shared":
            value = self.temp(f"add i64 {value}, {SHARED_BASE}")
            return self.call("ptr", "nv_shared_address", f"i64 {value}", f"i32 {size}")
        if space in TAGS:
            value = self.temp(f"sub i64 {value}, {TAGS[space]}")
        return self.call("ptr", "nv_address", f"i64 {value}", f"i32 {size}")

    # ---- writing ----

    def put(self, operand: str, width: int, text: str) -> None:
        """Store the result of instruction ``text`` in a register of ``width`` bits."""
        found = self.function.registers.get(operand)
        if found is None:
            if operand == "_":
                self.temp(text)
                return
            raise PtxError(f"{operand} is no register")
        if found != width:
            raise PtxError(f"{operand} has {found} bits, not {width}")
        self.add(f"store i{width} {self.temp(text)}, ptr {self._slot(operand, width)}")

    def put_value(self, operand: str, width: int, value: str) -> None:
        """Store a value in a register."""
        self.put(operand, width, f"bitcast i{width} {value} to i{width}")

    def put_real(self, operand: str, kind: str, text: str) -> None:
        """Store the result of ``text``, a float or double, in a register."""
        value = self.temp(text)
        self.put(operand, int(kind[1:]), f"bitcast {REAL[kind]} {value} to i{kind[1:]}")

    def put_extended(self, operand: str, width: int, text: str, *, signed: bool) -> None:
        """Like :meth:`put`, for a register that may be wider, as ``ld`` and ``cvt`` allow."""
        found = self.width(operand)
        if found <= width:
            self.put(operand, width, text)
        else:
            value = self.temp(text)
            self.put(operand, found, f"{'sext' if signed else 'zext'} i{width} {value} to i{found}")


def kind_of(argument: str) -> str:
    """Return ``i32`` of ``i32 %x``."""
    return argument.rpartition(" ")[0]


def vector(operand: str) -> list[str]:
    """Return ``{a, b}`` as a list, a single operand as a list of one."""
    if operand.startswith("{"):
        return [part.strip() for part in operand[1:-1].split(",")]
    return [operand]


def known(instruction: Instruction, count: int | tuple[int, ...]) -> list[str]:
    """Return the operands; raise if their number is not ``count``."""
    wanted = (count,) if isinstance(count, int) else count
    if len(instruction.operands) not in wanted:
        raise PtxError(f"{len(instruction.operands)} operands, not {' or '.join(map(str, wanted))}")
    return instruction.operands
