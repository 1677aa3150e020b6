"""Define what a pass is: a frozen dataclass whose fields are its options."""

from __future__ import annotations

import dataclasses
import functools
import math
import re
import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Literal,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

from hespas.dialects.attrs import BRANCH, TRIPS, CommAttr, Cost, MemoryAttr, OnChipAttr, RegionAttr
from hespas.support.entry_points import is_own_code, report_raised_errors
from hespas.support.errors import HespasError, UsageError
from hespas.support.records import record
from hespas.support.settings import BOOLS, list_union_types
from hespas.support.settings import setting as option
from hespas.support.suggestions import suggest_nearest

if TYPE_CHECKING:
    from hespas.dialects.mlir import ir
    from hespas.estimators.op_content import OpContent

__all__ = [
    "FACTS", "Pass", "PassRun", "build_pass", "check_choice", "check_least_values", "ignore_note",
    "option", "print_note", "repeat_option",
]  # fmt: skip

# The attributes that describe ops, so that a pass which changes ops can make them untrue.
FACTS = frozenset(
    (
        Cost.NAME, RegionAttr.NAME, CommAttr.NAME, TRIPS, BRANCH, MemoryAttr.NAME, OnChipAttr.NAME,
    )
)  # fmt: skip

# The options that take the name of a preset, with the folders of these.
PRESET_FOLDERS = {"node": "nodes", "target": "targets"}
PRESET_SIMILARITY = 0.75  # of an option with its value, such as ``node=A100``, to one of a preset

MAX_NUMBER = 2**63 - 1  # options end up in i64 attributes

Artefact = TypeVar("Artefact")


def print_note(text: str) -> None:
    """Print a note or a warning on stderr, as the tools do."""
    print(text, file=sys.stderr)


def ignore_note(text: str) -> None:
    """Print nothing."""


def _spell_pass_option(name: str, value: str) -> str:
    return f"{name}={value}"


def spell_as_flag(name: str, value: str) -> str:
    """Spell an option as a flag of a command of ``hespas``."""
    return f"--{name.replace('_', '-')} {value}"


@record(slots=True)
class EntryOps:
    """The ops of the block of the entry function, in order.

    Their results are numbered from 0, with gaps. Its arguments have the numbers
    before, up to -1, so that they are at the end of a list by number.

    Attributes:
        ops: The ops. Reading them from the block takes 0.6 us for each.
        contents: The content of each compute op; None for calls of regions and other ops.
        reads: For each op, the numbers of the values that it and its bodies read.
        makes: For each op, the numbers of its results.
        regions: The region of each op that has one.
        value_count: The number of arguments and results, erased ones too.
    """

    ops: Sequence[ir.Operation]
    contents: Sequence[OpContent | None]
    reads: Sequence[Sequence[int]]
    makes: Sequence[Sequence[int]]
    regions: Sequence[RegionAttr | None]
    value_count: int


@record()
class PassRun:
    """Where the passes of a pipeline report to, and what they returned.

    No pass reads here what another pass found: that is on the IR. ``contents``, ``leaves`` and
    ``current`` are only caches. They are trusted only inside a pass that declares what it keeps
    (``Pass.keeps``), and the pipeline forgets the rest before the pass starts.

    Attributes:
        input_name: The file name of the module in messages; "-" for standard input.
        keep_going: Whether ops without a cost are tagged and counted instead of stopping.
        checks_devices: Whether the caller refuses a program of another number of devices than it
            asked for, so that no pass warns of it.
        note: Prints a note or a warning; by default nothing is printed.
        warnings: The warnings so far; summaries and ``--json`` repeat them.
        artefacts: What the passes returned, in order.
        contents: The contents of the ops of each region function, in order.
        entry_ops: What a split knows of the ops of the entry function that it has left.
        entry_code: The bytecode of the entry function that ``prepare`` has left, if it has written
            it; without the marks of ``prepare``. Valid until another pass may have changed ops.
        leaves: The ops of each region function without calls and control flow: how many have a name
            and a cost. Valid while ``hespas.cost`` is current.
        op_leaves: The name and the cost of all ops with a content, if the pass before this one has
            written one to all of them. A pass that keeps costs may have written others.
        current: Those of ``FACTS`` that are known to describe the ops as they are.
        trusted: Those of ``FACTS`` that the running pass keeps; none outside a pass.
        progress: Shows a line that the next one replaces, if the tool can.
        spell_option: Spells a pass option and its value as the user of the tool writes them.
        observe: Returns the context in which each pass of a list runs; None if nobody looks.
    """

    input_name: str = "-"
    keep_going: bool = False
    checks_devices: bool = False
    note: Callable[[str], None] = ignore_note
    warnings: list[str] = field(default_factory=list)
    artefacts: list[object] = field(default_factory=list)
    contents: dict[str, list[OpContent]] = field(default_factory=dict)
    entry_ops: EntryOps | None = None
    entry_code: bytes = b""
    leaves: dict[str, Counter[tuple[str, ir.Attribute]]] = field(default_factory=dict)
    op_leaves: dict[OpContent, tuple[str, ir.Attribute]] = field(default_factory=dict)
    current: set[str] = field(default_factory=set)
    trusted: frozenset[str] = frozenset()
    progress: Callable[[str], None] | None = None
    spell_option: Callable[[str, str], str] = _spell_pass_option
    observe: Callable[[Pass], AbstractContextManager[None]] | None = None

    def copy(self) -> PassRun:
        """Copy the run, so that passes on a copy of the module leave this one as it is."""
        return dataclasses.replace(
            self,
            warnings=[*self.warnings],
            artefacts=[*self.artefacts],
            contents={**self.contents},
            leaves={**self.leaves},
            op_leaves={**self.op_leaves},
            current={*self.current},
        )

    @contextmanager
    def keep_facts(self, names: frozenset[str], keeps_ops: bool = True) -> Iterator[None]:
        """Trust what is known of ``names`` inside the context, and forget the other facts.

        Args:
            names: The attributes that a pass keeps true.
            keeps_ops: Whether it leaves all ops as they are and where they are.
        """
        self.current &= names
        if RegionAttr.NAME not in self.current:
            self.contents.clear()
        if RegionAttr.NAME not in self.current or not keeps_ops:
            self.entry_ops = None
        entry_code, op_leaves = self.entry_code, self.op_leaves
        if Cost.NAME not in self.current:
            self.leaves.clear()
            op_leaves.clear()
        self.trusted = names
        try:
            yield
        finally:
            self.trusted = frozenset()
            if self.op_leaves is op_leaves:
                self.op_leaves = {}
            # Marks on ops may be part of their contents, which the fact of regions stands for.
            keeps_contents = keeps_ops and RegionAttr.NAME in names
            if self.entry_code is entry_code and not keeps_contents:
                self.entry_code = b""

    def is_current(self, name: str) -> bool:
        """Return whether an attribute is known to describe the ops as they are."""
        return name in self.current and name in self.trusted

    def mark_current(self, *names: str) -> None:
        """Record that attributes describe the ops as they are, if the running pass keeps them."""
        self.current |= self.trusted.intersection(names)

    def forget_facts(self) -> None:
        """Forget what is known of the ops, because they may have changed."""
        self.contents.clear()
        self.entry_ops = None
        self.entry_code = b""
        self.leaves.clear()
        self.op_leaves.clear()
        self.current.clear()

    def warn(self, text: str) -> None:
        """Print a warning and keep it."""
        # Text parsed from memory (compressed, from a pipe) has "-" for its file name.
        text = re.sub(r"(?<!\S)-(?=:\d+:\d)", lambda _: self.input_name, text)
        if text not in self.warnings:
            self.warnings.append(text)
            self.note(f"warning: {text}")

    def find_artefact(self, kind: type[Artefact]) -> Artefact | None:
        """Return the latest artefact of a class, or None."""
        matching = (artefact for artefact in reversed(self.artefacts) if isinstance(artefact, kind))
        return next(matching, None)

    def get_artefact(self, kind: type[Artefact]) -> Artefact:
        """Return the latest artefact of a class. Raises LookupError if no pass returned one."""
        artefact = self.find_artefact(kind)
        if artefact is None:
            raise LookupError(f"no pass returned {kind.__name__}")
        return artefact


@dataclass(frozen=True)
class Pass(ABC):
    """Base of all passes. The first line of the docstring is the help of the pass.

    Attributes:
        name: The flag of the pass, and its name in textual pipelines.
        prepares: Whether ``prepare`` runs before it, unless it has run.
        keeps: Those of ``FACTS`` that are as true after the pass as before it, or that it brings
            up to date. What a pass does not declare is checked again before it is read. A class
            of another package that derives from a pass of hespas declares it anew.
        only_marks: Whether the pass changes nothing but ``hespas.*`` attributes. MLIR need then not
            verify the ops again.
    """

    name: ClassVar[str]
    prepares: ClassVar[bool] = False
    keeps: ClassVar[frozenset[str]] = frozenset()
    only_marks: ClassVar[bool] = False

    @property
    def is_builtin(self) -> bool:
        """Whether all code of the pass belongs to hespas. The pipeline verifies other passes."""
        return is_own_code(type(self))

    def list_kept_facts(self) -> frozenset[str]:
        """Return ``keeps``, unless a class of another package inherits it from one of hespas.

        Its ``apply`` may change ops that the one of hespas does not.
        """
        if not isinstance(self.keeps, Set):
            raise HespasError(
                f"pass '{self.name}' declares keeps as {self.keeps!r}, not as a set of names",
                remedy="write keeps: ClassVar[frozenset[str]] = frozenset({...})",
            )
        declaring = next(cls for cls in type(self).__mro__ if "keeps" in vars(cls))
        if is_own_code(declaring) and not is_own_code(type(self)):
            return frozenset()
        return self.keeps

    @abstractmethod
    def apply(self, module: ir.Module, run: PassRun) -> object | None:
        """Transform ``module`` in place. Raises HespasError.

        Returns:
            An artefact for the caller of the pipeline, such as ``EmittedTraces``, or None.
        """

    @classmethod
    def get_help_summary(cls) -> str:
        """Return the first line of the docstring."""
        return (cls.__doc__ or "").strip().split("\n", 1)[0]

    @classmethod
    def list_spelled_options(cls) -> list[tuple[str, dataclasses.Field[Any]]]:
        """List the options as the command line spells them, with their fields."""
        return [(f.name.replace("_", "-"), f) for f in dataclasses.fields(cls)]

    def to_pipeline_text(self) -> str:
        """Format the pass without default options: ``split-linear{block-limit=64}``."""
        parts = []
        for spelled, f in self.list_spelled_options():
            value = getattr(self, f.name)
            if value != f.default:
                text = str(value).lower() if isinstance(value, bool) else str(value)
                parts.append(spelled if value is True else f"{spelled}={_quote_value(text)}")
        return f"{self.name}{{{' '.join(parts)}}}" if parts else self.name


def _quote_value(text: str) -> str:
    """Return the value of an option in the quotes that a textual pipeline needs, if any."""
    if re.fullmatch(r"[^\s,(){}<>\[\]\"']*", text):
        return text
    return f"'{text}'" if '"' in text else f'"{text}"'


def repeat_option(cls: type[Pass], name: str) -> Any:
    """Declare an option of another pass again, as it is declared there: a list hands it on."""
    (declared,) = (f for f in dataclasses.fields(cls) if f.name == name)
    return field(default=declared.default, metadata=declared.metadata)


def check_choice(owner: str, noun: str, value: str, known: Iterable[str]) -> None:
    """Raise UsageError if the value of an option is not a known one."""
    if value not in known:
        remedy = suggest_nearest(value, list(known))
        raise UsageError(f"{owner}: no {noun} called '{value}'", remedy=remedy)


def check_least_values(step: Pass) -> None:
    """Raise UsageError if the value of an option is less than its declaration allows."""
    for spelled, declared in step.list_spelled_options():
        least, value = declared.metadata.get("least"), getattr(step, declared.name)
        if least is not None and value < least:
            raise UsageError(f"{step.name}: option '{spelled}' is {value}, less than {least}")


def build_pass(
    cls: type[Pass], texts: dict[str, str | bool], *, owner: str = "", noun: str = "option"
) -> Pass:
    """Build a pass with options from text.

    Args:
        cls: The class of the pass.
        texts: Values by name, with dashes or underscores; True and False for a flag.
        owner: What messages name instead of the pass.
        noun: What messages call an option.

    Raises:
        UsageError: An unknown option, or a value of the wrong type.
    """
    known = dict(cls.list_spelled_options())
    owner = owner or cls.name
    hints = _collect_option_types(cls) if texts else {}
    values = {}
    for written, text in texts.items():
        spelled = written.replace("_", "-")
        if spelled not in known:
            remedy = _suggest_option_text(written, texts, known)
            raise UsageError(f"{owner} has no {noun} '{written}'", remedy=remedy)
        f = known[spelled]
        values[f.name] = _convert_option(f"{owner}: {noun} '{spelled}'", hints[f.name], text)
    with report_raised_errors(f"pass '{cls.name}'", cls, passes_on=(ValueError,)):
        try:
            return cls(**values)
        except ValueError as error:  # of ``__post_init__``, which checks the options
            raise UsageError(f"{owner}: {error}") from error


def _suggest_option_text(
    word: str, texts: Mapping[str, str | bool], known: Mapping[str, dataclasses.Field[Any]]
) -> str:
    """Return what should have been written for a word that is no option.

    Args:
        word: The word as it is written.
        texts: All options as they are written, in order; True for a word without a value.
        known: The options of the pass by their spelling.
    """
    from hespas.configs import list_preset_names  # only errors need it

    text, words = texts[word], [*texts]
    before = words[words.index(word) - 1] if words[0] != word else ""
    # A word without a value may be a flag, and one with a value any option.
    options = [name for name in known if text is not True or isinstance(known[name].default, bool)]
    remedy = suggest_nearest(word, options)
    if text is True and not _is_guess(remedy):
        for name in PRESET_FOLDERS.keys() & known.keys() - texts.keys():
            presets = [f"{name}={preset}" for preset in list_preset_names(PRESET_FOLDERS[name])]
            remedy = suggest_nearest(f"{name}={word}", presets, PRESET_SIMILARITY)
    if _is_guess(remedy):
        return remedy
    if not known:
        return "it has no options"
    listed = ", ".join(sorted(known))
    if isinstance(texts.get(before), str):  # a comma ends a value
        value = word if text is True else f"{word}={text}"
        return (
            f'known: {listed}; a value with a comma is quoted: {before}="{texts[before]},{value}"'
        )
    return f"write NAME={word} with the name of an option: {listed}" if text is True else remedy


def _is_guess(remedy: str) -> bool:
    return remedy.startswith("did you mean")


@functools.cache
def _collect_option_types(cls: type[Pass]) -> dict[str, Any]:
    """Return the types of the options; raises HespasError if a package names one that is not."""
    with report_raised_errors(f"the type of an option of the pass '{cls.name}'", cls):
        return get_type_hints(cls)


def _convert_option(subject: str, hint: Any, text: str | bool) -> Any:
    kinds = set(list_union_types(hint))
    literals = [kind for kind in kinds if get_origin(kind) is Literal]
    words = {str(word): word for kind in literals for word in get_args(kind)}
    if words:
        if text in words:
            return words[text]
        raise UsageError(f"{subject} takes {', '.join(words)}, not '{text}'")
    if bool in kinds:
        if isinstance(text, bool):
            return text
        if text in BOOLS:
            return BOOLS[text]
        raise UsageError(f"{subject} takes true or false, not '{text}'")
    if isinstance(text, bool):
        raise UsageError(f"{subject} needs a value")
    for kind in (int, float):
        if kind in kinds:
            try:
                value = kind(text)
                if math.isfinite(value) if kind is float else abs(value) <= MAX_NUMBER:
                    return value
            except ValueError:
                pass
            expected = "a whole number" if kind is int else "a finite number"
            raise UsageError(f"{subject} takes {expected}, not '{text}'")
    if kinds.isdisjoint((str, Any)):
        names = [str(k) if get_origin(k) else k.__name__ for k in list_union_types(hint)]
        raise UsageError(
            f"{subject} is declared as {' | '.join(names)}, which no text can set",
            remedy="declare it as str, int, float, bool or Literal, and convert it in the pass",
        )
    return text
