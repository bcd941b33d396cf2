"""What an executable, object file or device image carries: modules, targets, kernels, resources."""

from gpubuild.inspect.disassemble import extract
from gpubuild.inspect.reader import inspect_file
from gpubuild.inspect.records import Inspection, Kernel, Module, Object, select, to_json
from gpubuild.inspect.table import render_table

__all__ = [
    "Inspection",
    "Kernel",
    "Module",
    "Object",
    "extract",
    "inspect_file",
    "render_table",
    "select",
    "to_json",
]
