"""The commands of ``hespas``, one module each with ``main(argv) -> exit code``."""
