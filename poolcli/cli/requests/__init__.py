"""What each command is asked: one frozen record a command, one field an option of the same name.

The type and the default of an option are those of its field. `op` and `attributes` of pooling are no options of their
own: the operator is the command's name, and its attributes are the options of its record. Each record has a file of its
own, because to make one takes longer than to parse a command line: the command that is named imports its own.
"""
