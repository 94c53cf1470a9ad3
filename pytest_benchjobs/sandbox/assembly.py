"""Just enough of an assembler for a Linux program that makes system calls in a straight line.

Code is written as it is called, so data has to be there first. The program is one file of less than a page, mapped
twice: once to be run and once to be written to. It has no stack of its own making, no libraries and no relocations.

In both machines two registers keep results (`Register`), and one holds the name of the call being made, for messages.
"""

from __future__ import annotations

import abc
import dataclasses
import enum
import struct
from typing import ClassVar

_TEXT, _DATA = 0x400000, 0x600000
# The largest page that Linux has on either machine.
_PAGE = 0x10000
_HEADERS = 64 + 3 * 56
_LOAD, _STACK = 1, 0x6474E551
_RUN, _WRITE, _READ = 1, 2, 4

_DIGITS, _NAME = b"000", b" " * 8


class Register(enum.Enum):
    """Registers that outlive a call."""

    FIRST = enum.auto()
    SECOND = enum.auto()


Argument = int | Register


@dataclasses.dataclass(frozen=True, slots=True)
class Complaint:
    """A line for standard error, with room for an error number and the name of a call. Addresses."""

    text: int
    size: int
    digits: int
    name: int


class Assembly(abc.ABC):
    """A program in the making. Nothing is checked but what would go unnoticed."""

    machine: ClassVar[int]
    """As an ELF header has it."""
    numbers: ClassVar[dict[str, int]]
    """System call -> its number."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._text = bytearray()
        self._failures: list[int] = []

    def data(self, content: bytes) -> int:
        """Add bytes that can be written to; returns their address, which 8 divides."""
        if self._text:
            raise ValueError("data comes before code")
        address = _DATA + _HEADERS + len(self._data)
        self._data += content + bytes(-len(content) % 8)
        return address

    def complaint(self, what: str) -> Complaint:
        """Add a line such as `what: errno 111 of connect`."""
        head, middle = f"{what}: errno ".encode(), b" of "
        line = head + _DIGITS + middle + _NAME + b"\n"
        text = self.data(line)
        digits = text + len(head)
        return Complaint(text, len(line), digits, digits + len(_DIGITS + middle))

    def call(self, name: str, *arguments: Argument, keep: Register | None = None) -> None:
        """Make a system call, keep its result, and go to `on_failure` if that is an error."""
        self._note(name)
        self.attempt(name, *arguments)
        self._failures.append(self.jump_if_failed())
        if keep is not None:
            self._keep(keep)

    @abc.abstractmethod
    def attempt(self, name: str, *arguments: Argument) -> None:
        """Make a system call, whose failure matters only to the jumps that follow. Other registers stay as they are."""

    def here(self) -> int:
        """The place of what comes next, for `land`."""
        return len(self._text)

    def land(self, jump: int, target: int | None = None) -> None:
        """Let a jump end at `target`, or at what comes next."""
        self._aim(jump, len(self._text) if target is None else target)

    @abc.abstractmethod
    def jump(self) -> int:
        """Jump, in any case; returns the jump for `land`, as all of them do."""

    @abc.abstractmethod
    def jump_if_failed(self) -> int:
        """Jump if the last call failed."""

    @abc.abstractmethod
    def jump_if_error(self, number: int) -> int:
        """Jump if the last call failed with this error number, which is below 128."""

    @abc.abstractmethod
    def jump_if_different(self, address: int, other: int) -> int:
        """Jump unless the 8 bytes at both addresses are the same."""

    @abc.abstractmethod
    def toggle(self, address: int) -> None:
        """Invert the lowest bit of a byte: `0` becomes `1`, and back."""

    @abc.abstractmethod
    def store(self, register: Register | None, address: int) -> None:
        """Write the lower 32 bits of a register, or of the last result (None)."""

    def become_arguments(self) -> None:
        """Run the program's own arguments, the first of which is a path. What follows runs only if that fails."""
        self._note("execve")
        self._load_arguments()
        self.attempt("execve")

    def on_failure(self) -> None:
        """Calls that failed go on here."""
        for place in self._failures:
            self._aim(place, len(self._text))

    def give_up(self, complaint: Complaint, status: int) -> None:
        """Complain of the call that failed last, and exit."""
        self._print_into(complaint)
        self.attempt("write", 2, complaint.text, complaint.size)
        self.attempt("exit_group", status)

    def exit(self, status: int) -> None:
        """End the program."""
        self.attempt("exit_group", status)

    def program(self) -> bytes:
        """The finished ELF file."""
        content = bytes(self._data + self._text)
        size = _HEADERS + len(content)
        entry = _TEXT + _HEADERS + len(self._data)
        return b"".join(
            (
                struct.pack("<4s5B7x", b"\x7fELF", 2, 1, 1, 0, 0),
                struct.pack("<HHIQQQI6H", 2, self.machine, 1, entry, 64, 0, 0, 64, 56, 3, 0, 0, 0),
                _segment(_LOAD, _READ | _RUN, _TEXT, size),
                _segment(_LOAD, _READ | _WRITE, _DATA, size),
                # Without this one, old kernels make all that can be read executable.
                _segment(_STACK, _READ | _WRITE, 0, 0),
                content,
            )
        )

    @abc.abstractmethod
    def _note(self, name: str) -> None:
        """Remember the name of a call."""

    @abc.abstractmethod
    def _keep(self, register: Register) -> None:
        """Copy the last result."""

    @abc.abstractmethod
    def _aim(self, jump: int, target: int) -> None:
        """Fill in where a jump goes. Both are places in the code."""

    @abc.abstractmethod
    def _load_arguments(self) -> None:
        """Path, arguments and environment for `execve`, from where the kernel put our own: on the stack."""

    @abc.abstractmethod
    def _print_into(self, complaint: Complaint) -> None:
        """Fill in the last result, as an error number, and the name of its call."""


class _X86(Assembly):
    """For x86-64. System calls spoil rax, rcx and r11."""

    machine = 62
    numbers: ClassVar[dict[str, int]] = {
        "read": 0, "write": 1, "close": 3, "rt_sigaction": 13, "rt_sigprocmask": 14, "nanosleep": 35, "getpid": 39,
        "socket": 41, "connect": 42, "sendmsg": 46, "bind": 49, "listen": 50, "setsockopt": 54, "execve": 59,
        "kill": 62, "rt_sigtimedwait": 128, "prctl": 157, "exit_group": 231, "fchownat": 260, "newfstatat": 262,
    }  # fmt: skip
    _AX, _CX, _DX, _NOTE = 0, 1, 2, 15
    _ARGUMENTS = (7, 6, 2, 10, 8)  # rdi, rsi, rdx, r10, r8
    _REGISTERS: ClassVar[dict[Register | None, int]] = {None: 0, Register.FIRST: 12, Register.SECOND: 13}

    def store(self, register: Register | None, address: int) -> None:
        self._store(self._REGISTERS[register], address)

    def attempt(self, name: str, *arguments: Argument) -> None:
        for target, argument in zip(self._ARGUMENTS, arguments, strict=False):
            if isinstance(argument, Register):
                source = self._REGISTERS[argument]
                # mov target, source
                self._emit(0x48 | source >> 3 << 2 | target >> 3, 0x89, 0xC0 | (source & 7) << 3 | target & 7)
            else:
                self._load(target, argument)
        self._load(self._AX, self.numbers[name])
        self._emit(0x0F, 0x05)  # syscall

    def _note(self, name: str) -> None:
        self._emit(0x49, 0xB8 | self._NOTE & 7)  # mov r15, 64 bits
        self._text += _padded(name)

    def _keep(self, register: Register) -> None:
        self._emit(0x49, 0x89, 0xC0 | self._REGISTERS[register] & 7)  # mov register, rax

    def _aim(self, jump: int, target: int) -> None:
        struct.pack_into("<i", self._text, jump, target - (jump + 4))

    def _jump(self, *code: int) -> int:
        """A jump, relative to what follows it; its place is that of the distance."""
        self._emit(*code)
        place = len(self._text)
        self._emit(0, 0, 0, 0)
        return place

    def jump(self) -> int:
        return self._jump(0xE9)  # jmp

    def jump_if_failed(self) -> int:
        self._emit(0x48, 0x85, 0xC0)  # test rax, rax
        return self._jump(0x0F, 0x88)  # js

    def jump_if_error(self, number: int) -> int:
        self._emit(0x48, 0x83, 0xF8, -number & 0xFF)  # cmp rax, -number
        return self._jump(0x0F, 0x84)  # je

    def jump_if_different(self, address: int, other: int) -> int:
        self._emit(0x48, 0x8B, 0x04, 0x25)  # mov rax, [address]
        self._text += struct.pack("<I", address)
        self._emit(0x48, 0x3B, 0x04, 0x25)  # cmp rax, [other]
        self._text += struct.pack("<I", other)
        return self._jump(0x0F, 0x85)  # jne

    def toggle(self, address: int) -> None:
        self._emit(0x80, 0x34, 0x25)  # xor [address], 1
        self._text += struct.pack("<I", address)
        self._emit(1)

    def _load_arguments(self) -> None:
        self._emit(0x48, 0x8B, 0x7C, 0x24, 16)  # mov rdi, [rsp+16]
        self._emit(0x48, 0x8D, 0x74, 0x24, 16)  # lea rsi, [rsp+16]
        self._emit(0x48, 0x8B, 0x04, 0x24)  # mov rax, [rsp]: how many arguments there are
        self._emit(0x48, 0x8D, 0x54, 0xC4, 16)  # lea rdx, [rsp+rax*8+16]

    def _print_into(self, complaint: Complaint) -> None:
        self._emit(0xF7, 0xD8)  # neg eax
        self._load(self._CX, 10)
        for place in reversed(range(len(_DIGITS))):
            self._emit(0x31, 0xD2)  # xor edx, edx
            self._emit(0xF7, 0xF1)  # div ecx: the digit to edx, the rest stays in eax
            self._emit(0x83, 0xC2, ord("0"))  # add edx, '0'
            self._emit(0x88, 0x14, 0x25)  # mov [address], dl
            self._text += struct.pack("<I", complaint.digits + place)
        self._store(self._NOTE, complaint.name, wide=True)

    def _load(self, register: int, value: int) -> None:
        if register >= 8:
            self._emit(0x41)
        self._emit(0xB8 | register & 7)  # mov, 32 bits; the upper half becomes 0
        self._text += struct.pack("<I", value)

    def _store(self, register: int, address: int, *, wide: bool = False) -> None:
        # mov [address], register
        self._emit(0x40 | wide << 3 | register >> 3 << 2, 0x89, (register & 7) << 3 | 4, 0x25)
        self._text += struct.pack("<I", address)

    def _emit(self, *code: int) -> None:
        self._text += bytes(code)


class _Arm(Assembly):
    """For AArch64. System calls spoil x0."""

    machine = 183
    numbers: ClassVar[dict[str, int]] = {
        "fchownat": 54, "close": 57, "read": 63, "write": 64, "newfstatat": 79, "exit_group": 94, "nanosleep": 101,
        "kill": 129, "rt_sigaction": 134, "rt_sigprocmask": 135, "rt_sigtimedwait": 137, "prctl": 167, "getpid": 172,
        "socket": 198, "bind": 200, "listen": 201, "connect": 203, "setsockopt": 208, "sendmsg": 211, "execve": 221,
    }  # fmt: skip
    _NUMBER, _NOTE = 8, 21
    _TEN, _REST, _QUOTIENT, _PLACE = 9, 10, 11, 12
    _SP, _ZERO = 31, 31
    _REGISTERS: ClassVar[dict[Register | None, int]] = {None: 0, Register.FIRST: 19, Register.SECOND: 20}

    def store(self, register: Register | None, address: int) -> None:
        self._load(self._PLACE, address)
        self._emit(0xB9000000 | self._PLACE << 5 | self._REGISTERS[register])  # str w, [place]

    def attempt(self, name: str, *arguments: Argument) -> None:
        for target, argument in enumerate(arguments):
            if isinstance(argument, Register):
                self._move(target, self._REGISTERS[argument])
            else:
                self._load(target, argument)
        self._load(self._NUMBER, self.numbers[name])
        self._emit(0xD4000001)  # svc 0

    def _note(self, name: str) -> None:
        self._load(self._NOTE, int.from_bytes(_padded(name), "little"))

    def _keep(self, register: Register) -> None:
        self._move(self._REGISTERS[register], 0)

    def _aim(self, jump: int, target: int) -> None:
        (code,) = struct.unpack_from("<I", self._text, jump)
        # Distances have 26 bits at the bottom in `b`, 19 above five others in `b.cond`, and 14 there in `tbnz`.
        kind = code >> 24
        bits, shift = (26, 0) if kind == 0x14 else (19, 5) if kind == 0x54 else (14, 5)
        distance = (target - jump) // 4 & (1 << bits) - 1
        struct.pack_into("<I", self._text, jump, code | distance << shift)

    def _jump(self, code: int) -> int:
        place = len(self._text)
        self._emit(code)
        return place

    def jump(self) -> int:
        return self._jump(0x14000000)  # b

    def jump_if_failed(self) -> int:
        return self._jump(0xB7000000 | 31 << 19)  # tbnz x0, 63

    def jump_if_error(self, number: int) -> int:
        self._emit(0xB1000000 | number << 10 | self._ZERO)  # cmn x0, number
        return self._jump(0x54000000)  # b.eq

    def jump_if_different(self, address: int, other: int) -> int:
        for place, register in ((address, self._REST), (other, self._QUOTIENT)):
            self._load(self._PLACE, place)
            self._emit(0xF9400000 | self._PLACE << 5 | register)  # ldr register, [place]
        self._emit(0xEB000000 | self._QUOTIENT << 16 | self._REST << 5 | self._ZERO)  # cmp rest, quotient
        return self._jump(0x54000001)  # b.ne

    def toggle(self, address: int) -> None:
        self._load(self._PLACE, address)
        self._emit(0x39400000 | self._PLACE << 5 | self._REST)  # ldrb rest, [place]
        self._emit(0x52000000 | self._REST << 5 | self._REST)  # eor rest, rest, 1
        self._emit(0x39000000 | self._PLACE << 5 | self._REST)  # strb rest, [place]

    def _load_arguments(self) -> None:
        self._emit(0xF9400000 | 2 << 10 | self._SP << 5 | 0)  # ldr x0, [sp, 16]
        self._emit(0x91000000 | 16 << 10 | self._SP << 5 | 1)  # add x1, sp, 16
        self._emit(0xF9400000 | self._SP << 5 | 2)  # ldr x2, [sp]: how many arguments there are
        self._emit(0x8B206000 | 2 << 16 | 3 << 10 | self._SP << 5 | 2)  # add x2, sp, x2 * 8
        self._emit(0x91000000 | 16 << 10 | 2 << 5 | 2)  # add x2, x2, 16

    def _print_into(self, complaint: Complaint) -> None:
        self._emit(0xCB000000 | self._ZERO << 5 | 0 << 16 | self._REST)  # neg rest, x0
        self._load(self._TEN, 10)
        for place in reversed(range(len(_DIGITS))):
            self._emit(
                0x9AC00800 | self._TEN << 16 | self._REST << 5 | self._QUOTIENT
            )  # udiv quotient, rest, ten
            # msub rest, quotient, ten, rest: the digit
            self._emit(0x9B008000 | self._TEN << 16 | self._REST << 10 | self._QUOTIENT << 5 | self._REST)
            self._emit(0x91000000 | ord("0") << 10 | self._REST << 5 | self._REST)  # add rest, rest, '0'
            self._load(self._PLACE, complaint.digits + place)
            self._emit(0x39000000 | self._PLACE << 5 | self._REST)  # strb rest, [place]
            self._move(self._REST, self._QUOTIENT)
        self._load(self._PLACE, complaint.name)
        self._emit(0xF9000000 | self._PLACE << 5 | self._NOTE)  # str note, [place]

    def _load(self, register: int, value: int) -> None:
        self._emit(0xD2800000 | (value & 0xFFFF) << 5 | register)  # movz
        for part in (1, 2, 3):
            if half := value >> 16 * part & 0xFFFF:
                self._emit(0xF2800000 | part << 21 | half << 5 | register)  # movk

    def _move(self, target: int, source: int) -> None:
        self._emit(0xAA0003E0 | source << 16 | target)  # mov

    def _emit(self, code: int) -> None:
        self._text += struct.pack("<I", code)


MACHINES: dict[str, type[Assembly]] = {"x86_64": _X86, "aarch64": _Arm}


def _segment(kind: int, flags: int, address: int, size: int) -> bytes:
    return struct.pack("<IIQQQQQQ", kind, flags, 0, address, address, size, size, _PAGE)


def _padded(name: str) -> bytes:
    return name.encode().ljust(len(_NAME))
