"""What an executable, object file or device image carries: modules, targets, kernels, resources."""

from gpubuild.inspection.extract import extract
from gpubuild.inspection.inspection import Inspection, Kernel, Module, Object, select, to_json
from gpubuild.inspection.read import inspect_file
from gpubuild.inspection.table import render_table

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
