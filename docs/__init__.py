"""The documentation; a package so that its generators are found before those of others."""
