"""Body: the LLVM IR of one function, as instructions add to it."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field

from simulators.ptx.registers import names_in, single_valued, writes
from simulators.ptx.source import Function, Instruction, PtxError, Variable

POISON = 0xBADC0DE5BADC0DE5  # core.h: what is read where nothing was written
REAL = {"f32": "float", "f64": "double"}
# Addresses of a space are no generic addresses: who takes one for the other gets nowhere.
LOCAL_TAG, CONST_TAG, PARAM_TAG = 1 << 60, 2 << 60, 3 << 60
SHARED_BASE = "ptrtoint (ptr @emu.dynamic to i64)"  # from which .shared addresses count
TAGS = {"local": LOCAL_TAG, "const": CONST_TAG, "param": PARAM_TAG}
_NUMBER = re.compile(r"(-?)(0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)U?")
_EXACT = re.compile(r"0([fFdD])([0-9a-fA-F]{8}|[0-9a-fA-F]{16})")
_DECIMAL = re.compile(r"-?\d+\.\d*(?:[eE][+-]?\d+)?")
_ADDRESS = re.compile(r"\[\s*([^\]+]+?)\s*(?:\+\s*(-?\w+)\s*)?\]")


@dataclass(slots=True)
class Body:
    """Text goes to ``lines``; ``needs`` is what to declare, ``globals`` what the module has."""

    function: Function
    globals: dict[str, Variable | Function]
    needs: dict[str, str]
    lines: list[str] = field(default_factory=list)
    head: list[str] = field(default_factory=list)
    local: dict[str, Variable] = field(default_factory=dict)
    open: bool = True  # what is added now comes to be executed
    _single: set[str] = field(default_factory=set)
    _slots: set[str] = field(default_factory=set)
    _written: set[str] = field(default_factory=set)
    _count: int = 0

    def __post_init__(self) -> None:
        self._single = single_valued(self.function)

    # ---- text ----

    def add(self, text: str) -> None:
        """An instruction without a result."""
        self.lines.append(f"  {text}")

    def temp(self, text: str) -> str:
        """The value of an instruction."""
        self._count += 1
        name = f"%.{self._count}"
        self.lines.append(f"  {name} = {text}")
        return name

    def end(self, text: str) -> None:
        """The last instruction of a block."""
        self.lines.append(f"  {text}")
        self.open = False

    def label(self) -> str:
        """A new name of a block."""
        self._count += 1
        return f".b{self._count}"

    def begin(self, label: str) -> None:
        """Go on in block ``label``."""
        self.lines.append(f"{label}:")
        self.open = True

    def call(self, result: str, name: str, *arguments: str) -> str:
        """Call what the host form or the core defines; ``arguments`` with types."""
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
        """Bits of a register; 0 of anything else."""
        return self.function.registers.get(operand, 0)

    def bits(self, operand: str, width: int) -> str:
        """The bits of an operand of exactly ``width``."""
        found = self.function.registers.get(operand)
        if found is None:
            return self._constant(operand, width)
        if found != width:
            raise PtxError(f"{operand} has {found} bits, not {width}")
        return self._read(operand, width)

    def low_bits(self, operand: str, width: int) -> str:
        """The lower bits of an operand that may have more, as ``st`` and ``cvt`` allow."""
        found = self.function.registers.get(operand)
        if found is None or found == width:
            return self.bits(operand, width)
        if found < width:
            raise PtxError(f"{operand} has {found} bits, too few for {width}")
        return self.temp(f"trunc i{found} {self._read(operand, found)} to i{width}")

    def real(self, operand: str, kind: str) -> str:
        """A float or double."""
        width = int(kind[1:])
        return self.temp(f"bitcast i{width} {self.bits(operand, width)} to {REAL[kind]}")

    def predicate(self, operand: str) -> str:
        """``%p`` or ``!%p``."""
        if operand.startswith("!"):
            return self.temp(f"xor i1 {self.bits(operand[1:].strip(), 1)}, true")
        return self.bits(operand, 1)

    def _read(self, name: str, width: int) -> str:
        if name in self._single:
            return _value(name)
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
        """The address of a variable in its own space, or of a function."""
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
        """Where ``name`` lies; empty where it is a function or nothing."""
        found = self.local.get(name) or self.globals.get(name)
        return found.space if isinstance(found, Variable) else ""

    def address_of(self, name: str) -> str:
        """In 64 bits, within the variable's space."""
        if name in self.local:
            value = self.temp(f"ptrtoint ptr {self.place(name)} to i64")
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

    def place(self, name: str) -> str:
        """The pointer to memory of this function."""
        return f"%at.{name.lstrip('%')}"

    def pointer(self, operand: str, space: str, size: int) -> str:
        """``[register + n]`` or ``[variable + n]`` as a pointer to ``size`` bytes, aligned to as many."""
        found = _ADDRESS.fullmatch(operand)
        if found is None:
            raise PtxError(f"cannot read the address {operand}")
        name, offset = found[1], int(found[2] or "0", 0)
        if space == "param" and name in self.local:
            variable = self.local[name]
            if not 0 <= offset <= variable.bytes - size or offset % size or variable.align % min(size, 16):
                raise PtxError(f"{size} bytes at {operand} are not in {name}, or not aligned")
            place = self.place(name)
            return self.temp(f"getelementptr i8, ptr {place}, i64 {offset}") if offset else place
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
        """The result of ``text``, of ``width`` bits, into a register of as many."""
        found = self.function.registers.get(operand)
        if found is None:
            if operand == "_":
                self.temp(text)
                return
            raise PtxError(f"{operand} is no register")
        if found != width:
            raise PtxError(f"{operand} has {found} bits, not {width}")
        if operand in self._single:
            self._written.add(operand)
            self.lines.append(f"  {_value(operand)} = {text}")
        else:
            self.add(f"store i{width} {self.temp(text)}, ptr {self._slot(operand, width)}")

    def put_value(self, operand: str, width: int, value: str) -> None:
        """A value that is there already."""
        self.put(operand, width, f"bitcast i{width} {value} to i{width}")

    def put_real(self, operand: str, kind: str, text: str) -> None:
        """The result of ``text``, a float or double."""
        value = self.temp(text)
        self.put(operand, int(kind[1:]), f"bitcast {REAL[kind]} {value} to i{kind[1:]}")

    def put_extended(self, operand: str, width: int, text: str, *, signed: bool) -> None:
        """Like :meth:`put`, into a register that may be wider, as ``ld`` and ``cvt`` allow."""
        found = self.width(operand)
        if found <= width:
            self.put(operand, width, text)
        else:
            value = self.temp(text)
            self.put(operand, found, f"{'sext' if signed else 'zext'} i{width} {value} to i{found}")

    def give_poison(self, instruction: Instruction) -> None:
        """Results for an instruction that nobody gets behind, so that what uses them can be read."""
        if writes(instruction) and instruction.operands:
            for name in names_in(instruction.operands[0], self.function.registers):
                if name not in self._written:
                    width = self.width(name)
                    self.put(name, width, f"bitcast i{width} {POISON % (1 << min(width, 64))} to i{width}")


def _value(name: str) -> str:
    return name if name[0] == "%" else f"%n.{name}"


def kind_of(argument: str) -> str:
    """``i32`` of ``i32 %x``."""
    return argument.rpartition(" ")[0]


def vector(operand: str) -> list[str]:
    """``{a, b}`` as a list; a single operand as a list of one."""
    if operand.startswith("{"):
        return [part.strip() for part in operand[1:-1].split(",")]
    return [operand]


def known(instruction: Instruction, count: int | tuple[int, ...]) -> list[str]:
    """The operands, which must be as many."""
    wanted = (count,) if isinstance(count, int) else count
    if len(instruction.operands) not in wanted:
        raise PtxError(f"{len(instruction.operands)} operands, not {' or '.join(map(str, wanted))}")
    return instruction.operands
