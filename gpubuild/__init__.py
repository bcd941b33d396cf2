"""gpubuild: build multi-target GPU programs written in MLIR's gpu dialect.

Importing this package imports nothing heavy; see ``docs/design/architecture.md`` for the layers.
"""

__version__ = "0.1.0.dev0"


def generate(env: object, **options: object) -> None:
    """Make this package an SCons tool for who names its folder in ``toolpath``; SCons calls this."""
    from gpubuild.scons.tool import generate

    generate(env, **options)


def exists(env: object) -> bool:
    """See :func:`generate`."""
    from gpubuild.scons.tool import exists

    return exists(env)
