"""The commands: one file each, with the arguments and the function that runs the command."""
