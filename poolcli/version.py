"""The version of the program, which the build reads here: asking what was installed would take 30 ms of a start."""

VERSION = "1.0.0"
