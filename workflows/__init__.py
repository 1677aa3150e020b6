"""The workflows behind the commands: typed values in and out, no command lines, no printing."""
